"""Which cells a streaming pass can't let pass: the comparison of the guard, cell by cell.

Each function writes the cells that stay undecided (the residual is not surely within its bound, or one of them is not
finite: a float32 sum overflowed) and returns how many there are, with the largest residual over what it was compared
with.
"""

from typing import Any

import numpy as np

from veristate.numerics.kernels.compiled import compiled


@compiled()
def judge_rows(
    observed: Any, stored: Any, expected: Any, products: Any, bias: Any, limits: Any, out: Any
) -> tuple[int, float]:
    """Undecided rows into out [M]. `bias` is sum b, sum |b|; `limits` are factors of products, stored, and a rest."""
    count, worst = 0, 0.0
    for i in range(len(observed)):
        residual = abs(observed[i] - (expected[i] + bias[0]))
        mass = products[i] + bias[1]
        if mass == 0.0 and stored[i] == 0.0:
            continue
        limit = limits[0] * mass + limits[1] * stored[i] + limits[2]
        if not residual <= limit < np.inf:
            out[count] = i
            count += 1
        elif residual > worst * limit:
            worst = residual / limit
    return count, worst


@compiled()
def _larger(share: float, residual: float, level: float) -> float:
    """The share, or residual / level where that is larger."""
    return residual / level if residual > share * level else share


@compiled(reorder=True)
def screen_scales(Y_sizes: Any, X_sizes: Any, sums_abs: Any, step: int, scales: Any) -> None:
    """For each block: how much smaller |Y|_F is than the sum of |Y|, and about |X|_F, into scales [2, blocks].

    Rows of a block differ in size, and a norm follows the largest: with s_i the size of row i, the root of the summed
    squares is sqrt(sum s_i^2) / sum s_i of the sum, from 1 / sqrt(n) for rows alike to 1 for a single one.
    Shapes: Y_sizes, X_sizes [M]; sums_abs [blocks, K].
    """
    for block in range(scales.shape[1]):
        start, stop = block * step, min((block + 1) * step, len(Y_sizes))
        for which in range(2):
            sizes = Y_sizes if which == 0 else X_sizes
            total, squares = 0.0, 0.0
            for i in range(start, stop):
                total += sizes[i]
                squares += sizes[i] * sizes[i]
            scales[which, block] = np.sqrt(squares) / total if 0.0 < total < np.inf else 1.0
        norm = 0.0
        for k in range(sums_abs.shape[1]):
            norm += np.float64(sums_abs[block, k]) * np.float64(sums_abs[block, k])
        scales[1, block] *= np.sqrt(norm)


@compiled()
def judge_columns(
    observed: Any,
    stored: Any,
    expected: Any,
    products: Any,
    b: Any,
    sign_sums: Any,
    rows: Any,
    limits: Any,
    screen: Any,
    scales: Any,
    column_scale: Any,
    out: Any,
    screened: Any,
) -> tuple[int, int, float, float]:
    """Undecided cells into out [cells, 3] (draw, block, column), suspect ones into screened [cells, 3].

    Shapes: observed, expected [draws, blocks, N]; stored, products [blocks, N]; b [N]; sign_sums [draws, blocks];
    rows [blocks] of each block; scales [2, blocks] of Y and X and column_scale [N] of the statistical screen, whose two
    factors and rest are `screen`; a factor of infinity screens nothing. Returns the two counts, the largest residual
    over its limit and over its screen.
    """
    count, suspects, worst, loudest = 0, 0, 0.0, 0.0
    draws, blocks, N = observed.shape
    for d in range(draws):
        for block in range(blocks):
            n, t = rows[block], sign_sums[d, block]
            rest, floor = limits[2] * n + limits[3], screen[2] * n  # the floor is above 0
            by_stored, by_norms = screen[0] * scales[0, block], screen[1] * scales[1, block]
            see, want, mass, low = observed[d, block], expected[d, block], stored[block], products[block]
            empty, finite = scales[1, block] == 0.0, scales[1, block] < np.inf  # an infinite x gives no zero
            # Vectorised: only blocks with something to report are looked at one cell at a time.
            noticed = 0
            for j in range(N):
                residual = abs(see[j] - (want[j] + t * b[j]))
                limit = limits[0] * (low[j] + n * abs(b[j])) + limits[1] * mass[j] + rest
                level = by_stored * mass[j] + by_norms * column_scale[j] + floor
                fine = (residual <= limit) & (limit < np.inf) & (residual <= level)
                nothing = (mass[j] == 0.0) & (b[j] == 0.0) & (empty | (finite & (column_scale[j] == 0.0)))
                noticed += not (nothing | (fine & (residual <= worst * limit) & (residual <= loudest * level)))
            if noticed == 0:
                continue
            for j in range(N):
                residual = abs(see[j] - (want[j] + t * b[j]))
                limit = limits[0] * (low[j] + n * abs(b[j])) + limits[1] * mass[j] + rest
                level = by_stored * mass[j] + by_norms * column_scale[j] + floor
                if (mass[j] == 0.0) & (b[j] == 0.0) & (empty | (finite & (column_scale[j] == 0.0))):
                    continue
                if not residual <= limit < np.inf:
                    out[count, 0], out[count, 1], out[count, 2] = d, block, j
                    count += 1
                else:
                    worst = _larger(worst, residual, limit)
                if not residual <= level:
                    screened[suspects, 0], screened[suspects, 1], screened[suspects, 2] = d, block, j
                    suspects += 1
                loudest = _larger(loudest, residual, level)
    return count, suspects, worst, loudest


@compiled()
def judge_sums(
    observed: Any, stored: Any, expected: Any, products: Any, limits: Any, lost: float
) -> tuple[bool, float]:
    """Whether all blocks [blocks, F] of sums by destination surely pass, and the largest residual over its limit.

    `limits` [blocks, 2] are the factor of the products and a rest; `lost` is the factor of the stored sums, taken off.
    """
    worst = 0.0
    for block in range(observed.shape[0]):
        factor, rest = limits[block, 0], limits[block, 1]
        for j in range(observed.shape[1]):
            residual = abs(observed[block, j] - expected[block, j])
            limit = factor * products[block, j] - lost * stored[block, j] + rest
            if products[block, j] == 0.0 and stored[block, j] == 0.0:
                continue
            if not residual <= limit < np.inf:
                return False, worst
            if residual > worst * limit:
                worst = residual / limit
    return True, worst


@compiled(reorder=True)
def loud_elements(X: Any, W: Any, b: Any, Y: Any, cells: Any, step: int, sure: float, out: Any) -> tuple[int, int]:
    """The elements of the given cells [n, 2] (block, column) whose residual is not below `sure` times |Y|, into out
    [elements, 2] (row, column). Returns how many were looked at and how many there are.
    """
    looked, count = 0, 0
    for n in range(len(cells)):
        j, stop = cells[n, 1], min((cells[n, 0] + 1) * step, X.shape[0])
        looked += stop - cells[n, 0] * step
        for i in range(cells[n, 0] * step, stop):
            expected = 0.0
            for k in range(X.shape[1]):
                expected += np.float64(X[i, k]) * np.float64(W[j, k])
            y = np.float64(Y[i, j])
            if not abs(y - (expected + b[j])) <= sure * abs(y) < np.inf:
                out[count, 0], out[count, 1] = i, j
                count += 1
    return looked, count


@compiled()
def unsure_elements(Y: Any, P: Any, low: Any, b: Any, limits: Any, first: int, out: Any) -> int:
    """The elements whose distance from P + b is not surely within their limit, into out [elements, 2] (row, column).

    `limits` are factors of |low| + |b| and of |Y|, and a rest; `first` numbers the first row. Returns how many.
    """
    count = 0
    for i in range(Y.shape[0]):
        noticed = 0
        for j in range(Y.shape[1]):
            limit = limits[0] * (abs(low[i, j]) + abs(b[j])) + limits[1] * abs(Y[i, j]) + limits[2]
            noticed += not ((abs(Y[i, j] - (P[i, j] + b[j])) <= limit) & (limit < np.inf))
        if noticed == 0:
            continue
        for j in range(Y.shape[1]):
            limit = limits[0] * (abs(low[i, j]) + abs(b[j])) + limits[1] * abs(Y[i, j]) + limits[2]
            if not abs(Y[i, j] - (P[i, j] + b[j])) <= limit < np.inf:
                out[count, 0], out[count, 1] = first + i, j
                count += 1
    return count
