"""Checks of one linear layer call: PASS, FLAG or INAPPLICABLE for every row block and column block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, Verdict
from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.kernels import Sums, Weights, column_sums, element_sums, row_sums
from veristate.numerics.signs import draw_signs

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
AnyFloats = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """One call Y = X W^T + b. X and Y may be of any float format up to float64; W and b are float64.

    Shapes: X [M, K], W [N, K], b [N] or None, Y [M, N].
    """

    X: AnyFloats
    W: FloatArray
    b: FloatArray | None
    Y: AnyFloats

    @classmethod
    def of(cls, X: AnyFloats, W: AnyFloats, b: AnyFloats | None, Y: AnyFloats) -> "Operands":
        """The call. Raises: InputError when the shapes don't fit."""
        if X.ndim != 2 or W.ndim != 2 or Y.shape != (len(X), len(W)) or X.shape[1] != W.shape[1]:
            raise InputError(f"Y = X W^T + b needs [M, K], [N, K], [M, N]; got {X.shape}, {W.shape}, {Y.shape}")
        if b is not None and b.shape != (len(W),):
            raise InputError(f"the bias of {len(W)} columns has shape {b.shape}")
        bias = None if b is None else np.asarray(b, dtype=np.float64)
        return cls(X=X, W=np.asarray(W, dtype=np.float64), b=bias, Y=Y)

    def rows(self, rows: slice) -> "Operands":
        """The call on some of its rows, X and Y in float64, which holds every narrower format exactly."""
        X, Y = (np.asarray(a[rows], dtype=np.float64) for a in (self.X, self.Y))
        return Operands(X=X, W=self.W, b=self.b, Y=Y)

    @property
    def largest_operand(self) -> float:
        """The largest finite absolute value among X and W."""
        largest = 0.0
        for a in (self.X, self.W):
            top = float(max(a.max(initial=0.0), -a.min(initial=0.0)))
            largest = max(largest, top if np.isfinite(top) else float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
        return largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The outcome of one kind of check. Shapes: all alike, one entry a cell. Two masks make three verdicts."""

    residual: FloatArray
    bound: FloatArray
    flag: BoolArray
    inapplicable: BoolArray

    @classmethod
    def joined(cls, parts: "Sequence[Cells]") -> "Cells":
        """The cells of consecutive rows as one."""
        if len(parts) == 1:
            return parts[0]
        names = ("residual", "bound", "flag", "inapplicable")
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def verdict(self) -> Verdict:
        """FLAG when any cell is flagged; PASS when all cells pass; otherwise, and when there are none, INAPPLICABLE."""
        if self.flag.any():
            return Verdict.FLAG
        return Verdict.INAPPLICABLE if self.inapplicable.any() or not self.flag.size else Verdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCheck:
    """The checks of one call. `rows` is [M, blocks of N], `columns` [blocks of M, N]; `block` and `seed` repeat it."""

    rows: Cells
    columns: Cells
    block: int | None
    seed: bytes | None

    def verdict(self) -> Verdict:
        """FLAG when a row or a column is flagged, PASS when both kinds pass, otherwise INAPPLICABLE."""
        both = {self.rows.verdict(), self.columns.verdict()}
        if Verdict.FLAG in both:
            return Verdict.FLAG
        return Verdict.PASS if both == {Verdict.PASS} else Verdict.INAPPLICABLE

    @property
    def flagged_rows(self) -> BoolArray:
        """[M], rows with a flagged cell."""
        return np.asarray(self.rows.flag.any(axis=1))


# Rows are taken this many blocks at a time: the float64 copies of a tile stay in the processor's cache.
TILE_BLOCKS = 16


@np.errstate(all="ignore")
def check_linear(
    call: Operands, arithmetic: LinearArithmetic, *, block: int | None = None, seed: bytes | None = None
) -> LinearCheck:
    """The row and column checks of `call` under `arithmetic`.

    `block` rows or columns are added at once (None: all of them); `seed` draws the signs (None: all ones).
    Raises: InputError for a block below 1, or a bias in a call whose arithmetic has none.
    """
    if block is not None and block < 1:
        raise InputError(f"a block of {block} rows or columns adds nothing; use 1 or more, or None for all")
    M, N = call.Y.shape
    signs = np.ones(M) if seed is None else draw_signs(M, seed, "column")
    weights = Weights.of(call.W, call.b, np.ones(N) if seed is None else draw_signs(N, seed, "row"), block)
    step = max(M, 1) if block is None else block * TILE_BLOCKS
    largest = call.largest_operand
    rows, columns = [], []
    for start in range(0, max(M, 1), step):
        tile = call.rows(slice(start, start + step))
        arrays = (tile.X, np.abs(tile.X), tile.Y, np.abs(tile.Y), weights)
        part = signs[start : start + step]
        rows.append(_judge(tile, arithmetic, row_sums(*arrays), block, largest, side="row"))
        columns.append(_judge(tile, arithmetic, column_sums(*arrays, part, block), block, largest, side="column"))
    return LinearCheck(rows=Cells.joined(rows), columns=Cells.joined(columns), block=block, seed=seed)


@np.errstate(all="ignore")
def check_elements(call: Operands, arithmetic: LinearArithmetic) -> Cells:
    """The check of every element for itself, [M, N]: a whole FP64 product, to localise faults and validate bounds."""
    weights = Weights.of(call.W, call.b, np.ones(len(call.W)), None)
    call = call.rows(slice(None))
    sums = element_sums(call.X, np.abs(call.X), call.Y, np.abs(call.Y), weights)
    return _judge(call, arithmetic, sums, 1, call.largest_operand, side="element")


@np.errstate(all="ignore")
def unexplained_columns(
    call: Operands, arithmetic: LinearArithmetic, check: LinearCheck, explained_rows: BoolArray
) -> BoolArray:
    """[blocks of M, N]: flagged column cells that exceed their bound also after `explained_rows` [M] are taken out.

    A cell whose rows are all explained has nothing left to exceed a bound.
    """
    result = np.zeros_like(check.columns.flag)
    blocks = np.flatnonzero(check.columns.flag.any(axis=1))
    columns = np.flatnonzero(check.columns.flag.any(axis=0))
    if not len(columns):
        return result
    # Only the rows of blocks with a flagged column are added again; whole blocks side by side keep their borders.
    step = len(call.X) if check.block is None else check.block
    rows = np.flatnonzero(np.isin(np.arange(len(call.X)) // step, blocks))
    kept = ~explained_rows[rows]
    signs = np.ones(len(call.X)) if check.seed is None else draw_signs(len(call.X), check.seed, "column")
    part = Operands(
        X=np.where(kept[:, None], call.X[rows], 0.0),
        W=call.W[columns],
        b=None if call.b is None else call.b[columns],
        Y=np.where(kept[:, None], call.Y[np.ix_(rows, columns)], 0.0),
    ).rows(slice(None))
    weights = Weights.of(part.W, part.b, np.ones(len(columns)), None)
    arrays = (part.X, np.abs(part.X), part.Y, np.abs(part.Y), weights)
    cells = _judge(
        part,
        arithmetic,
        column_sums(*arrays, np.where(kept, signs[rows], 0.0), check.block),
        check.block,
        call.largest_operand,
        side="column",
    )
    again = np.ix_(blocks, columns)
    result[again] = check.columns.flag[again] & (cells.flag | cells.inapplicable)
    return result


def _judge(
    call: Operands, arithmetic: LinearArithmetic, sums: Sums, block: int | None, largest: float, *, side: str
) -> Cells:
    """Residuals against bounds, and the two ways in which a cell can have none.

    `largest` is the whole call's largest operand, so that no bound depends on how its rows were tiled.
    """
    if call.b is not None and arithmetic.bias == "none":
        raise InputError("the call has a bias and its declared arithmetic none: say whether it is fused or separate")
    bound = sums.evaluation + arithmetic.bound_upper(
        sums.products,
        sums.stored,
        sums.bias,
        terms=call.X.shape[1],
        elements=sums.elements,
        largest_operand=largest,
    )
    bound = bound * (1 + 2.0**-48)
    judged = np.isfinite(sums.residual) & np.isfinite(bound)
    flag = judged & (sums.residual > bound)
    broken = ~judged
    if broken.any():
        impossible = _spread(_impossible_values(call, arithmetic), block, side, broken.shape)
        flag |= broken & impossible
        broken &= ~impossible
    return Cells(residual=sums.residual, bound=bound, flag=flag, inapplicable=broken)


def _impossible_values(call: Operands, arithmetic: LinearArithmetic) -> BoolArray:
    """[M, N]: NaN or infinite outputs that finite operands give only by overflow, where overflow is not possible."""
    rows_ok = np.isfinite(call.X).all(axis=1, keepdims=True)
    columns_ok: BoolArray = np.asarray(np.isfinite(call.W).all(axis=1))
    if call.b is not None:
        columns_ok &= np.isfinite(call.b)
    bad: BoolArray = np.array(~np.isfinite(call.Y) & rows_ok & columns_ok, dtype=np.bool_)
    # What is left is finite: a row or column with a marked output has no other operand.
    rows, columns = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    products = np.abs(call.X[rows]) @ np.abs(call.W[columns]).T
    if call.b is not None:
        products += np.abs(call.b[columns])
    bad[np.ix_(rows, columns)] &= ~arithmetic.overflow_possible(products, call.X.shape[1])
    return bad


def _spread(elements: BoolArray, block: int | None, side: str, shape: tuple[int, ...]) -> BoolArray:
    """Whether a cell holds a marked element: elements [M, N] gathered to the cells of one kind of check."""
    if side == "element":
        return elements
    axis = 1 if side == "row" else 0
    step = elements.shape[axis] if block is None else block
    cells = np.zeros(shape, dtype=bool)
    for number in range(shape[axis]):
        part = np.take(elements, range(number * step, min((number + 1) * step, elements.shape[axis])), axis=axis)
        cells[(slice(None), number) if axis else number] = part.any(axis=axis)
    return cells
