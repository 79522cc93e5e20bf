"""The largest of very many values in one pass, and interval ends rounded outward.

Values come in stretches, as a mapped file is read. Nearly all are passed over a block at a time, by comparing the
whole block with the floor: a value that enough others were seen to reach.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.kernels.compiled import compiled

Floats = NDArray[Any]
Places = NDArray[np.int64]
Ints = NDArray[np.int32]

_STRETCH = 1 << 18
_BLOCK = 128
_STEP = 8
_LEAST_ROOM = 1 << 12
# Rump, Zimmermann, Boldo, Melquiond (2009): x - (phi |x| + eta), rounded to nearest, is the float below x, except where
# x is tiny: there it may be the next but one.
_PHI = 2.0**-53 * (1.0 + 2.0**-52)
_ETA = 2.0**-1074
_TINY = 2.0**-960
_LARGEST = float(np.finfo(np.float64).max)


class Largest:
    """The `count` largest of the values added, equal ones in the order they came, in room for a few times `count`.

    `floor` is a start: only values above it are kept. It may be a guess (`floor_estimate`), for `complete` tells
    whether enough values exceeded it; NaN keeps everything. `limit` is the largest absolute value a value may have.
    """

    __slots__ = ("_blocks", "_count", "_filled", "_floor", "_limit", "_places", "_steps", "_values")

    def __init__(self, count: int, dtype: Any, *, floor: float = math.nan, limit: float = math.inf) -> None:
        self._count, self._filled = count, 0
        self._values: Floats = np.empty(4 * count + _LEAST_ROOM, dtype=dtype)
        self._places: Places = np.empty(len(self._values), dtype=np.int64)
        self._floor, self._limit = self._values.dtype.type(floor), self._values.dtype.type(limit)
        self._blocks, self._steps = (np.empty(_STRETCH // size + 1, dtype=np.int32) for size in (_BLOCK, _STEP))

    @property
    def complete(self) -> bool:
        """Whether `count` values were found, which are then the largest."""
        return self._filled >= self._count

    def add(self, values: Floats, start: int) -> None:
        """Takes the next values, the first of which is at position `start`. Shapes: [any], contiguous.

        Raises: InputError for NaN, and for a value beyond the limit, naming its position.
        """
        for offset in range(0, len(values), _STRETCH):
            stretch, at = values[offset : offset + _STRETCH], 0
            loud = _screen(stretch, self._floor, self._limit, self._blocks, self._steps)
            while at < loud:
                at, self._filled, refused = _keep(
                    stretch,
                    start + offset,
                    self._steps,
                    at,
                    loud,
                    self._floor,
                    self._limit,
                    self._values,
                    self._places,
                    self._filled,
                )
                if refused >= 0:
                    raise InputError(
                        f"the score at position {start + offset + refused} is {stretch[refused]}; scores must be "
                        "finite: recompute or leave out this candidate"
                    )
                if at < loud:
                    self._keep_largest()

    def best(self) -> tuple[Floats, Places]:
        """The largest values and their positions, by ascending position; fewer than `count` unless `complete`."""
        if self._filled > self._count:
            self._keep_largest()
        return self._values[: self._filled].copy(), self._places[: self._filled].copy()

    def _keep_largest(self) -> None:
        """Drops all but the `count` largest. What is equal to the least of them and comes later is no better."""
        values, places = self._values[: self._filled], self._places[: self._filled]
        least = np.partition(values, self._filled - self._count)[self._filled - self._count]
        keep = values > least
        keep[np.flatnonzero(values == least)[: self._count - int(keep.sum())]] = True
        self._values[: self._count], self._places[: self._count] = values[keep], places[keep]
        self._filled, self._floor = self._count, least


def floor_estimate(sample: Floats, count: int, total: int) -> float:
    """A value that, judging by a sample, more than `count` of `total` values exceed; NaN where none is likely to.

    Maths: five standard deviations below the rank that the sample suggests, and not above the best of its third best
    stretch, for values that come in order; one float lower, for values that are equal.
    Shapes: sample [stretches, values of each].
    """
    expected = count * sample.size / total
    rank = math.ceil(expected + 5.0 * math.sqrt(expected) + 5.0)
    if rank > sample.size or len(sample) < 3:
        return math.nan
    ranked = np.partition(sample.ravel(), sample.size - rank)[sample.size - rank]
    value = np.minimum(ranked, np.sort(sample.max(axis=1))[-3])
    return float(np.nextafter(value, sample.dtype.type(-math.inf)))


@compiled()
def outward(scores: Floats, radius: Floats, lower: Floats, upper: Floats) -> int:
    """The position of the first score that is not finite or radius that is no number >= 0; the length if there is none.

    Fills `lower` and `upper` with score - radius and score + radius, rounded down and up.

    Maths: the error of a sum rounded to nearest tells whether to go one float further. Exact sums stay as they are; one
    beyond the largest float is infinite. With one radius for all, the ends are in the order of the scores.
    Shapes: all [n]. Dtypes: float32 or float64 in, float64 out.
    """
    good: Any = True
    tiny: Any = False
    for i in range(len(scores)):
        s, e = np.float64(scores[i]), np.float64(radius[i])
        good &= (abs(s) <= _LARGEST) & (e >= 0.0)
        low, high = s - e, s + e
        low_error, high_error = _error(s, -e, low), _error(s, e, high)
        lower[i] = low if low_error >= 0.0 else low - (_PHI * abs(low) + _ETA)
        upper[i] = high if high_error <= 0.0 else high + (_PHI * abs(high) + _ETA)
        tiny |= (abs(low) < _TINY) & (low_error != 0.0) | (abs(high) < _TINY) & (high_error != 0.0)
    if not good:
        for i in range(len(scores)):
            if not (abs(np.float64(scores[i])) <= _LARGEST and radius[i] >= 0.0):
                return i
    if tiny:
        for i in range(len(scores)):
            s, e = np.float64(scores[i]), np.float64(radius[i])
            low, high = s - e, s + e
            lower[i] = low if _error(s, -e, low) >= 0.0 else math.nextafter(low, -math.inf)
            upper[i] = high if _error(s, e, high) <= 0.0 else math.nextafter(high, math.inf)
    return len(scores)


@compiled()
def _error(a: float, b: float, total: float) -> float:
    """The exact sum a + b less `total`, their sum rounded to nearest (TwoSum); NaN where that is infinite."""
    back = total - a
    return (a - (total - back)) + (b - back)


@compiled()
def _screen(values: Floats, floor: float, limit: float, blocks: Ints, steps: Ints) -> int:
    """How many steps hold a value above the floor, below -limit, or NaN; `steps` are their positions.

    Blocks first, then the steps of those that are not quiet. Without a branch on what was read: a wrong guess of the
    processor costs more than a block.
    """
    loud, count, whole = 0, 0, len(values) // _BLOCK * _BLOCK
    for at in range(0, whole, _BLOCK):
        quiet = True
        for i in range(at, at + _BLOCK):
            quiet &= (values[i] >= -limit) & (values[i] <= floor)
        blocks[loud] = at
        loud += not quiet
    for number in range(loud):
        block = int(blocks[number])
        for at in range(block, block + _BLOCK, _STEP):
            quiet = True
            for i in range(at, at + _STEP):
                quiet &= (values[i] >= -limit) & (values[i] <= floor)
            steps[count] = at
            count += not quiet
    for at in range(whole, len(values), _STEP):
        steps[count] = at
        count += 1
    return count


@compiled()
def _keep(
    values: Floats,
    start: int,
    steps: Ints,
    at: int,
    count: int,
    floor: float,
    limit: float,
    kept: Floats,
    places: Places,
    filled: int,
) -> tuple[int, int, int]:
    """The step it stopped before, for want of room; how many values are kept now; a refused position, or -1.

    `not (x <= floor)` holds for a floor of NaN too: then everything is kept.
    """
    while at < count and filled <= len(kept) - _STEP:
        first = int(steps[at])
        for i in range(first, min(first + _STEP, len(values))):
            value = values[i]
            if not (abs(value) <= limit):
                return at, filled, i
            kept[filled], places[filled] = value, start + i
            filled += not (value <= floor)
        at += 1
    return at, filled, -1
