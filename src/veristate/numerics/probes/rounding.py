"""The FP64 roundings of the checker itself, rounded outward: what a trusted computation may add to its own bounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
U64 = 2.0**-53
# What underflow may have taken from a bound on its way, in any number of steps that fits into a memory.
TINY = 2.0**-1000
# What underflow may have taken from the root of a sum of squares. Each square and each sum loses less than 2^-1022,
# whether subnormals are kept or flushed: k of each less than 2^-1021 k, whose root is below this for k up to 2^20.
LOST_LENGTH = 2.0**-500


def gamma_upper(roundings: int) -> float:
    """N u / (1 - n u) for n FP64 roundings, rounded up; infinite where n u reaches 1."""
    share = roundings * U64
    return share / (1 - share) * (1 + 2.0**-50) if share < 0.5 else np.inf


def raised(bound: Any, roundings: int) -> Any:
    """An upper bound of what `bound` would be without rounding, if at most so many roundings lie on any way to it.

    Maths: sums, products, quotients and roots of numbers >= 0 are off by at most a factor 1 + gamma_n downward.
    NaN becomes infinite: a bound that can't be computed says nothing.
    """
    value = np.asarray(bound, dtype=np.float64) * (1 + (roundings + 4) * 2 * U64) + TINY
    return np.where(np.isnan(value), np.inf, value)
