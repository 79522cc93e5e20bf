"""Capture-balanced estimates: technical repeats averaged first, then tasks within a capture, then captures equally."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.statistics.attempts import Group
from veristate.core import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combinations:
    """The combinations of capture and task: the mean of each one's repeats, and their number (0: no such combination).

    Shapes: means and repeats [captures, tasks]; every capture and every task is in at least one combination.
    """

    captures: tuple[str, ...]
    tasks: tuple[str, ...]
    means: Floats
    repeats: NDArray[np.int64]

    @property
    def present(self) -> Floats:
        """1.0 where there is a combination, else 0.0."""
        return (self.repeats > 0).astype(np.float64)

    @property
    def count(self) -> int:
        """The number of combinations."""
        return int((self.repeats > 0).sum())


def combinations(groups: Sequence[Group], values: ArrayLike) -> Combinations:
    """The combinations of a value for each group.

    Shapes: values [groups].
    Raises: InputError for another number of values and for values that are not finite.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (len(groups),) or not np.isfinite(numbers).all():
        raise InputError(f"{len(groups)} groups need as many finite values, not shape {numbers.shape}")
    captures = tuple(sorted({group.capture for group in groups}))
    tasks = tuple(sorted({group.task for group in groups}))
    row = {name: place for place, name in enumerate(captures)}
    column = {name: place for place, name in enumerate(tasks)}
    sums = np.zeros((len(captures), len(tasks)))
    repeats = np.zeros(sums.shape, dtype=np.int64)
    for group, number in zip(groups, numbers, strict=True):
        sums[row[group.capture], column[group.task]] += number
        repeats[row[group.capture], column[group.task]] += 1
    return Combinations(captures=captures, tasks=tasks, means=sums / np.maximum(repeats, 1), repeats=repeats)


def capture_means(table: Combinations) -> Floats:
    """For each capture the mean over its combinations.

    Shapes: [captures].
    """
    return np.asarray(table.means.sum(axis=1) / table.present.sum(axis=1))


def balanced(table: Combinations) -> float | None:
    """The mean of the captures' means, None where there is no capture.

    Source: BioAgent-DF F.2.
    """
    return float(capture_means(table).mean()) if table.captures else None
