"""Sums by destination (the messages of a graph network, index_add, scatter_add): checked as sums over destinations.

sums[d] = initial[d] + the sum of rows[i] over index[i] = d. A block of destinations with fresh signs s adds up to

    sum_d s_d sums[d]   against   sum_d s_d initial[d] + sum_i s_index[i] rows[i]

so that one read of rows and sums checks all of them. A block that does not surely pass is looked at element by element
in FP64, each against the bound of A.3 for its own number of addends.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, Verdict
from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.checksums import BLOCK
from veristate.numerics.guard import SLACK, TINY, gamma
from veristate.numerics.kernels import ACROSS_ROUNDINGS, Pass, add_by_destination, scatter_elements, sums_pass
from veristate.numerics.operands import plain
from veristate.numerics.signs import draw_signs

Floats = NDArray[Any]
Indices = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Values in one of the C kernel's vectors.
LANES = 16


@dataclass(slots=True)
class Memory:
    """What a check works in; given again it is used again."""

    sums: Pass = field(default_factory=Pass)
    initial: Pass = field(default_factory=Pass)
    _room: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def zeros(self, *shape: int) -> NDArray[np.float64]:
        """Zeros, in the memory of the last ones."""
        size = math.prod(shape)
        if len(self._room) < size:
            self._room = np.empty(size)
        found = self._room[:size].reshape(shape)
        found[:] = 0.0
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterCheck:
    """The outcome: `flag` and `inapplicable` by element [D, F]; `blocks` counts the blocks above their bound, `worst`
    is the largest residual over its bound or an upper estimate of it; `sure` says that every block surely passed.
    """

    flag: BoolArray
    inapplicable: BoolArray
    blocks: int
    worst: float
    sure: bool = False

    def verdict(self) -> Verdict:
        """FLAG for an element or a block above its bound, INAPPLICABLE where one can't be judged or nothing was added,
        otherwise PASS.
        """
        if self.sure:
            return Verdict.PASS
        if self.blocks or self.flag.any():
            return Verdict.FLAG
        return Verdict.INAPPLICABLE if not self.flag.size or self.inapplicable.any() else Verdict.PASS


@np.errstate(all="ignore")
def check_scatter_sum(
    rows: Floats,
    index: Indices,
    initial: Floats | None,
    sums: Floats,
    arithmetic: LinearArithmetic,
    *,
    seed: bytes,
    draws: int = 1,
    memory: Memory | None = None,
) -> ScatterCheck:
    """The check of one call. Shapes: rows [n, F], index [n] or [n, F], initial (None for zeros) and sums [D, F].

    `seed` draws the signs `draws` times; `memory` is used again from one call to the next of a thread.
    Raises: InputError when shapes don't fit, or the index names no destination.
    """
    given = f"got {rows.shape}, {index.shape}, {sums.shape}"
    if rows.ndim != 2 or sums.ndim != 2 or rows.shape[1] != sums.shape[1]:
        raise InputError(f"sums by destination need rows [n, F] and sums [D, F]; {given}")
    if index.shape not in (rows.shape, rows.shape[:1]):
        raise InputError(f"sums by destination need an index [n] or [n, F]; {given}")
    D, F = sums.shape
    # An index that is the same in every column is read in one; were it not, the sums would not fit and all is read.
    one = np.ascontiguousarray(index if index.ndim == 1 else index[:, 0]) if F else np.zeros(0, dtype=np.int64)
    if one.size and not 0 <= one.min() <= one.max() < D:
        raise InputError(f"the index names destinations {one.min()} to {one.max()} of {D}")
    rows, sums = _rows(rows), _rows(sums)
    initial = None if initial is None else _rows(initial)
    drawn = draw_signs(D, seed, draws)
    if rows.dtype == sums.dtype == np.float32 and sums.size:
        memory, worst = memory or Memory(), 0.0
        for n in range(draws):
            found = _blocks_pass(rows, one, initial, sums, arithmetic, drawn[n : n + 1], memory)
            if found is None:
                break
            worst = max(worst, found)
        else:
            nothing = np.broadcast_to(np.False_, (D, F))
            return ScatterCheck(flag=nothing, inapplicable=nothing, blocks=0, worst=worst, sure=True)
    return _by_elements(rows, index, initial, sums, arithmetic, drawn)


def _rows(a: Floats) -> Floats:
    """`a` with rows that lie in one piece each: float32 columns of a wider array are read where they are."""
    return a if a.dtype == np.float32 and a.strides[1] == 4 and a.strides[0] % 4 == 0 else plain(a)


def _blocks_pass(
    rows: Floats,
    index: Indices,
    initial: Floats | None,
    sums: Floats,
    arithmetic: LinearArithmetic,
    signs: Any,
    memory: Memory,
) -> float | None:
    """The largest residual over its bound when every block surely passes, None otherwise."""
    D, F = sums.shape
    blocks = -(-D // BLOCK)
    # Rows of whole vectors, zeroed here.
    both = memory.zeros(2, blocks, -(-F // LANES) * LANES)
    add_by_destination(rows, index, BLOCK, signs[0], both[0], both[1])
    expected, products = both
    observed, begun = memory.sums, memory.initial
    observed.sums(sums, BLOCK, signs)
    lost = gamma(ACROSS_ROUNDINGS)
    if initial is not None:
        begun.sums(initial, BLOCK, signs)
        expected[:, :F] += begun.across[0]
        products[:, :F] += begun.across_abs
    addends = np.bincount(index, minlength=blocks * BLOCK).reshape(blocks, BLOCK).max(axis=1) + 1
    most = int(addends.max())
    growth = _growth(arithmetic, most)[addends]
    # Passes in float32 pairs: of the sums, and of the rows and what they began with, which are the products.
    factors = (growth - lost) * (1 - lost) - SLACK
    limits = np.stack([factors, -TINY * (BLOCK + addends)], axis=1)
    stored = (lost + SLACK) / (1 - lost)
    fine, worst = sums_pass(observed.across[0], observed.across_abs, expected, products, limits, stored)
    return worst if fine else None


def _growth(arithmetic: LinearArithmetic, most: int) -> NDArray[np.float64]:
    """[most + 1]: G - 1 of a sum of so many addends."""
    return np.array([_growth_of(arithmetic, n) for n in range(most + 1)])


@lru_cache(maxsize=1024)
def _growth_of(arithmetic: LinearArithmetic, addends: int) -> float:
    return arithmetic.growth_minus_one_upper(addends)


def _by_elements(
    rows: Floats, index: Indices, initial: Floats | None, sums: Floats, arithmetic: LinearArithmetic, signs: Any
) -> ScatterCheck:
    """Every element in FP64, and every block from them."""
    D, F = sums.shape
    start = np.zeros((D, F)) if initial is None else np.asarray(initial, dtype=np.float64)
    exact, products, addends = start.copy(), np.abs(start), np.ones((D, F), dtype=np.int64)
    wide = index if index.ndim == 2 else np.broadcast_to(index[:, None], rows.shape)
    if wide.size and not 0 <= wide.min() <= wide.max() < D:
        raise InputError(f"the index names destinations {wide.min()} to {wide.max()} of {D}")
    scatter_elements(np.asarray(rows, dtype=np.float64), np.ascontiguousarray(wide), exact, products, addends)
    stored = np.abs(np.asarray(sums, dtype=np.float64))
    most = int(addends.max(initial=1))
    growth = _growth(arithmetic, most)[addends]
    bound = growth * products + addends * (2.0**-50 * (products + stored) + arithmetic.absolute_upper(2, 0.0))
    difference = sums - exact
    residual = np.abs(difference)
    judged = np.isfinite(residual) & np.isfinite(bound)
    flag = judged & (residual > bound)
    # A number came in everywhere and could not have overflowed: what is no number is wrong.
    flag |= ~judged & np.isfinite(products) & ~arithmetic.overflow_possible(products, most)
    starts = np.arange(0, D, BLOCK)
    allowed = np.add.reduceat(bound, starts) * (1 + 2.0**-40)
    loud = np.zeros(allowed.shape, dtype=bool)
    for one in signs:
        loud |= np.abs(np.add.reduceat(one[:, None] * difference, starts)) > allowed
    ratio = np.where(flag & ~np.isfinite(residual), np.inf, residual / bound)
    return ScatterCheck(
        flag=flag, inapplicable=~judged & ~flag, blocks=int(loud.sum()), worst=float(np.nanmax(ratio, initial=0.0))
    )
