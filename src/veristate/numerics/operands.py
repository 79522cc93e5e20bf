"""One call of a linear layer as arrays, and what is prepared from its weights once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.kernels import row_norms, weight_sizes, weight_sums

FloatArray = NDArray[np.float64]
AnyFloats = NDArray[Any]

# Below this a product or sum of float32 values could underflow unseen; above, overflow. Such weights have no fast path.
SMALLEST_FAST, LARGEST_FAST = 2.0**-60, 2.0**100
# A sample takes columns of W in runs of one cache line: one run in 16, two at least.
RUN, SAMPLED, FEWEST_RUNS = 16, 256, 2


@dataclass(frozen=True, kw_only=True)
class Weights:
    """W [N, K] in float32 or float64, b [N] in float64 (zeros for none), and their sums, each computed when first used.

    Prepare them once per version of a layer's weights: nothing here depends on X or Y.
    """

    W: AnyFloats
    b: FloatArray
    biased: bool
    _sample: list[tuple[NDArray[np.intp], NDArray[np.float32]]] = field(default_factory=list)

    @classmethod
    def of(cls, W: AnyFloats, b: AnyFloats | None = None) -> Self:
        """The weights, with W as a row-major array in a format numpy adds in. Raises: InputError for other shapes."""
        if W.ndim != 2:
            raise InputError(f"weights must be [N, K], got {W.shape}")
        if b is not None and b.shape != (len(W),):
            raise InputError(f"the bias of {len(W)} columns has shape {b.shape}")
        bias = np.zeros(len(W)) if b is None else np.asarray(b, dtype=np.float64)
        return cls(W=plain(W), b=bias, biased=b is not None)

    @cached_property
    def columns(self) -> FloatArray:
        """[2, K]: sum_j w_j and sum_j |w_j|."""
        out = np.empty((2, self.W.shape[1]))
        weight_sums(self.W, out)
        return out

    @cached_property
    def bias(self) -> FloatArray:
        """[2]: sum_j b_j and sum_j |b_j|, each added in order."""
        both = np.stack([self.b, np.abs(self.b)])
        return np.asarray(np.add.accumulate(both, axis=1)[:, -1] if len(self.b) else np.zeros(2))

    @cached_property
    def narrow_columns(self) -> NDArray[np.float32]:
        """`columns` rounded to float32, which carries one relative rounding or, where `fast` is false, is not used."""
        return self.columns.astype(np.float32)

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        return weight_sizes(self.W)

    @cached_property
    def norms(self) -> FloatArray:
        """[N]: the Euclidean norms of the rows, about: for statistics, never for a bound."""
        norms = np.empty(len(self.W))
        row_norms(self.W, norms)
        return norms

    @property
    def largest(self) -> float:
        """The largest finite absolute value of W."""
        return self._sizes[1]

    @cached_property
    def widest(self) -> float:
        """The largest of sum_j |w_j|."""
        return float(self.columns[1].max(initial=0.0))

    @cached_property
    def fast(self) -> bool:
        """Whether float32 sums over these weights can neither underflow unseen nor overflow."""
        if self.W.dtype != np.float32 or not self.W.size:
            return False
        used = self.columns[1][self.columns[1] != 0]
        inside = not used.size or bool((used >= SMALLEST_FAST).all() and (used <= LARGEST_FAST).all())
        return inside and self._sizes[0] >= 2.0**-126 and bool(np.isfinite(self.bias[1]))

    def sample(self, importance: NDArray[Any] | None) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Some columns k and |W| at them, [N, columns]: a part of the terms of sum |x||w|, which is never above it.

        `importance` [K] chooses the runs of columns that carry most of it; None gives what was chosen last.
        """
        if importance is None and self._sample:
            return self._sample[0]
        K = self.W.shape[1]
        weight = self.columns[1] if importance is None else importance * self.columns[1]
        score = np.add.reduceat(weight, np.arange(0, K, RUN))
        runs = np.sort(np.argsort(score)[-max(K // SAMPLED, FEWEST_RUNS) :])
        columns = (runs[:, None] * RUN + np.arange(RUN)).ravel()
        columns = columns[columns < K]
        self._sample[:] = [(columns, np.abs(self.W[:, columns]))]
        return self._sample[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """One call Y = X W^T + b. Shapes: X [M, K], weights [N, K], Y [M, N]. Dtypes: float32, or all float64."""

    X: AnyFloats
    weights: Weights
    Y: AnyFloats

    @classmethod
    def of(cls, X: AnyFloats, W: AnyFloats | Weights, b: AnyFloats | None, Y: AnyFloats) -> Self:
        """The call; W may be weights that were prepared before, and then b is theirs.

        Raises: InputError when the shapes don't fit.
        """
        weights = W if isinstance(W, Weights) else Weights.of(W, b)
        N, K = weights.W.shape
        if X.ndim != 2 or Y.shape != (len(X), N) or X.shape[1] != K:
            raise InputError(f"Y = X W^T + b needs [M, K], [N, K], [M, N]; got {X.shape}, {(N, K)}, {Y.shape}")
        X, Y = plain(X), plain(Y)
        if len({X.dtype, Y.dtype, weights.W.dtype}) > 1:  # one type for all: a wider one holds every value
            X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
            weights = Weights(W=np.asarray(weights.W, dtype=np.float64), b=weights.b, biased=weights.biased)
        return cls(X=X, weights=weights, Y=Y)

    @property
    def largest_operand(self) -> float:
        """The largest finite absolute value among X and W."""
        return max(largest_finite(self.X), self.weights.largest)


def plain(a: AnyFloats) -> AnyFloats:
    """`a` row-major in float32 or float64; narrower formats are held in float32, which holds them exactly."""
    wanted = a.dtype if a.dtype in (np.float32, np.float64) else np.dtype(np.float32 if a.dtype.itemsize < 4 else "f8")
    return np.ascontiguousarray(a, dtype=wanted)


def largest_finite(a: AnyFloats) -> float:
    """The largest finite absolute value of `a`, 0 for none."""
    top = float(max(a.max(initial=0.0), -a.min(initial=0.0)))
    return top if np.isfinite(top) else float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
