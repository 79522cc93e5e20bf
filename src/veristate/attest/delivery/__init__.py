"""From the journal to the log: what was committed to offline is delivered later, in order, once."""

from veristate.attest.delivery.outbox import Delivery, Item, Outbox, Stamp, State, Submit

__all__ = ["Delivery", "Item", "Outbox", "Stamp", "State", "Submit"]
