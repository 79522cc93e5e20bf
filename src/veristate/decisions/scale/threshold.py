"""The threshold certificate of very many intervals: each one inside, outside, or open."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import InputError
from veristate.decisions.scale.intervals import ENDS_STRETCH, Around, Between, Intervals, stretches
from veristate.decisions.scale.top_k import LISTED
from veristate.decisions.table import Indices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThresholdCertificate:
    """Whether a threshold rule takes one value on all scores that lie in their intervals.

    `inside` candidates are chosen and `outside` are not, whatever the scores are; `open_count` are neither, and
    `open_listed` are the positions of the first of them, ascending. When `certified` the chosen are those with a score
    >= threshold: they are counted here, not listed.
    """

    certified: bool
    threshold: float
    inside: int
    outside: int
    open_count: int
    open_listed: Indices

    @property
    def reason(self) -> str:
        """Why it is certified or not, in words."""
        sides = f"{self.inside} lower ends are >= {self.threshold!r}, {self.outside} upper ends are < it"
        return f"{sides}, {self.open_count} intervals hold both" if self.open_count else f"{sides}, and no others"


def certify_threshold(
    scores: ArrayLike, threshold: float | str, *, radius: ArrayLike = 0.0, list_at_most: int = LISTED
) -> ThresholdCertificate:
    """Whether score >= threshold has one answer for each candidate, for all scores within `radius` of these.

    Maths: as `certify`: inside when lower >= t, outside when upper < t, t being the float64 nearest to the threshold.
    Shapes: scores [n]; radius [n] or a number.
    Dtypes: float16, float32 and float64, all converted exactly; score -+ radius is rounded outward in float64.
    Raises: InputError for shapes that don't fit, a threshold or a score that is not finite, a radius that is no number
    >= 0.
    """
    return _certificate(Around.of(scores, radius), threshold, list_at_most)


def certify_threshold_between(
    lower: ArrayLike, upper: ArrayLike, threshold: float | str, *, list_at_most: int = LISTED
) -> ThresholdCertificate:
    """`certify_threshold` for intervals given by their ends, which may be infinite.

    Raises: InputError for shapes that don't fit, a threshold that is not finite, NaN, and lower above upper.
    """
    return _certificate(Between.of(lower, upper), threshold, list_at_most)


def _certificate(intervals: Intervals, threshold: float | str, list_at_most: int) -> ThresholdCertificate:
    t = _number(threshold)
    inside = outside = open_count = 0
    listed = [np.empty(0, dtype=np.int64)]
    for start, stop in stretches(len(intervals), ENDS_STRETCH):
        lower, upper = intervals.ends(start, stop)
        above, below = lower >= t, upper < t
        inside, outside = inside + int(np.count_nonzero(above)), outside + int(np.count_nonzero(below))
        if inside + outside + open_count < stop:
            undecided = np.flatnonzero(~(above | below))
            listed.append(start + undecided[: max(list_at_most - open_count, 0)])
            open_count += len(undecided)
    return ThresholdCertificate(
        certified=open_count == 0,
        threshold=t,
        inside=inside,
        outside=outside,
        open_count=open_count,
        open_listed=np.concatenate(listed),
    )


def _number(threshold: float | str) -> float:
    try:
        t = float(threshold)
    except (TypeError, ValueError) as error:
        raise InputError(f"the threshold {threshold!r} is no decimal number") from error
    if not math.isfinite(t):
        raise InputError(f"the threshold is {threshold!r}; it must be finite")
    return t
