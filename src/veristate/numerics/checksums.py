"""Checks of one linear layer call by definition: PASS, FLAG or INAPPLICABLE for every row and every column block."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, Verdict
from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.kernels import Sums, all_element_sums, column_sums, element_sums, row_sums
from veristate.numerics.operands import Operands
from veristate.numerics.signs import draw_signs

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Indices = NDArray[np.intp]
Signs = NDArray[np.float32]
Holds = Callable[[BoolArray], BoolArray]

# Rows that a column cell adds by default; and the most sign draws, of which 16 leave one error in 65,536 unseen.
BLOCK, MOST_DRAWS = 32, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The outcome of one kind of check, one entry a cell: two masks make three verdicts."""

    flag: BoolArray
    inapplicable: BoolArray

    def verdict(self) -> Verdict:
        """FLAG when any cell is flagged; PASS when all cells pass; otherwise, and when there are none, INAPPLICABLE."""
        if self.flag.any():
            return Verdict.FLAG
        return Verdict.INAPPLICABLE if self.inapplicable.any() or not self.flag.size else Verdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells(Marks):
    """Marks with what they rest on: the residual and the bound of every cell."""

    residual: FloatArray
    bound: FloatArray

    def reshaped(self, *shape: int) -> "Cells":
        """The same cells in another shape."""
        return Cells(**{name: getattr(self, name).reshape(shape) for name in CELL_FIELDS})


_NO_INDEX, _NOTHING, _NONE = np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0, dtype=bool)
CELL_FIELDS = ("flag", "inapplicable", "residual", "bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """Elements that were looked at one by one and found wanting: (rows[n], columns[n]), residual and bound.

    `proven` are above their bound; the others are unresolved, above the screen alone. `examined` counts all that were
    looked at, `loudest` is the largest residual of a cell, as a share of the screen.
    """

    rows: Indices
    columns: Indices
    residual: NDArray[np.float64]
    bound: NDArray[np.float64]
    proven: NDArray[np.bool_]
    examined: int
    loudest: float

    @classmethod
    def none(cls, loudest: float = 0.0, examined: int = 0) -> "Elements":
        """Nothing found."""
        return cls(
            rows=_NO_INDEX,
            columns=_NO_INDEX,
            residual=_NOTHING,
            bound=_NOTHING,
            proven=_NONE,
            examined=examined,
            loudest=loudest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCheck:
    """The checks of one call: `rows` [M], whole; `columns` [draws, blocks of M, N]; `block` and `seed` repeat it.

    `worst` is the largest residual over its bound, infinite for an output that is not finite; of cells that a guard let
    pass, an upper estimate. `undecided` counts the cells that a guard left to the definition (None: there was no
    guard), `elements` are those that its screen found.
    """

    rows: Marks
    columns: Marks
    worst: float
    block: int
    seed: bytes | None
    undecided: int | None = None
    elements: Elements = field(default_factory=Elements.none)

    def verdict(self) -> Verdict:
        """FLAG when a row, a column or an element is, PASS when both kinds of sums pass, otherwise INAPPLICABLE."""
        if self.undecided == 0 and not self.elements.proven.any():
            return Verdict.PASS
        both = {self.rows.verdict(), self.columns.verdict()}
        if Verdict.FLAG in both or self.elements.proven.any():
            return Verdict.FLAG
        return Verdict.PASS if both == {Verdict.PASS} else Verdict.INAPPLICABLE


def signs_of(rows: int, seed: bytes | None, draws: int) -> Signs:
    """[draws, rows]: the signs of a check, all ones without a seed."""
    return np.ones((draws, rows), dtype=np.float32) if seed is None else draw_signs(rows, seed, draws)


def layout(call: Operands, block: int | None, draws: int) -> tuple[int, int]:
    """The rows in a block and the number of blocks. Raises: InputError for a block or number of draws below 1."""
    if block is not None and block < 1:
        raise InputError(f"a block of {block} rows adds nothing; use 1 or more, or None for all")
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"{draws} sign draws: use 1 to {MOST_DRAWS}")
    M = call.shape[0]
    step = block or max(M, 1)
    return step, -(-M // step)


def refuse_denied_bias(call: Operands, arithmetic: LinearArithmetic) -> None:
    """Raises: InputError for a call with a bias under an arithmetic without one, which has no bound."""
    if call.weights.biased and arithmetic.bias == "none":
        raise InputError("the call has a bias and its declared arithmetic none: say whether it is fused or separate")


def check_linear(
    call: Operands,
    arithmetic: LinearArithmetic,
    *,
    block: int | None = BLOCK,
    seed: bytes | None = None,
    draws: int = 1,
) -> LinearCheck:
    """The definition: every cell of `call` under `arithmetic`, in FP64, with residuals and bounds.

    `block` rows are added at once (None: all of them); `seed` draws the signs (None: all ones), `draws` times.
    Raises: InputError for a block or draws below 1, or a bias in a call whose arithmetic has none.
    """
    step, blocks = layout(call, block, draws)
    N = call.Y.shape[1]
    signs = signs_of(len(call.X), seed, draws)
    every_block, every_column = np.repeat(np.arange(blocks), N), np.tile(np.arange(N), blocks)
    parts = [column_cells(call, arithmetic, draw, step, every_block, every_column) for draw in signs]
    columns = Cells(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in CELL_FIELDS})
    rows = row_cells(call, arithmetic, np.arange(len(call.X)))
    return LinearCheck(
        rows=rows,
        columns=columns.reshaped(draws, blocks, N),
        worst=max(worst_ratio(rows), worst_ratio(columns)),
        block=step,
        seed=seed,
    )


@np.errstate(all="ignore")
def row_cells(call: Operands, arithmetic: LinearArithmetic, rows: Indices) -> Cells:
    """The checks of the given rows, [n]."""
    weights = call.weights
    sums = row_sums(call.X, call.Y, weights.columns, weights.bias, rows)
    return _judged(call, arithmetic, sums, lambda bad: np.asarray(bad[rows].any(axis=1)))


@np.errstate(all="ignore")
def column_cells(
    call: Operands, arithmetic: LinearArithmetic, signs: Signs, block: int, blocks: Indices, columns: Indices
) -> Cells:
    """The checks of the given column cells (blocks[n], columns[n]), [n], with one draw of signs [M]; 0 leaves out."""
    weights = call.weights
    sums = column_sums(call.X, weights.W, weights.b, call.Y, signs, block, blocks, columns)

    def holds(bad: BoolArray) -> BoolArray:
        kept = bad & (signs != 0)[:, None]
        gathered: BoolArray = np.asarray(np.logical_or.reduceat(kept, np.arange(0, len(kept), block)))
        return np.asarray(gathered[blocks, columns])

    return _judged(call, arithmetic, sums, holds)


@np.errstate(all="ignore")
def element_cells(call: Operands, arithmetic: LinearArithmetic, rows: Indices, columns: Indices) -> Cells:
    """The checks of the given elements (rows[n], columns[n]), [n], each for itself."""
    sums = element_sums(call.X, call.weights.W, call.weights.b, call.Y, rows, columns)
    return _judged(call, arithmetic, sums, lambda bad: bad[rows, columns])


@np.errstate(all="ignore")
def check_elements(call: Operands, arithmetic: LinearArithmetic, rows: Indices | None = None) -> Cells:
    """The check of every element for itself, [M, N], or of the given rows, [n, N]: a whole FP64 product, to localise
    faults and validate bounds.
    """
    chosen = slice(None) if rows is None else rows
    sums = all_element_sums(call.X[chosen], call.weights.W, call.weights.b, call.Y[chosen])
    return _judged(call, arithmetic, sums, lambda bad: bad[chosen])


def unexplained_columns(
    call: Operands, arithmetic: LinearArithmetic, check: LinearCheck, explained_rows: BoolArray
) -> BoolArray:
    """[blocks of M, N]: flagged column cells that exceed their bound also after `explained_rows` [M] are taken out.

    A cell whose rows are all explained has nothing left to exceed a bound.
    """
    draws = len(check.columns.flag)
    result = np.zeros(check.columns.flag.shape[1:], dtype=bool)
    signs = np.where(explained_rows, np.float32(0), signs_of(len(call.X), check.seed, draws))
    for draw in range(draws):
        blocks, columns = np.nonzero(check.columns.flag[draw])
        if len(blocks):
            cells = column_cells(call, arithmetic, signs[draw], check.block, blocks, columns)
            result[blocks, columns] |= cells.flag | cells.inapplicable
    return result


def worst_ratio(cells: Cells) -> float:
    """The largest residual over its bound; infinite when a flagged cell's residual is not finite; 0 for no cells."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(cells.flag & ~np.isfinite(cells.residual), np.inf, cells.residual / cells.bound)
    return float(np.nanmax(ratio, initial=0.0))


def _judged(call: Operands, arithmetic: LinearArithmetic, sums: Sums, holds: Holds) -> Cells:
    """Residuals against bounds, and the two ways in which a cell can have none.

    `holds` maps a mask of elements [M, N] to the cells that hold one of them.
    """
    refuse_denied_bias(call, arithmetic)
    # Only flushing charges the largest operand, which takes a pass over X and W to know.
    largest = call.largest_operand if arithmetic.flush else 0.0
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
        impossible = broken & holds(_impossible_values(call, arithmetic))
        flag |= impossible
        broken &= ~impossible
    return Cells(residual=sums.residual, bound=bound, flag=flag, inapplicable=broken)


def _impossible_values(call: Operands, arithmetic: LinearArithmetic) -> BoolArray:
    """[M, N]: NaN or infinite outputs that finite operands give only by overflow, where overflow is not possible."""
    W, b = call.weights.W, call.weights.b
    rows_ok = np.isfinite(call.X).all(axis=1, keepdims=True)
    columns_ok: BoolArray = np.asarray(np.isfinite(W).all(axis=1)) & np.isfinite(b)
    bad: BoolArray = np.array(~np.isfinite(call.Y) & rows_ok & columns_ok, dtype=np.bool_)
    # What is left is finite: a row or column with a marked output has no other operand.
    rows, columns = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    products = np.abs(call.X[rows]).astype(np.float64) @ np.abs(W[columns]).astype(np.float64).T + np.abs(b[columns])
    bad[np.ix_(rows, columns)] &= ~arithmetic.overflow_possible(products, call.X.shape[1])
    return bad
