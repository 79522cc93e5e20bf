"""An interval for each of very many candidates, made a stretch at a time from arrays that may lie in a mapped file."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError
from veristate.decisions.table import Floats, Indices
from veristate.numerics import outward

AnyFloats = NDArray[Any]
Ends = tuple[Floats, Floats]
Reaching = tuple[Indices, Floats, Floats]

# The ends of a stretch stay in the processor's cache; scores alone are passed over too fast for short ones.
ENDS_STRETCH = 1 << 15
SCORES_STRETCH = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """The intervals [score - radius, score + radius], rounded outward in float64.

    Shapes: scores [n]; radius [n], or a number for all.
    """

    scores: AnyFloats
    radius: AnyFloats | float

    @classmethod
    def of(cls, scores: ArrayLike, radius: ArrayLike) -> Self:
        """The intervals; nothing is copied that is an array of floats already.

        Raises: InputError for shapes or types that don't fit, and for a radius for all that is no number >= 0.
        """
        values = require_floats(scores, "the scores")
        if np.ndim(radius):
            return cls(scores=values, radius=require_floats(radius, "the radii", len(values)))
        e = float(np.asarray(radius, dtype=np.float64))
        if not e >= 0.0:
            raise InputError(f"the radius is {e!r}; it must be a number >= 0")
        return cls(scores=values, radius=e)

    def __len__(self) -> int:
        return len(self.scores)

    def ends(self, start: int, stop: int) -> Ends:
        """float64, the lower and the upper ends of these positions.

        Raises: InputError for a score that is not finite and a radius that is no number >= 0, naming its position.
        """
        scores = stretch_of(self.scores, start, stop)
        if isinstance(self.radius, float):
            radius = np.full(len(scores), self.radius)
        else:
            radius = stretch_of(self.radius, start, stop)
        lower, upper = np.empty(len(scores)), np.empty(len(scores))
        at = outward(scores, radius, lower, upper)
        if at < len(scores):
            raise InputError(
                f"the score at position {start + at} is {scores[at]} and its radius {radius[at]}; scores must be "
                "finite and radii >= 0: recompute or leave out this candidate"
            )
        return lower, upper

    def reaching(self, value: float) -> Iterator[Reaching]:
        """The positions whose upper end is at least `value`, with their ends, in order and some at a time."""
        if not isinstance(self.radius, float):
            yield from _reaching(self, value)
            return
        # A score up to the cut, plus the radius, is at most the float below the value, and so is its upper end.
        below = math.nextafter(value, -math.inf)
        cut = _rounded_down(math.nextafter(below - self.radius, -math.inf), self.scores.dtype)
        for start, stop in stretches(len(self), SCORES_STRETCH):
            scores = stretch_of(self.scores, start, stop)
            at = np.flatnonzero(scores > cut) if cut > -math.inf else np.arange(len(scores))
            lower, upper = Around(scores=scores[at], radius=self.radius).ends(0, len(at))
            near = upper >= value
            yield start + at[near], lower[near], upper[near]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Between:
    """The intervals [lower, upper] as given; their ends may be infinite. Shapes: [n]."""

    lower: AnyFloats
    upper: AnyFloats

    @classmethod
    def of(cls, lower: ArrayLike, upper: ArrayLike) -> Self:
        """The intervals; nothing is copied that is an array of floats already.

        Raises: InputError for shapes or types that don't fit.
        """
        low = require_floats(lower, "the lower ends")
        return cls(lower=low, upper=require_floats(upper, "the upper ends", len(low)))

    def __len__(self) -> int:
        return len(self.lower)

    def ends(self, start: int, stop: int) -> Ends:
        """float64, the lower and the upper ends of these positions.

        Raises: InputError for NaN and for lower above upper, naming the position.
        """
        lower, upper = (
            stretch_of(array, start, stop).astype(np.float64, copy=False) for array in (self.lower, self.upper)
        )
        ordered = lower <= upper
        if not ordered.all():
            at = int(np.argmin(ordered))
            raise InputError(f"at position {start + at} lower is above upper, or NaN: [{lower[at]}, {upper[at]}]")
        return lower, upper

    def reaching(self, value: float) -> Iterator[Reaching]:
        """The positions whose upper end is at least `value`, with their ends, in order and some at a time."""
        return _reaching(self, value)


Intervals = Around | Between


def require_floats(values: ArrayLike, what: str, length: int | None = None) -> AnyFloats:
    """`values` as a one-dimensional array of float16, float32 or float64, an array not copied.

    Raises: InputError for another type or shape, and for an empty array.
    """
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=np.float64)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(f"{what} are {array.dtype}; give float16, float32 or float64")
    if array.ndim != 1 or not len(array) or len(array) != (length or len(array)):
        wanted = f"({length},)" if length else "(n,), n > 0"
        raise InputError(f"{what} must have shape {wanted}, not {array.shape}")
    return array


def stretches(n: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive stretches of at most `size` of n positions."""
    return ((start, min(start + size, n)) for start in range(0, n, size))


def stretch_of(array: AnyFloats, start: int, stop: int) -> AnyFloats:
    """A stretch of an array as float32 or float64 in this machine's order; copied only where it is not that yet."""
    part = array[start:stop]
    return np.ascontiguousarray(part, dtype=np.float64 if part.dtype.itemsize == 8 else np.float32)


def _reaching(intervals: Intervals, value: float) -> Iterator[Reaching]:
    for start, stop in stretches(len(intervals), ENDS_STRETCH):
        lower, upper = intervals.ends(start, stop)
        at = np.flatnonzero(upper >= value)
        yield start + at, lower[at], upper[at]


def _rounded_down(value: float, dtype: np.dtype[Any]) -> float:
    """The largest float of the narrower type that is at most `value`."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(value).astype(dtype)
    return float(np.nextafter(rounded, dtype.type(-math.inf)) if float(rounded) > value else rounded)
