"""Many small products at once, as attention has them: which of them surely pass, in one call."""

from typing import Any

import numpy as np

from veristate.numerics.kernels.compiled import compiled


@compiled(reorder=True)
def batched_pass(X: Any, W: Any, Y: Any, signs: Any, block: int, limits: Any, passed: Any) -> float:
    """Marks in passed [B] the products Y = X W^T whose every column cell is within its limit; the largest share of it.

    Shapes: X [B, M, K], W [B, N, K], Y [B, M, N], signs [M]; limits are factors of sum |x||w| and of sum |Y|, and an
    absolute part for each element. Sums are in float64, so only its rounding is lost.
    """
    M, K, N = X.shape[1], X.shape[2], W.shape[1]
    sums, sums_abs, worst = np.empty(K), np.empty(K), 0.0
    observed, stored = np.empty(N), np.empty(N)
    for b in range(X.shape[0]):
        fine = True
        for start in range(0, M, block):
            stop = min(start + block, M)
            sums[:], sums_abs[:], observed[:], stored[:] = 0.0, 0.0, 0.0, 0.0
            for i in range(start, stop):
                t = np.float64(signs[i])
                for k in range(K):
                    x = np.float64(X[b, i, k])
                    sums[k] += t * x
                    sums_abs[k] += abs(x)
                for j in range(N):
                    y = np.float64(Y[b, i, j])
                    observed[j] += t * y
                    stored[j] += abs(y)
            for j in range(N):
                expected, products = 0.0, 0.0
                for k in range(K):
                    w = np.float64(W[b, j, k])
                    expected += sums[k] * w
                    products += sums_abs[k] * abs(w)
                residual = abs(observed[j] - expected)
                limit = limits[0] * products + limits[1] * stored[j] + limits[2] * (stop - start)
                if not residual <= limit < np.inf:  # what isn't finite is not sure
                    fine = False
                elif residual > worst * limit:
                    worst = residual / limit
        passed[b] = fine
    return worst
