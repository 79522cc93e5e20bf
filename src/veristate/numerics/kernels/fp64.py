"""The definition of a check: FP64 sums in one fixed order, written plainly.

For Y = X W^T + b, X [M, K], W [N, K], b [N], Y [M, N]:

    row i:          sum_j Y_ij          against   x_i . (sum_j w_j) + sum_j b_j
    column (I, j):  sum_I t_i Y_ij      against   (sum_I t_i x_i) . w_j + (sum_I t_i) b_j,   I a block of rows
    element (i, j): Y_ij                against   x_i . w_j + b_j

A row's sign t of zero leaves the row out. Each cell is a function of its own operands: a check of some cells gives the
bits of a check of all, which is what lets a faster kernel hand over only the cells it can't decide.
Source: BioAgent-DF A.3, I.4.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels.compiled import compiled

FloatArray = NDArray[np.float64]
Indices = NDArray[np.intp]
AnyFloats = NDArray[Any]


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


def row_sums(X: AnyFloats, Y: AnyFloats, columns: FloatArray, bias: FloatArray, rows: Indices) -> Sums:
    """The sums of the given rows. `columns` [2, K] are sum_j w_j and sum_j |w_j|, `bias` [2] the same of b."""
    cells = np.empty((3, len(rows)))
    _row_cells(X, Y, columns, bias, rows, cells)
    elements = np.full(len(rows), float(Y.shape[1]))
    return _sums(cells, bias=np.full(len(rows), bias[1]), elements=elements, terms=X.shape[1])


def column_sums(
    X: AnyFloats,
    W: AnyFloats,
    b: FloatArray,
    Y: AnyFloats,
    signs: NDArray[np.float32],
    block: int,
    blocks: Indices,
    columns: Indices,
) -> Sums:
    """The sums of the given cells (blocks[n], columns[n]), fastest where a block's cells follow each other.

    Shapes: signs [M], one draw; blocks, columns [n].
    """
    cells = np.empty((3, len(blocks)))
    _column_cells(X, W, b, Y, signs, block, blocks, columns, cells)
    starts = np.arange(0, max(len(X), 1), block)
    present = np.add.reduceat(np.abs(signs), starts) if len(X) else np.zeros(1)
    elements = present[blocks].astype(np.float64)
    return _sums(cells, bias=elements * np.abs(b[columns]), elements=elements, terms=X.shape[1])


def element_sums(X: AnyFloats, W: AnyFloats, b: FloatArray, Y: AnyFloats, rows: Indices, columns: Indices) -> Sums:
    """The sums of the given elements (rows[n], columns[n]), each for itself."""
    cells = np.empty((3, len(rows)))
    _element_cells(X, W, b, Y, rows, columns, cells)
    return _sums(cells, bias=np.abs(b[columns]), elements=np.ones(len(rows)), terms=X.shape[1])


def all_element_sums(X: AnyFloats, W: AnyFloats, b: FloatArray, Y: AnyFloats) -> Sums:
    """The sums of every element, [M, N]: a whole product by the platform's FP64 matrix product, in its own order."""
    X, W, Y = (np.asarray(a, dtype=np.float64) for a in (X, W, Y))
    cells = np.stack([np.abs(Y - (X @ W.T + b)), np.abs(X) @ np.abs(W).T + np.abs(b), np.abs(Y)])
    return _sums(cells, bias=np.abs(b)[None, :], elements=np.ones((1, 1)), terms=X.shape[1])


@compiled()
def _row_cells(X: AnyFloats, Y: AnyFloats, columns: FloatArray, bias: FloatArray, rows: Indices, out: Any) -> None:
    for n in range(len(rows)):
        i = rows[n]
        observed, stored, expected, products = 0.0, 0.0, 0.0, 0.0
        for j in range(Y.shape[1]):
            y = np.float64(Y[i, j])
            observed += y
            stored += abs(y)
        for k in range(X.shape[1]):
            x = np.float64(X[i, k])
            expected += x * columns[0, k]
            products += abs(x) * columns[1, k]
        out[0, n] = abs(observed - (expected + bias[0]))
        out[1, n] = products + bias[1]
        out[2, n] = stored


@compiled()
def _column_cells(
    X: AnyFloats,
    W: AnyFloats,
    b: FloatArray,
    Y: AnyFloats,
    signs: NDArray[np.float32],
    block: int,
    blocks: Indices,
    columns: Indices,
    out: FloatArray,
) -> None:
    sums, sums_abs = np.empty(X.shape[1]), np.empty(X.shape[1])
    last, sign_sum, present, start, stop = -1, 0.0, 0.0, 0, 0
    for n in range(len(blocks)):
        if blocks[n] != last:
            last = blocks[n]
            start, stop = last * block, min((last + 1) * block, X.shape[0])
            sums[:], sums_abs[:] = 0.0, 0.0
            sign_sum, present = 0.0, 0.0
            for i in range(start, stop):
                t = np.float64(signs[i])
                if t != 0.0:
                    sign_sum += t
                    present += 1.0
                    for k in range(X.shape[1]):
                        x = np.float64(X[i, k])
                        sums[k] += t * x
                        sums_abs[k] += abs(x)
        j = columns[n]
        observed, stored, expected, products = 0.0, 0.0, 0.0, 0.0
        for i in range(start, stop):
            t = np.float64(signs[i])
            if t != 0.0:
                y = np.float64(Y[i, j])
                observed += t * y
                stored += abs(y)
        for k in range(X.shape[1]):
            w = np.float64(W[j, k])
            expected += sums[k] * w
            products += sums_abs[k] * abs(w)
        out[0, n] = abs(observed - (expected + sign_sum * b[j]))
        out[1, n] = products + present * abs(b[j])
        out[2, n] = stored


@compiled()
def _element_cells(
    X: AnyFloats, W: AnyFloats, b: FloatArray, Y: AnyFloats, rows: Indices, columns: Indices, out: FloatArray
) -> None:
    for n in range(len(rows)):
        i, j = rows[n], columns[n]
        expected, products = 0.0, 0.0
        for k in range(X.shape[1]):
            x, w = np.float64(X[i, k]), np.float64(W[j, k])
            expected += x * w
            products += abs(x) * abs(w)
        out[0, n] = abs(np.float64(Y[i, j]) - (expected + b[j]))
        out[1, n] = products + abs(b[j])
        out[2, n] = abs(np.float64(Y[i, j]))


def _sums(cells: FloatArray, *, bias: FloatArray, elements: FloatArray, terms: int) -> Sums:
    """The sums with the bound on this pass's own FP64 rounding.

    Any order of K + n additions of represented values errs by at most gamma_(K+n) times the sum of their absolute
    values; that sum is itself computed, hence the doubled count. Products of two float64 may underflow: K + n of the
    smallest subnormal covers them.
    """
    residual, products, stored = cells
    operations = 2.0 * (terms + elements + 8)
    gamma = operations * 2.0**-53 / (1 - operations * 2.0**-53)
    return Sums(
        residual=residual,
        products=products * (1 + gamma),
        stored=stored * (1 + gamma),
        bias=bias * (1 + gamma),
        elements=np.broadcast_to(elements, products.shape),
        evaluation=gamma * (products + stored) + operations * 2.0**-1074,
    )


@compiled()
def scatter_elements(rows: Any, index: Any, exact: Any, products: Any, addends: Any) -> None:
    """Adds rows [n, F], their absolute values and ones to the places [D, F] that index [n, F] names, in order."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            d = index[i, j]
            exact[d, j] += rows[i, j]
            products[d, j] += abs(rows[i, j])
            addends[d, j] += 1
