"""Where two attempts first part."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request to the agent's model, its whole visible history included, and the response to it."""

    request: str
    response: str


class Parting(StrEnum):
    """What parted two attempts. REQUEST: the history differed, so a tool's output had. RESPONSE: the answer to one and
    the same request differed, which no tool explains. LENGTH: one attempt ended where the other went on.
    """

    REQUEST = "request"
    RESPONSE = "response"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first exchange, counted from 0, in which two attempts differ, and what differs there first."""

    exchange: int
    by: Parting


def first_divergent_step(reference: Sequence[Hashable], candidate: Sequence[Hashable]) -> int | None:
    """The first place, counted from 0, at which two sequences of steps differ; None when they are equal.

    A sequence that is a beginning of the other differs at its own length.
    """
    for place, (one, other) in enumerate(zip(reference, candidate, strict=False)):
        if one != other:
            return place
    shorter = min(len(reference), len(candidate))
    return None if len(reference) == len(candidate) else shorter


def first_divergence(reference: Sequence[Exchange], candidate: Sequence[Exchange]) -> Divergence | None:
    """The first exchange in which two attempts differ, or None when they agree to the end.

    Source: BioAgent-DF Algorithm 1, H.6, H.12 (only responses to identical histories are same-input comparisons).
    """
    place = first_divergent_step(reference, candidate)
    if place is None:
        return None
    if place == min(len(reference), len(candidate)):
        return Divergence(exchange=place, by=Parting.LENGTH)
    same_request = reference[place].request == candidate[place].request
    return Divergence(exchange=place, by=Parting.RESPONSE if same_request else Parting.REQUEST)
