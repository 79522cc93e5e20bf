"""Endpoints that are read row by row: a replay computes them anew only where rows and coordinates can matter."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError

Codes = NDArray[np.int32]
Measure = Literal["membership", "order"]

# Rows longer than this are not sorted whole.
WIDE = 64


@runtime_checkable
class RowEndpoint(Protocol):
    """An endpoint D of an array whose rows (last axis) are judged each for itself.

    Laws, for rows x and y of one length that lie between `low` and `high` everywhere:
    the endpoint of x is that of y exactly when `distance(codes(x), codes(y))` is 0; this also holds for the codes of
    the coordinates in `contenders(low, high)` alone, in their order, with -inf appended. No value is NaN.
    """

    def __call__(self, values: NDArray[Any]) -> Hashable:
        """The endpoint of a whole array, to compare or to show. NaN counts as -inf."""
        ...

    def contenders(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
        """[rows, n], the coordinates that can matter."""
        ...

    def codes(self, values: NDArray[Any]) -> Codes:
        """[..., w], what stands for the endpoint of each row of [..., n]."""
        ...

    def distance(self, codes: Codes, target: Codes) -> NDArray[np.intp]:
        """[...], how far each row's endpoint is from the target's: 0 when it is the same."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """M_K of every row: its K highest scores, ties to the smaller index, by membership or by order.

    Maths: the distance of two lists by membership is d = K - |M and M'|, by order the members that are gone or moved.
    Source: BioAgent-DF C.1 (d), C.4 (M_K).
    """

    k: int
    measure: Measure = "membership"

    def __call__(self, values: NDArray[Any]) -> tuple[tuple[int, ...], ...]:
        """The lists of all rows: indices sorted by themselves for membership, best first for order."""
        lists = self._best(without_nan(np.atleast_1d(values))).reshape(-1, self.k)
        if self.measure == "membership":
            lists = np.sort(lists, axis=1)
        return tuple(tuple(map(int, row)) for row in lists)

    def contenders(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
        """Those that may reach the K-th highest lower end: K coordinates are never below it."""
        self._require(low.shape[-1])
        floor = np.partition(low, low.shape[-1] - self.k, axis=-1)[..., low.shape[-1] - self.k]
        return np.asarray(high >= floor[..., None], dtype=np.bool_)

    def codes(self, values: NDArray[Any]) -> Codes:
        """The place of each coordinate in the row's list, K where it is not in it."""
        best = self._best(values)
        places = np.full(values.shape, self.k, dtype=np.int32)
        np.put_along_axis(places, best, np.broadcast_to(np.arange(self.k, dtype=np.int32), best.shape), axis=-1)
        return places

    def distance(self, codes: Codes, target: Codes) -> NDArray[np.intp]:
        """K minus the members the lists share, by order those at the same place."""
        shared = (codes < self.k) & ((target < self.k) if self.measure == "membership" else (codes == target))
        return np.asarray(self.k - np.count_nonzero(shared, axis=-1), dtype=np.intp)

    def cutoff(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """t_K = (x_(K) + x_(K+1)) / 2 of each row, scores in descending order. Raises: InputError for K = n."""
        self._require(scores.shape[-1])
        if self.k == scores.shape[-1]:
            raise InputError(f"a list of all {self.k} scores has no cutoff")
        ordered = np.sort(scores.astype(np.float64), axis=-1)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray((ordered[..., -self.k] + ordered[..., -self.k - 1]) / 2)

    def _best(self, values: NDArray[Any]) -> NDArray[np.intp]:
        self._require(values.shape[-1])
        if values.shape[-1] <= max(WIDE, 2 * self.k):
            return np.argsort(-values, axis=-1, kind="stable")[..., : self.k]
        return self._best_of_many(values)

    def _best_of_many(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """The same without sorting whole rows: those above the K-th score, and the first of those equal to it."""
        cut = values.shape[-1] - self.k
        last = np.partition(values, cut, axis=-1)[..., cut, None]
        above, equal = values > last, values == last
        free = self.k - np.count_nonzero(above, axis=-1, keepdims=True)
        picked = above | (equal & (np.cumsum(equal, axis=-1, dtype=np.int32) <= free))
        columns = np.nonzero(picked)[-1].reshape(*values.shape[:-1], self.k)
        scores = np.take_along_axis(values, columns, axis=-1)
        return np.take_along_axis(columns, np.argsort(-scores, axis=-1, kind="stable"), axis=-1)

    def _require(self, n: int) -> None:
        if not 1 <= self.k <= n:
            raise InputError(f"a list of {self.k} can't be made of {n} scores; K must be 1..{n}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """The coordinates of every row with a score of at least `threshold`: triage. The distance counts changed ones."""

    threshold: float

    def __call__(self, values: NDArray[Any]) -> tuple[tuple[int, ...], ...]:
        """The indices that reach the threshold, row by row."""
        reached = np.atleast_2d(without_nan(values)) >= self.threshold
        return tuple(tuple(map(int, np.flatnonzero(row))) for row in reached)

    def contenders(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
        """Those whose ends lie on two sides of the threshold."""
        return np.asarray((low < self.threshold) & (high >= self.threshold), dtype=np.bool_)

    def codes(self, values: NDArray[Any]) -> Codes:
        """1 where the threshold is reached."""
        return (values >= self.threshold).astype(np.int32)

    def distance(self, codes: Codes, target: Codes) -> NDArray[np.intp]:
        """How many coordinates are on the other side."""
        return np.asarray(np.count_nonzero(codes != target, axis=-1), dtype=np.intp)


def without_nan(values: NDArray[Any]) -> NDArray[Any]:
    """`values` with -inf for NaN: a score that is no number ranks below all others, by index among its like."""
    return np.where(np.isnan(values), -np.inf, values).astype(values.dtype, copy=False)
