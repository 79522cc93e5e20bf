"""Every element for itself, at the price of one more product: for a device that was proven wrong before.

Sums of many elements can't see what is smaller than their own rounding. Where a fault was proven once, the next call
may hold such errors, and it pays to look at all elements.
"""

import numpy as np

from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.checksums import Elements, check_elements, element_cells, refuse_denied_bias
from veristate.numerics.guard import TINY, Product, limits_of, within_reach
from veristate.numerics.kernels import loud_elements, unsure_elements
from veristate.numerics.operands import Operands

# Rows of one product, so that what is compared is still in the processor's cache.
ROWS = 512


@np.errstate(all="ignore")
def wrong_elements(call: Operands, arithmetic: LinearArithmetic, product: Product = np.inner) -> Elements:
    """The elements of a call that exceed their own bounds, all proven: those that `check_elements` flags.

    Costs one float32 product of the call by `product` (two where storage rounds nothing, as in float32), a comparison
    of every element, and the FP64 definition for the few left: about the layer itself, or twice it, where
    `check_elements` is a product of float64 copies. For calls that a check has flagged, and their neighbours.
    Maths: P = fl(x . w) errs by at most gamma_K B, B = sum |x||w| + |b|. So |Y - P - b| <= (G-1 - gamma_K) B_lower +
    c |Y| + a, less what underflow adds, is within the bound; all else goes to the definition. Where storage rounds,
    |P| is lower bound enough of B; else it is a product of absolute values.
    Raises: InputError for a bias that the arithmetic denies.
    """
    refuse_denied_bias(call, arithmetic)
    if not within_reach(call, arithmetic):
        rows, columns = np.nonzero(check_elements(call, arithmetic).flag)
    else:
        rows, columns = _unsure(call, arithmetic, product)
    cells = element_cells(call, arithmetic, rows, columns)
    return Elements(
        rows=rows[cells.flag],
        columns=columns[cells.flag],
        residual=cells.residual[cells.flag],
        bound=cells.bound[cells.flag],
        proven=cells.flag[cells.flag],
        examined=call.Y.size,
        loudest=0.0,
    )


def _unsure(call: Operands, arithmetic: LinearArithmetic, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """The elements that are not surely within their bounds: rows, columns."""
    X, weights, Y, K = call.X, call.weights, call.Y, call.X.shape[1]
    products, stored, rest = limits_of(arithmetic, K, added=1, expected=K + 3, lower=K + 3, observed=0)
    limits = np.array([products, stored, rest - TINY * (K * (2 + weights.largest) + 1)])
    absolute = None if stored > 0 else np.abs(weights.W)
    found = []
    for start in range(0, len(X), ROWS):
        part = X[start : start + ROWS]
        P = product(part, weights.W)
        low = P if absolute is None else product(np.abs(part), absolute)
        places = np.empty((P.size, 2), dtype=np.intp)
        count = unsure_elements(Y[start : start + ROWS], P, low, weights.b, limits, start, places)
        found.append(places[:count].copy())
    places = np.concatenate(found)
    # In float64, most turn out to be below the storage's share of |Y|, which no bound is below.
    kept = np.empty_like(places)
    _, count = loud_elements(X, weights.W, weights.b, Y, places, 1, 0.99 * max(stored, 0.0), kept)
    return kept[:count, 0], kept[:count, 1]
