"""Research states and the record of a campaign: cards, and what the journal's entries say taken together."""

from veristate.research.states.cards import Card, Place
from veristate.research.states.standing import Decided, Segment, Session, Standing, WorkerStanding

__all__ = ["Card", "Decided", "Place", "Segment", "Session", "Standing", "WorkerStanding"]
