"""Where a Top-K list ends: the K-th best lower end and the next best upper end, in one pass; the rest only for ties."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.decisions.scale.intervals import (
    ENDS_STRETCH,
    SCORES_STRETCH,
    Around,
    Intervals,
    Reaching,
    stretch_of,
    stretches,
)
from veristate.decisions.scale.ties import Ties
from veristate.decisions.table import Floats, Indices, Mask
from veristate.numerics import Largest, floor_estimate

Columns = Callable[[int, int], Sequence[NDArray[Any]]]

# A guess of where to begin is worth a look at one value in so many, in so many places.
_SAMPLED = 256
_PLACES = 64
_LEAST_SAMPLED = 1 << 16
_HELD = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalEnd:
    """One end of the interval of the candidate at `position`; `identifier` is None where positions break ties."""

    position: int
    identifier: str | None
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leading:
    """What one pass finds: `last`, the K-th best lower end, and `first`, the (K+1)-th best upper end.

    Their values are exact; whose they are among equals only where `exact`. `chosen` are the positions of the K best
    lower ends, the same whatever the ties when last.value > first.value.
    """

    chosen: Indices
    last: IntervalEnd
    first: IntervalEnd
    exact: bool


class Reached:
    """The candidates that may be chosen: those whose upper end is at least `value`, with their ends, some at a time.

    Gone over more than once; kept where they are few, read again where not.
    """

    __slots__ = ("_intervals", "_kept", "_value")

    def __init__(self, intervals: Intervals, value: float) -> None:
        self._intervals, self._value = intervals, value
        self._kept: list[Reaching] | None = None

    def __iter__(self) -> Iterator[Reaching]:
        if self._kept is not None:
            yield from self._kept
            return
        parts: list[Reaching] = []
        held = 0
        for part in self._intervals.reaching(self._value):
            held += len(part[0])
            parts.append(part) if held <= _HELD else parts.clear()
            yield part
        if held <= _HELD:
            self._kept = parts


def leading(intervals: Intervals, count: int, ties: Ties) -> Leading:
    """The boundary of the `count` best, for fewer than all. Reads every interval once, more only after a bad guess."""
    if isinstance(intervals, Around) and isinstance(intervals.radius, float):
        return _leading_scores(intervals, intervals.radius, count, ties)
    (low, low_at), (high, high_at) = _largest(
        intervals.ends, len(intervals), (count, count + 1), np.dtype(np.float64), ENDS_STRETCH, math.inf
    )
    last, first = _last_least(low), _last_least(high)
    return Leading(
        chosen=low_at,
        last=_end(ties, int(low_at[last]), float(low[last])),
        first=_end(ties, int(high_at[first]), float(high[first])),
        exact=ties.by_position,
    )


def boundary(reached: Reached, count: int, ties: Ties, found: Leading) -> tuple[IntervalEnd, IntervalEnd]:
    """The K-th best lower end and the (K+1)-th best upper end, equal ones told apart. Needs last <= first."""
    last, first = found.last.value, found.first.value
    above_last = above_first = 0
    at_last: list[int] = []
    at_first: list[int] = []
    for positions, lower, upper in reached:
        above_last += int(np.count_nonzero(lower > last))
        above_first += int(np.count_nonzero(upper > first))
        at_last = ties.first(positions[lower == last], count, at_last)
        at_first = ties.first(positions[upper == first], count + 1, at_first)
    return (
        _end(ties, at_last[count - above_last - 1], last),
        _end(ties, at_first[count - above_first], first),
    )


def beats(values: Floats, positions: Indices, mark: IntervalEnd, ties: Ties) -> Mask:
    """For each of these ends whether it comes before the marked one: greater, or equal and its candidate first."""
    result: Mask = values > mark.value
    equal = np.flatnonzero(values == mark.value)
    if equal.size:
        result[equal] = ties.before(positions[equal], mark.position)
    return result


def _leading_scores(intervals: Around, radius: float, count: int, ties: Ties) -> Leading:
    """The boundary for one radius, from the scores alone: rounding outward keeps order, but may make ends equal."""
    dtype = stretch_of(intervals.scores, 0, 1).dtype

    def columns(start: int, stop: int) -> Sequence[NDArray[Any]]:
        return (stretch_of(intervals.scores, start, stop),)

    limit = float(np.finfo(dtype).max)
    ((values, positions),) = _largest(columns, len(intervals), (count + 1,), dtype, SCORES_STRETCH, limit)
    out = _last_least(values)
    inside = np.delete(np.arange(count + 1), out)
    worst = int(inside[_last_least(values[inside])])
    lower, upper = Around(scores=values[[worst, out]], radius=radius).ends(0, 2)
    return Leading(
        chosen=positions[inside],
        last=_end(ties, int(positions[worst]), float(lower[0])),
        first=_end(ties, int(positions[out]), float(upper[1])),
        exact=ties.by_position and radius == 0.0,
    )


def _largest(
    columns: Columns, n: int, counts: tuple[int, ...], dtype: np.dtype[Any], size: int, limit: float
) -> list[tuple[NDArray[Any], Indices]]:
    """For each column its `count` largest values and their positions, in one pass that starts from a guess."""
    guesses = [math.nan] * len(counts)
    if n >= _LEAST_SAMPLED:
        each = n // _SAMPLED // _PLACES
        parts = [columns(start, start + each) for start in ((2 * i + 1) * n // (2 * _PLACES) for i in range(_PLACES))]
        guesses = [
            floor_estimate(np.stack(column), count, n)
            for column, count in zip(zip(*parts, strict=True), counts, strict=True)
        ]
    while True:
        found = [Largest(count, dtype, floor=f, limit=limit) for count, f in zip(counts, guesses, strict=True)]
        for start, stop in stretches(n, size):
            for largest, values in zip(found, columns(start, stop), strict=True):
                largest.add(values, start)
        if all(largest.complete for largest in found):
            return [largest.best() for largest in found]
        guesses = [math.nan] * len(counts)  # too high; without one there are always enough


def _last_least(values: NDArray[Any]) -> int:
    """The index of the least value, of equal ones the last: by position the worst."""
    return len(values) - 1 - int(np.argmin(values[::-1]))


def _end(ties: Ties, position: int, value: float) -> IntervalEnd:
    return IntervalEnd(position=position, identifier=ties.text(position), value=value)
