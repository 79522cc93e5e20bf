"""The row check: how far each exported row is from the exact map of its inputs, by probes and scalars alone.

A layer gives y_i = c_i + b + sum over its terms of W (sum_d x_(index[i, d])), where x = max(in, slope * in). Its row
error e_i = y_i - that value is never formed: <g, e_i> = <g, y_i> - <g, c_i> - <g, b> - sum <W^T g, x>, since sums
commute with W. So whatever the device did between its exports (activation, gather, sum, subtraction, product, bias) is
inside the check, and a row costs `draws` products instead of a row of W.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.probes.draws import Probes
from veristate.numerics.probes.rounding import LOST_LENGTH, Floats, gamma_upper, raised
from veristate.numerics.probes.spectral import norms_upper, row_norms_upper
from veristate.numerics.probes.sums import gathered, widened

Indices = NDArray[np.integer[Any]]
# Rows converted to FP64 at once: they stay in the processor's second cache.
_CHUNK = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """W times a sum of rows. `index` [R, D] names the rows of `inputs` [Q, K] that are added for each output row; -1 is
    no row. `slope`: inputs pass max(x, slope x) first: 1 nothing, 0 a ReLU, between a leaky one. `scale` [R] divides.

    Dtypes: W float64, exactly the represented weights; inputs float32 or float64.
    """

    W: Floats
    inputs: NDArray[Any]
    index: Indices
    slope: float = 1.0
    scale: Floats | None = None

    def __post_init__(self) -> None:
        if self.W.shape[1:] != self.inputs.shape[1:] or self.index.ndim != 2 or not 0.0 <= self.slope <= 1.0:
            raise InputError(
                f"a term needs W [N, K] {self.W.shape}, inputs [Q, K] {self.inputs.shape}, an index [R, D] "
                f"{self.index.shape} and a slope in 0..1, {self.slope}"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMap:
    """The exact map of a layer: terms, a bias [N], and rows `known` [C, N]; `known_index` [R] names one for each."""

    terms: Sequence[Term]
    bias: Floats | None = None
    known: NDArray[Any] | None = None
    known_index: Indices | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowErrors:
    """`eps` [R]: with the plan's probability, for all rows of all checks at once, |e_i|_2 <= eps_i; infinite where a
    value is not finite. `residual` [R] is |r_i|_2 as computed, `beta` [R] what rounding of the check may add to each r.
    """

    eps: Floats
    residual: Floats
    beta: Floats


@np.errstate(invalid="ignore", over="ignore")
def check_rows(probes: Probes, name: str, layer: RowMap, *, weights: str) -> RowErrors:
    """The row errors of the exported rows `name`, which takes their probes.

    Maths: for fixed e, sum_k <g_k, e>^2 = |e|^2 chi2_m. With q the delta/T quantile, eps = (|r|_2 + sqrt(m) beta) /
    sqrt(q), where beta = gamma_n ((|y| + |c| + |b|) |g| + sum |x| ||W|^T |g||) bounds the check's own FP64 rounding.
    Raises: InputError when the device used other weights than `weights`, or gave whole numbers; RefusedError for probes
    that were used.
    Source: Freivalds' test of a product, with Gaussian vectors, whose quadratic form has an exact law.
    """
    if probes.export.weights != weights:
        raise InputError(
            f"the export names weights {probes.export.weights[:12]} and the check holds {weights[:12]}: one of the two "
            "is stale; load both from one digest"
        )
    y, G = probes.take(name)
    if y.dtype not in (np.float32, np.float64):
        raise InputError(f"export {name!r} is {y.dtype} where a layer in real numbers gives float32 or float64")
    _require_fit(y, layer)
    r, y_norms = projected(y, G)
    g_norm = float(row_norms_upper(G.T).max())
    sizes = y_norms * g_norm
    adds = 2
    if layer.bias is not None:
        r -= layer.bias @ G
        sizes = sizes + float(row_norms_upper(layer.bias[None])[0]) * g_norm
    if layer.known is not None and layer.known_index is not None:
        known, norms = projected(layer.known, G)
        r -= known[layer.known_index]
        sizes = sizes + norms[layer.known_index] * g_norm
    for term in layer.terms:
        pulled = term.W.T @ G
        reach = float(row_norms_upper((np.abs(term.W).T @ np.abs(G)).T).max()) * (1 + gamma_upper(len(G)) * 2)
        dots, norms = projected(term.inputs, pulled, term.slope)
        parts, part_norms = gathered(dots, term.index), gathered(norms, term.index)
        if term.scale is not None:
            parts, part_norms = parts / term.scale[:, None], part_norms / term.scale
        r -= parts
        sizes = sizes + part_norms * reach
        adds += term.index.shape[1] + 3
    widest = max([y.shape[1], *(term.W.shape[1] for term in layer.terms)])
    beta = raised(gamma_upper(y.shape[1] + widest + adds + 8) * sizes, 64 + adds) + 2.0**-900
    length = np.sqrt(np.einsum("ij,ij->i", r, r)) + LOST_LENGTH
    m = probes.plan.draws
    eps = raised((raised(length, m + 4) + sqrt(m) * beta) / sqrt(probes.plan.quantile_lower), 8)
    return RowErrors(eps=np.asarray(eps), residual=length, beta=np.asarray(beta))


def projected(rows: NDArray[Any], G: Floats, slope: float = 1.0) -> tuple[Floats, Floats]:
    """(max(x, slope x) G, norms of x from above) for rows x, a piece of them at a time. Shapes: [R, N], [N, m] to
    [R, m], [R].
    """
    out, squares = np.empty((len(rows), G.shape[1])), np.empty(len(rows))
    room = np.empty((min(_CHUNK, len(rows)), rows.shape[1]))
    for start in range(0, len(rows), _CHUNK):
        part = room[: len(rows) - start]
        widened(rows, start, slope, part, squares)
        np.matmul(part, G, out=out[start : start + _CHUNK])
    return out, norms_upper(squares, rows.shape[1])


def _require_fit(y: NDArray[Any], layer: RowMap) -> None:
    R, N = y.shape
    wrong = [
        t for t in layer.terms if len(t.index) != R or t.W.shape[0] != N or (t.scale is not None and len(t.scale) != R)
    ]
    lone = (layer.known is None) != (layer.known_index is None)
    if wrong or lone or (layer.known_index is not None and len(layer.known_index) != R):
        raise InputError(f"the map of a layer does not fit the {R} exported rows of width {N}")
