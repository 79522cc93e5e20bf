"""Enclosures: contracts that bounds can meet, and the rounds that narrow them until every rule is certified."""

from veristate.decisions.enclosures.contracts import (
    MEANING,
    NAMES,
    Certifies,
    Declined,
    Strategy,
    Terms,
    bounds_meet,
    contract_kind,
)
from veristate.decisions.enclosures.narrowing import Ended, Narrowed, NarrowingRound, narrow_rounds
from veristate.decisions.enclosures.wanted import Wanted

__all__ = [
    "MEANING",
    "NAMES",
    "Certifies",
    "Declined",
    "Ended",
    "Narrowed",
    "NarrowingRound",
    "Strategy",
    "Terms",
    "Wanted",
    "bounds_meet",
    "contract_kind",
    "narrow_rounds",
]
