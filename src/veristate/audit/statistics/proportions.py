"""Intervals of a share counted among independent trials."""

import math
from statistics import NormalDist

from veristate.core import InputError


def wilson(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """The two-sided Wilson score interval of a share; (0, 1) where there was no trial.

    Raises: InputError for counts that are no share and a level outside (0, 1).
    """
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} of {trials} is no share; successes lie in 0..trials")
    if not 0 < level < 1:
        raise InputError(f"the level is {level!r}; it lies between 0 and 1, such as 0.95")
    if not trials:
        return (0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, stretch = successes / trials, 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / stretch
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / stretch
    lower = 0.0 if successes == 0 else max(0.0, centre - half)
    upper = 1.0 if successes == trials else min(1.0, centre + half)
    return (lower, upper)
