"""The definition of a check: one FP64 pass, written plainly.

For Y = X W^T + b, X [M, K], W [N, K], b [N], Y [M, N], a row check adds a block of columns of one row with signs s,
a column check a block of rows of one column with signs t:

    row    (i, J):  sum_J s_j Y_ij   against   x_i . (sum_J s_j w_j) + sum_J s_j b_j
    column (I, j):  sum_I t_i Y_ij   against   (sum_I t_i x_i) . w_j + (sum_I t_i) b_j

All-ones signs and one block over everything are the whole-row and whole-column sums. A row's sign t of zero leaves the
row out. Source: BioAgent-DF A.3, I.4.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What one kind of check adds up, cell by cell.

    `residual` is |observed - expected| and may be NaN where an operand is; `products` sum |x||w| + |b|, `stored`
    sum |Y|, `bias` sum |b|, `elements` the number of elements added. `evaluation` bounds what this FP64 pass itself
    can be wrong by.
    """

    residual: FloatArray
    products: FloatArray
    stored: FloatArray
    bias: FloatArray
    elements: FloatArray
    evaluation: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What depends on W, b and the signs of its columns alone: prepared once for all rows of a call.

    Shapes: W, absolute [N, K]; bias, bias_absolute [N]; signs [N]; block_sums, block_absolutes [blocks, K];
    bias_sums, bias_sums_absolute, elements [blocks].
    """

    W: FloatArray
    absolute: FloatArray
    bias: FloatArray
    bias_absolute: FloatArray
    signs: FloatArray
    starts: NDArray[np.intp]
    block_sums: FloatArray
    block_absolutes: FloatArray
    bias_sums: FloatArray
    bias_sums_absolute: FloatArray
    elements: FloatArray

    @classmethod
    def of(cls, W: FloatArray, b: FloatArray | None, signs: FloatArray, block: int | None) -> Self:
        """The sums of W and b over blocks of columns."""
        starts = np.arange(0, len(W), block or max(len(W), 1), dtype=np.intp)
        bias = np.zeros(len(W)) if b is None else b
        absolute = np.abs(W)
        return cls(
            W=W,
            absolute=absolute,
            bias=bias,
            bias_absolute=np.abs(bias),
            signs=signs,
            starts=starts,
            block_sums=_over_columns((signs[:, None] * W).T, starts).T,
            block_absolutes=_over_columns(absolute.T, starts).T,
            bias_sums=_over_columns((signs * bias)[None], starts)[0],
            bias_sums_absolute=_over_columns(np.abs(bias)[None], starts)[0],
            elements=_over_columns(np.ones((1, len(W))), starts)[0],
        )


def row_sums(X: FloatArray, X_abs: FloatArray, Y: FloatArray, Y_abs: FloatArray, weights: Weights) -> Sums:
    """The sums of every row over every block of columns. Shapes: [M, blocks of N]. Dtypes: float64."""
    observed = _over_columns(Y * weights.signs, weights.starts)
    expected = X @ weights.block_sums.T + weights.bias_sums
    return _sums(
        observed - expected,
        products=X_abs @ weights.block_absolutes.T + weights.bias_sums_absolute,
        stored=_over_columns(Y_abs, weights.starts),
        bias=weights.bias_sums_absolute[None, :],
        elements=weights.elements[None, :],
        terms=X.shape[1],
    )


def column_sums(
    X: FloatArray,
    X_abs: FloatArray,
    Y: FloatArray,
    Y_abs: FloatArray,
    weights: Weights,
    signs: FloatArray,
    block: int | None,
) -> Sums:
    """The sums of every column over every block of rows. Shapes: signs [M]; [blocks of M, N]. Dtypes: float64."""
    present = np.abs(signs)
    elements = _over_rows(present, np.ones((len(X), 1)), block)
    bias = elements * weights.bias_absolute
    expected = _over_rows(signs, X, block) @ weights.W.T
    expected += _over_rows(signs, np.ones((len(X), 1)), block) * weights.bias
    return _sums(
        _over_rows(signs, Y, block) - expected,
        products=_over_rows(present, X_abs, block) @ weights.absolute.T + bias,
        stored=_over_rows(present, Y_abs, block),
        bias=bias,
        elements=elements,
        terms=X.shape[1],
    )


def element_sums(X: FloatArray, X_abs: FloatArray, Y: FloatArray, Y_abs: FloatArray, weights: Weights) -> Sums:
    """The sums of every element for itself: a whole product in FP64. Shapes: [M, N]. Dtypes: float64."""
    return _sums(
        Y - (X @ weights.W.T + weights.bias),
        products=X_abs @ weights.absolute.T + weights.bias_absolute,
        stored=Y_abs,
        bias=weights.bias_absolute[None, :],
        elements=np.ones((1, 1)),
        terms=X.shape[1],
    )


def _over_columns(values: FloatArray, starts: NDArray[np.intp]) -> FloatArray:
    """Sums of each row over blocks of columns; no block for no columns."""
    if not len(starts):
        return np.zeros((len(values), 0))
    result: FloatArray = np.add.reduceat(values, starts, axis=1)
    return result


def _over_rows(signs: FloatArray, values: FloatArray, block: int | None) -> FloatArray:
    """Signed sums of blocks of rows; the last block may be short, and there is none for no rows."""
    step = block or max(len(values), 1)
    whole = len(values) // step * step
    shape = (whole // step, step, values.shape[1])
    sums: FloatArray = np.matmul(signs[:whole].reshape(-1, 1, step), values[:whole].reshape(shape))[:, 0]
    if whole < len(values):
        sums = np.concatenate([sums, (signs[whole:] @ values[whole:])[None]])
    return sums


def _sums(
    difference: FloatArray,
    *,
    products: FloatArray,
    stored: FloatArray,
    bias: FloatArray,
    elements: FloatArray,
    terms: int,
) -> Sums:
    """The sums with the bound on this pass's own FP64 rounding.

    Any order of K + n additions of represented values errs by at most gamma_(K+n) times the sum of their absolute
    values; that sum is itself computed, hence the doubled count. Products of two float64 may underflow: K + n of the
    smallest subnormal covers them.
    """
    operations = 2.0 * (terms + elements + 8)
    gamma = operations * 2.0**-53 / (1 - operations * 2.0**-53)
    return Sums(
        residual=np.abs(difference),
        products=products * (1 + gamma),
        stored=stored * (1 + gamma),
        bias=bias * (1 + gamma),
        elements=np.broadcast_to(elements, products.shape),
        evaluation=gamma * (products + stored) + operations * 2.0**-1074,
    )
