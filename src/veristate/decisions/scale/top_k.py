"""The Top-K certificate of very many intervals: who is chosen whatever the scores are, and what is left open."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError
from veristate.decisions.scale.boundary import IntervalEnd, Reached, beats, boundary, leading
from veristate.decisions.scale.intervals import ENDS_STRETCH, Around, Between, Intervals, stretches
from veristate.decisions.scale.ties import Ties
from veristate.decisions.table import Floats, Indices

Identifiers = Sequence[str] | NDArray[np.str_]

LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopKCertificate:
    """Whether a Top-K rule takes one value on all scores that lie in their intervals, and which.

    `chosen` are the ascending positions that are chosen whatever the scores are: `count` of them when `certified`,
    fewer otherwise. `last` is the worst lower end among the K best lower ends, `challenger` the best upper end of the
    others; they are None when all are chosen. Of equal ends in a certificate with a gap, any one is named.
    `open_count` candidates may be chosen or not and their score is not fixed; `open_listed` are the first of them.
    """

    certified: bool
    count: int
    candidates: int
    chosen: Indices
    last: IntervalEnd | None
    challenger: IntervalEnd | None
    open_count: int
    open_listed: Indices

    @property
    def gap_lower(self) -> float:
        """The difference of `last` and `challenger`, rounded down: 0 where the ends meet, +inf when all are chosen."""
        if self.last is None or self.challenger is None:
            return math.inf
        return _difference_lower(self.last.value, self.challenger.value)

    @property
    def reason(self) -> str:
        """Why it is certified or not, in words."""
        if self.last is None or self.challenger is None:
            return f"all {self.candidates} candidates are chosen"
        relation = "is above" if self.gap_lower > 0 else "is below" if self.gap_lower < 0 else "equals"
        tie = "" if self.gap_lower else f", and {'wins' if self.certified else 'may lose'} the tie"
        left = "" if self.certified else f"; {self.open_count} candidates are open"
        last, challenger = _named(self.last), _named(self.challenger)
        return f"the last lower end inside, {last}, {relation} the best upper end outside, {challenger}{tie}{left}"


def certify_top_k(
    scores: ArrayLike,
    k: int,
    *,
    radius: ArrayLike = 0.0,
    identifiers: Identifiers | None = None,
    list_at_most: int = LISTED,
) -> TopKCertificate:
    """Whether the k best are the same for all scores within `radius` of these; with radius 0, who they are.

    Reads the scores once, after a look at some of them; again where intervals overlap or identifiers break a tie at the
    boundary. Holds a few k scores and positions beside them.

    Maths: as `certify`: i beats j when lower_i > upper_j, or they are equal and i comes first. With L the K-th best
    lower end and U the (K+1)-th best upper end, i is chosen everywhere when its lower end beats U, nowhere when L beats
    its upper end; certified when L beats U.
    Shapes: scores [n]; radius [n] or a number; identifiers [n], read where ends are equal at the boundary. Without
    them the earlier position comes first. Two equal identifiers are noticed only there.
    Dtypes: float16, float32 and float64, all converted exactly; score -+ radius is rounded outward in float64.
    Raises: InputError for shapes that don't fit, k outside 1..n, a score that is not finite, a radius that is no number
    >= 0.
    Source: BioAgent-DF Corollary 1 (K.2).
    """
    return _certificate(Around.of(scores, radius), k, identifiers, list_at_most)


def certify_top_k_between(
    lower: ArrayLike,
    upper: ArrayLike,
    k: int,
    *,
    identifiers: Identifiers | None = None,
    list_at_most: int = LISTED,
) -> TopKCertificate:
    """`certify_top_k` for intervals given by their ends, which may be infinite.

    Raises: InputError for shapes that don't fit, k outside 1..n, NaN, and lower above upper.
    """
    return _certificate(Between.of(lower, upper), k, identifiers, list_at_most)


def _certificate(
    intervals: Intervals, count: int, identifiers: Identifiers | None, list_at_most: int
) -> TopKCertificate:
    n = len(intervals)
    if not (type(count) is int and 1 <= count <= n):
        raise InputError(f"K is {count!r}; with {n} candidates it must be 1..{n}")
    ties = Ties(identifiers, n)
    if count == n:
        for start, stop in stretches(n, ENDS_STRETCH):
            intervals.ends(start, stop)
        return _certified(intervals, count, np.arange(n), None, None)
    found = leading(intervals, count, ties)
    if found.last.value > found.first.value or (found.exact and _beats(found.last, found.first, ties)):
        return _certified(intervals, count, found.chosen, found.last, found.first)
    reached = Reached(intervals, found.last.value)
    last, first = (found.last, found.first) if found.exact else boundary(reached, count, ties, found)
    return _sorted_out(reached, count, len(intervals), ties, last, first, list_at_most)


def _certified(
    intervals: Intervals, count: int, chosen: Indices, last: IntervalEnd | None, challenger: IntervalEnd | None
) -> TopKCertificate:
    return TopKCertificate(
        certified=True,
        count=count,
        candidates=len(intervals),
        chosen=chosen,
        last=last,
        challenger=challenger,
        open_count=0,
        open_listed=np.empty(0, dtype=np.int64),
    )


def _sorted_out(
    reached: Reached, count: int, n: int, ties: Ties, last: IntervalEnd, first: IntervalEnd, list_at_most: int
) -> TopKCertificate:
    """The certificate by going over the candidates that may be chosen; all others are below `last`."""
    chosen, listed, open_count = [], [], 0
    challenger: IntervalEnd | None = None
    for positions, lower, upper in reached:
        inside = beats(lower, positions, first, ties)
        undecided = ~inside & beats(upper, positions, last, ties) & (lower < upper)
        chosen.append(positions[inside])
        listed.append(positions[np.flatnonzero(undecided)[: max(list_at_most - open_count, 0)]])
        open_count += int(np.count_nonzero(undecided))
        others = ~(beats(lower, positions, last, ties) | (positions == last.position))
        challenger = _best(upper[others], positions[others], ties, challenger)
    return TopKCertificate(
        certified=_beats(last, first, ties),
        count=count,
        candidates=n,
        chosen=np.concatenate(chosen),
        last=last,
        challenger=challenger,
        open_count=open_count,
        open_listed=np.concatenate(listed),
    )


def _best(upper: Floats, positions: Indices, ties: Ties, so_far: IntervalEnd | None) -> IntervalEnd | None:
    """The best of these upper ends and the best so far."""
    if not len(upper) or (so_far is not None and upper.max() < so_far.value):
        return so_far
    value = float(upper.max())
    held = [so_far.position] if so_far is not None and so_far.value == value else []
    position = ties.first(positions[upper == value], 1, held)[0]
    return IntervalEnd(position=position, identifier=ties.text(position), value=value)


def _beats(a: IntervalEnd, b: IntervalEnd, ties: Ties) -> bool:
    return bool(beats(np.array([a.value]), np.array([a.position]), b, ties)[0])


def _difference_lower(a: float, b: float) -> float:
    """The difference a - b rounded down; 0 for equal infinities."""
    difference = a - b if a != b else 0.0
    if math.isinf(a) or math.isinf(b) or difference == -math.inf:
        return difference
    difference = min(difference, sys.float_info.max)
    return difference if Fraction(difference) <= Fraction(a) - Fraction(b) else math.nextafter(difference, -math.inf)


def _named(end: IntervalEnd) -> str:
    name = f"position {end.position}" if end.identifier is None else f"{end.identifier!r} at position {end.position}"
    return f"{end.value!r} of {name}"
