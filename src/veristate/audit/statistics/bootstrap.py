"""Bootstrap intervals of capture-balanced estimates: captures resampled, or captures and tasks crossed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.audit.statistics.balance import Combinations, Floats, capture_means
from veristate.core import InputError

RESAMPLES = 10_000
Seed = int | np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A percentile interval of resampled estimates.

    `undefined` resamples drew no combination at all and have no estimate; the percentiles are those of the others.
    """

    lower: float
    upper: float
    level: float
    resamples: int
    undefined: int


def capture_bootstrap(
    table: Combinations, *, seed: Seed, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval | None:
    """The percentile interval over captures drawn with replacement, None where there is no capture.

    Maths: each resample draws as many captures as there are; its estimate is the mean of the drawn captures' means.
    Source: BioAgent-DF F.2.
    """
    if not table.captures:
        return None
    _require(resamples, level)
    weights = _weights(np.random.default_rng(seed), len(table.captures), resamples)
    return percentile_interval(weights @ capture_means(table) / len(table.captures), level=level)


def crossed_bootstrap(
    table: Combinations, *, seed: Seed, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval | None:
    """The percentile interval over captures and tasks drawn independently, None where there is no capture.

    Maths: a resample weights captures by w_c and tasks by v_t, the times each is drawn, captures first. With
    m_c = sum_t v_t x_ct / sum_t v_t over the combinations of capture c, the estimate is sum_c w_c m_c / sum_c w_c over
    the captures with a drawn task. Where every capture has every task this is sum w_c v_t x_ct / sum w_c v_t.
    Source: BioAgent-DF F.2 (weights on both axes).
    """
    if not table.captures:
        return None
    _require(resamples, level)
    rng = np.random.default_rng(seed)
    of_captures = _weights(rng, len(table.captures), resamples)
    of_tasks = _weights(rng, len(table.tasks), resamples)
    drawn = of_tasks @ table.present.T
    sums = of_tasks @ table.means.T
    weights = of_captures * (drawn > 0)
    totals = weights.sum(axis=1)
    numerators = (weights * (sums / np.maximum(drawn, 1.0))).sum(axis=1)
    return percentile_interval(numerators[totals > 0] / totals[totals > 0], level=level, resamples=resamples)


def percentile_interval(estimates: Floats, *, level: float = 0.95, resamples: int | None = None) -> Interval | None:
    """The interval between the two percentiles that leave half of 1 - level on either side, None without estimates.

    Maths: percentiles interpolate linearly between order statistics.
    """
    if not len(estimates):
        return None
    lower, upper = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    drawn = len(estimates) if resamples is None else resamples
    return Interval(
        lower=float(lower), upper=float(upper), level=level, resamples=drawn, undefined=drawn - len(estimates)
    )


def _weights(rng: np.random.Generator, count: int, resamples: int) -> Floats:
    """How often each of `count` is drawn in each resample of as many draws.

    Shapes: [resamples, count].
    """
    draws: NDArray[np.int64] = rng.integers(count, size=(resamples, count))
    flat = np.bincount((draws + count * np.arange(resamples)[:, None]).ravel(), minlength=resamples * count)
    return flat.reshape(resamples, count).astype(np.float64)


def _require(resamples: int, level: float) -> None:
    if resamples < 1 or not 0 < level < 1:
        raise InputError(f"{resamples} resamples at level {level!r}: give at least one, and a level between 0 and 1")
