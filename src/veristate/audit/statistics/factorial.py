"""List x values: does an agent follow which objects are listed, or the numbers shown with them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.statistics.bootstrap import RESAMPLES, Interval, Seed, percentile_interval
from veristate.core import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Main effects and interaction of a 2 x 2 design over paired groups.

    Maths: with m[list, values] the cell means, 0 the reference and 1 the candidate: list = mean of m[1, .] - mean of
    m[0, .]; values = mean of m[., 1] - mean of m[., 0]; interaction = (m[1, 1] - m[1, 0]) - (m[0, 1] - m[0, 0]).
    """

    groups: int
    trajectories: int
    cells: tuple[tuple[float, float], tuple[float, float]]
    list_effect: float
    values_effect: float
    interaction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectIntervals:
    """Percentile intervals of the three effects, groups resampled whole."""

    list_effect: Interval
    values_effect: Interval
    interaction: Interval


def factorial_effects(outcomes: ArrayLike) -> Effects:
    """The effects of list membership and of values on an outcome, such as whether the reference's choice is matched.

    Shapes: outcomes [groups, 2, 2, repeats], the axes list and values each reference first.
    Raises: InputError for another shape, no group or repeat, and outcomes that are not finite: a group that lacks a
    trajectory is not a paired group, and is to be counted beside.
    Source: BioAgent-DF J.1, Table J3.
    """
    table = _require(outcomes)
    means = table.mean(axis=(0, 3))
    by_list, by_values, interaction = (float(effect.mean()) for effect in _contrasts(table))
    return Effects(
        groups=table.shape[0],
        trajectories=table.size,
        cells=((float(means[0, 0]), float(means[0, 1])), (float(means[1, 0]), float(means[1, 1]))),
        list_effect=by_list,
        values_effect=by_values,
        interaction=interaction,
    )


def factorial_intervals(
    outcomes: ArrayLike, *, seed: Seed, resamples: int = RESAMPLES, level: float = 0.95
) -> EffectIntervals:
    """The intervals over groups drawn with replacement, one draw for all three effects.

    Shapes: outcomes as `factorial_effects` takes them.
    Raises: InputError as `factorial_effects` does.
    """
    table = _require(outcomes)
    draws = np.random.default_rng(seed).integers(len(table), size=(resamples, len(table)))
    found = [percentile_interval(effect[draws].mean(axis=1), level=level) for effect in _contrasts(table)]
    by_list, by_values, interaction = found
    if by_list is None or by_values is None or interaction is None:
        raise InputError(f"{resamples} resamples give no interval; draw at least one")
    return EffectIntervals(list_effect=by_list, values_effect=by_values, interaction=interaction)


def _contrasts(table: Floats) -> tuple[Floats, Floats, Floats]:
    """For each group its list effect, values effect and interaction.

    Shapes: [groups] each.
    """
    cell = table.mean(axis=3)
    by_list = cell[:, 1].mean(axis=1) - cell[:, 0].mean(axis=1)
    by_values = cell[:, :, 1].mean(axis=1) - cell[:, :, 0].mean(axis=1)
    return by_list, by_values, (cell[:, 1, 1] - cell[:, 1, 0]) - (cell[:, 0, 1] - cell[:, 0, 0])


def _require(outcomes: ArrayLike) -> Floats:
    table = np.asarray(outcomes, dtype=np.float64)
    if table.ndim != 4 or table.shape[1:3] != (2, 2) or not table.size:
        raise InputError(f"outcomes have shape {table.shape}; give [groups, list 2, values 2, repeats], none empty")
    if not np.isfinite(table).all():
        raise InputError("a paired group lacks an outcome; leave the group out, and say how many were")
    return table
