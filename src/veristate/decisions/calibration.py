"""Calibrated ensemble means: from the members' probabilities to the score that rules are asked of."""

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import InputError
from veristate.decisions.table import Floats, require_members, require_temperature

_UNIT = 2.0**-52


def calibrated(p: ArrayLike, temperature: float) -> Floats:
    """sigmoid(logit(p) / temperature), entry by entry; at temperature 1 the very bits of p.

    0 and 1 stay 0 and 1. Each entry depends on nothing but its own value.

    Maths: increasing in p up to the rounding of log, log1p and exp, which `ensemble_interval` allows for. At a
    temperature other than 1 the last bits are numpy's own on this machine: a contract names both.
    Raises: InputError at a temperature other than 1 for values outside [0, 1], and for NaN.
    """
    t = require_temperature(temperature)
    values = np.ascontiguousarray(p, dtype=np.float64)
    if t == 1.0:
        if np.isnan(values).any():
            raise InputError(f"{int(np.isnan(values).sum())} member values are NaN; recompute them first")
        return values.copy()
    outside = ~((values >= 0.0) & (values <= 1.0))
    if outside.any():
        raise InputError(
            f"{int(outside.sum())} member values are no probabilities, {values[outside][0]} among them; "
            "a temperature other than 1 needs values in [0, 1]"
        )
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        logit = np.log(values) - np.log1p(-values)
        return np.asarray(1.0 / (1.0 + np.exp(-(logit / t))))


def ensemble_mean(members: ArrayLike, temperature: float) -> Floats:
    """The mean over the members of their calibrated values, float64 [n].

    Maths: member 0 + member 1 + ... in this order, then one division by their number, each rounded to nearest.
    Shapes: members [m, n], m >= 1.
    Raises: InputError for another shape, and as `calibrated` does.
    """
    return _mean(calibrated(require_members(members), temperature))


def ensemble_interval(lower: ArrayLike, upper: ArrayLike, temperature: float) -> tuple[Floats, Floats]:
    """(lower, upper), each float64 [n]: every `ensemble_mean` of member values between the given bounds lies between.

    Where all members of a candidate are fixed (lower equals upper), both are the bits of `ensemble_mean`.

    Maths: the true calibration increases in p, and the computed one is within half a `_spread_upper` of it, relatively.
    So at an end that is not fixed the computed value is moved outward by the whole spread. Rounded sums and quotients
    never decrease when a term increases, so the mean needs no more.
    Shapes: [m, n] both.
    Raises: InputError for different shapes, lower above upper, and as `calibrated` does.
    """
    low, high = require_members(lower), require_members(upper)
    if low.shape != high.shape:
        raise InputError(f"lower has shape {low.shape} and upper {high.shape}; they must be equal")
    if not (low <= high).all():
        raise InputError(f"{int((~(low <= high)).sum())} member bounds have lower above upper, or NaN")
    low_score, high_score = calibrated(low, temperature), calibrated(high, temperature)
    if temperature != 1.0:
        free = low < high
        spread, tiny = _spread_upper(temperature), 2.0**-1000  # `tiny` covers what exp loses where it overflows
        low_score[free] = np.maximum(low_score[free] * (1.0 - spread) - tiny, 0.0)
        high_score[free] = np.minimum(high_score[free] * (1.0 + spread) + tiny, 1.0)
        if spread >= 2.0**-6:  # so sharp a calibration that its rounding says nothing
            low_score[free], high_score[free] = 0.0, 1.0
    return _mean(low_score), _mean(high_score)


def _spread_upper(temperature: float) -> float:
    """A bound on twice the relative error of one computed calibration.

    Maths: log, log1p and exp are within 4 units in the last place (numpy's own bound for its vector code). With
    |log p| + |log1p(-p)| <= 782 for every float64 in (0, 1), the quotient is off by less than 5 * 782 / T units, and so
    is the exponential, relatively; exp, sum and reciprocal add less than 6. Twice that, rounded up.
    """
    with np.errstate(over="ignore"):
        return float(16.0 * (4.0 + np.float64(800.0) / temperature) * _UNIT)


def _mean(values: Floats) -> Floats:
    """The mean over the first axis in its fixed order."""
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return np.asarray(total / float(len(values)))
