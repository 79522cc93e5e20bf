"""What a check needs of a layer's weights, each in a read of W."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels import passes
from veristate.numerics.kernels.compiled import compiled


def read_weights(W: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[float, float], NDArray[np.float64]]:
    """Of W [N, K], row-major: `weight_sums`, `weight_sizes` and `row_norms`, by C in one read where that is there."""
    columns, norms = np.empty((2, W.shape[1])), np.empty(len(W))
    if passes.native is not None and W.dtype == np.float32 and W.size:
        return columns, passes.native.weights(W, columns, norms), norms
    weight_sums(W, columns)
    row_norms(W, norms)
    return columns, weight_sizes(W), norms


@compiled()
def weight_sums(W: Any, out: Any) -> None:
    """sum_j w_j and sum_j |w_j| into out [2, K], in the order of j: a part of the definition."""
    out[:] = 0.0
    for j in range(W.shape[0]):
        for k in range(W.shape[1]):
            w = np.float64(W[j, k])
            out[0, k] += w
            out[1, k] += abs(w)


@compiled(reorder=True)
def weight_sizes(W: Any) -> tuple[float, float]:
    """The smallest non-zero and the largest finite absolute value of W."""
    smallest, largest = np.inf, 0.0
    for j in range(W.shape[0]):
        for k in range(W.shape[1]):
            w = abs(np.float64(W[j, k]))
            smallest = w if 0.0 < w < smallest else smallest
            largest = w if largest < w < np.inf else largest
    return smallest, largest


@compiled(reorder=True)
def row_norms(A: Any, norms: Any) -> None:
    """About the Euclidean norms of the rows of A into norms."""
    for i in range(A.shape[0]):
        squares = 0.0
        for k in range(A.shape[1]):
            a = np.float64(A[i, k])
            squares += a * a
        norms[i] = np.sqrt(squares)
