"""Rounds that narrow proven enclosures until every rule is certified: Algorithm 3 where nothing is known as bits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from veristate.core import Decision, EnvironmentUnusableError, InputError
from veristate.decisions.admissible import Box, Certified, Unresolved
from veristate.decisions.question import Current, Question
from veristate.decisions.table import Indices, Mask

Ended = Literal["certified", "budget", "nothing narrower"]
# For the units of the mask [m, n], enclosures of their exact values; the score range or wider elsewhere.
Enclose = Callable[[Mask], Box]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NarrowingRound:
    """How many candidates were open for each rule, and the units [m, n] that were enclosed anew."""

    open: tuple[int, ...]
    asked: Mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Narrowed:
    """How the rounds ended: the enclosures [m, n] by then, which units were recomputed, and each rule's result.

    "nothing narrower": every unit of every open candidate was recomputed and a tie is closer than FP64 tells apart.
    """

    box: Box
    done: Mask
    results: tuple[Certified | Unresolved, ...]
    rounds: tuple[NarrowingRound, ...]
    ended: Ended

    @property
    def certified(self) -> bool:
        """Whether every rule takes one value on the enclosures."""
        return self.ended == "certified"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The certified decisions, one per rule; none unless all are certified."""
        found = tuple(result.decision for result in self.results if isinstance(result, Certified))
        return found if self.certified else ()

    @property
    def units_spent(self) -> int:
        """How many units were recomputed."""
        return int(self.done.sum())


def narrow_rounds(
    question: Question, proven: Box, enclose: Enclose, *, budget: int | None = None, done: Mask | None = None
) -> Narrowed:
    """The outcome of recomputing, round after round, the widest unit of every open candidate until all are certified.

    `proven` [m, n] holds the exact member values, except with the probability that its evidence states; `enclose`
    recomputes units and returns narrow enclosures of them. A round that would pass the `budget`, in units, isn't begun.

    Of equal candidates the first is recomputed for all.

    Maths: all boxes hold the exact values at once, so their intersection does, and so a decision certified on it is
    theirs (Proposition 1). Each round recomputes a unit of every open candidate: at most m rounds per candidate.
    Raises: InputError for shapes that don't fit; UndecidedError when two enclosures of one value are disjoint: then one
    of them is wrong and neither may be used; EnvironmentUnusableError when `enclose` tells nothing of what was asked.
    Source: BioAgent-DF Algorithm 3, Proposition 1. Differs: recomputed values are intervals too, since C1 asks for real
    numbers and the trusted executor has FP64.
    """
    if proven.lower.ndim != 2 or proven.lower.shape[1] != len(question.ids):
        raise InputError(f"enclosures of shape {proven.lower.shape} don't fit {len(question.ids)} candidates")
    if budget is not None and budget < 0:
        raise InputError(f"the budget is {budget} units; give 0 or more, or None for no limit")
    box = Box.trivial(proven.lower.shape, question.score_range).with_enclosures(proven)
    box = box.with_equal(question.classes)
    known = np.zeros(box.lower.shape, dtype=np.bool_) if done is None else done.copy()
    rounds: list[NarrowingRound] = []
    ended: Ended = "certified"
    while True:
        current = Current.of(replace(question, enclosures=box), np.zeros(box.lower.shape))
        if current.certified:
            break
        asked = _widest(box, _first_of_equal(current.open_units(), question.classes) & ~known)
        if not asked.any():
            ended = "nothing narrower"
            break
        if budget is not None and int((known | asked).sum()) > budget:
            ended = "budget"
            break
        box = box.with_enclosures(_told(enclose(asked), asked, box)).with_equal(question.classes)
        known |= asked
        rounds.append(NarrowingRound(open=tuple(map(_open, current.results)), asked=asked))
    return Narrowed(box=box, done=known, results=current.results, rounds=tuple(rounds), ended=ended)


def _widest(box: Box, units: Mask) -> Mask:
    """Of each candidate's units the one whose enclosure is widest, the first of equals."""
    width = np.where(units, box.upper - box.lower, -1.0)
    chosen = np.zeros_like(units)
    chosen[width.argmax(axis=0), np.arange(units.shape[1])] = True
    return chosen & units


def _first_of_equal(units: Mask, classes: Indices | None) -> Mask:
    """The units asked of the first candidate of each class, where any of the class is asked for."""
    if classes is None:
        return units
    asked = np.zeros_like(units)
    members, candidates = np.nonzero(units)
    asked[members, classes[candidates]] = True
    return asked


def _told(given: Box, asked: Mask, box: Box) -> Box:
    """What was enclosed anew. Raises: EnvironmentUnusableError where that is no narrower than nothing at all."""
    if given.lower.shape != asked.shape:
        raise InputError(f"recomputed enclosures have shape {given.lower.shape}, not {asked.shape}")
    idle = asked & ~((given.upper - given.lower) < 2.0**-10)
    if idle.any():
        member, candidate = np.argwhere(idle)[0]
        raise EnvironmentUnusableError(
            f"the trusted executor can't enclose candidate {candidate} of member {member} more narrowly than "
            f"[{given.lower[member, candidate]}, {given.upper[member, candidate]}]: its values are not finite"
        )
    return Box(lower=np.where(asked, given.lower, box.lower), upper=np.where(asked, given.upper, box.upper))


def _open(result: Certified | Unresolved) -> int:
    return len(result.indices) if isinstance(result, Unresolved) else 0
