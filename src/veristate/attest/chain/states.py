"""How far something on its way to the chain has come. Only FINAL counts as anchored; every other state may be lost."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What is known of a call, or of the head that it carries."""

    QUEUED = "queued"  # kept here, no transaction yet
    SUBMITTED = "submitted"  # signed, and given to a node or about to be; also after a reorganisation took it out
    MINED = "mined"  # in a block of the present chain
    SAFE = "safe"  # in or below the block that the chain calls safe
    FINAL = "final"  # in or below the block that the chain calls finalized
    REVERTED = "reverted"  # mined, but refused by the contract: nothing was anchored
    DISPLACED = "displaced"  # another transaction took its nonce
    SUPERSEDED = "superseded"  # not on the chain itself: a later head of the same log is
    REFUSED = "refused"  # can't be anchored; the reason says why

    @property
    def anchored(self) -> bool:
        """Whether it stands on the chain for good."""
        return self is State.FINAL

    @property
    def on_chain(self) -> bool:
        """Whether the present chain holds it and the contract took it."""
        return self in (State.MINED, State.SAFE, State.FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block by number and hash: after a reorganisation the same number is another block."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where one call or head stands. `block` is where the chain has it, `reason` what a person should know."""

    key: str
    state: State
    transaction: str | None = None
    block: Block | None = None
    by: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One change of a call's state, with the block that was the reason. Moves are only ever added."""

    key: str
    before: State
    after: State
    block: Block | None
    time: str
    reason: str
