"""One call of a linear layer as arrays, and what is prepared from its weights once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.kernels import Layer, read_weights
from veristate.numerics.storage import Representation, from_storage_bits

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
    # What a guard prepared for calls with these weights, by what else it depends on.
    plans: dict[Any, tuple[Any, ...]] = field(default_factory=dict, repr=False, compare=False)
    _runs: list[NDArray[np.int64]] = field(default_factory=list, repr=False, compare=False)
    _sample: list[tuple[NDArray[np.intp], NDArray[np.float32]]] = field(default_factory=list, repr=False, compare=False)

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
    def _read(self) -> tuple[FloatArray, tuple[float, float], FloatArray]:
        return read_weights(self.W)

    @property
    def columns(self) -> FloatArray:
        """[2, K]: sum_j w_j and sum_j |w_j|."""
        return self._read[0]

    @cached_property
    def bias(self) -> FloatArray:
        """[2]: sum_j b_j and sum_j |b_j|, each added in order."""
        both = np.stack([self.b, np.abs(self.b)])
        return np.asarray(np.add.accumulate(both, axis=1)[:, -1] if len(self.b) else np.zeros(2))

    @cached_property
    def narrow_columns(self) -> NDArray[np.float32]:
        """`columns` rounded to float32, which carries one relative rounding or, where `fast` is false, is not used."""
        return self.columns.astype(np.float32)

    @property
    def norms(self) -> FloatArray:
        """[N]: the Euclidean norms of the rows, about: for statistics, never for a bound."""
        return self._read[2]

    @property
    def largest(self) -> float:
        """The largest finite absolute value of W."""
        return self._read[1][1]

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
        return inside and self._read[1][0] >= 2.0**-126 and bool(np.isfinite(self.bias[1]))

    def sample(self, importance: NDArray[Any] | None) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Some columns k and |W| at them, [N, columns]: a part of the terms of sum |x||w|, which is never above it.

        `importance` [K] chooses the runs of columns that carry most of it; None gives what was chosen last.
        """
        runs = self._sampled(importance)
        if not self._sample:
            columns = np.concatenate([np.arange(start, start + length) for start, length in runs])
            self._sample.append((columns, np.abs(self.W[:, columns])))
        return self._sample[0]

    @property
    def layer(self) -> Layer:
        """The same for the C kernel, with the runs that were chosen last."""
        return Layer(
            W=self.W,
            b=self.b,
            norms=self.norms,
            narrow_columns=self.narrow_columns,
            runs=self._sampled(None),
            bias=self.bias,
            largest=self.largest,
        )

    def _sampled(self, importance: NDArray[Any] | None) -> NDArray[np.int64]:
        """[n, 2]: the first columns of the runs, and their lengths."""
        if importance is None and self._runs:
            return self._runs[0]
        K = self.W.shape[1]
        self.plans.clear()
        self._sample.clear()
        weight = self.columns[1] if importance is None else importance * self.columns[1]
        score = np.add.reduceat(weight, np.arange(0, K, RUN))
        first = RUN * np.sort(np.argsort(score)[-max(K // SAMPLED, FEWEST_RUNS) :])
        self._runs[:] = [np.ascontiguousarray(np.stack([first, np.minimum(K - first, RUN)], axis=1), dtype=np.int64)]
        return self._runs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Values [M, K] as the 16 bits they are stored in, in bf16 or fp16: read where they lie by the C kernel, and
    widened for everything else. Rows lie in one piece each.
    """

    bits: NDArray[np.uint16]
    representation: Representation

    def wide(self) -> NDArray[np.float32]:
        """The values in float32, which holds them exactly."""
        return np.asarray(from_storage_bits(self.bits, self.representation), dtype=np.float32)


class Operands:
    """One call Y = X W^T + b. Shapes: X [M, K], weights [N, K], Y [M, N]. Dtypes: float32, or all float64; X and Y may
    be given as they are stored, and are widened when they are first read here.
    """

    __slots__ = ("_given", "_wide", "weights")

    def __init__(self, *, X: AnyFloats | Stored, weights: Weights, Y: AnyFloats | Stored) -> None:
        self._given = {"X": X, "Y": Y}
        self._wide = {name: a for name, a in self._given.items() if not isinstance(a, Stored)}
        self.weights = weights

    @classmethod
    def of(cls, X: AnyFloats | Stored, W: AnyFloats | Weights, b: AnyFloats | None, Y: AnyFloats | Stored) -> Self:
        """The call; W may be weights that were prepared before, and then b is theirs.

        Raises: InputError when the shapes don't fit.
        """
        weights = W if isinstance(W, Weights) else Weights.of(W, b)
        (N, K), x, y = weights.W.shape, _shape(X), _shape(Y)
        if len(x) != 2 or y != (x[0], N) or x[1] != K:
            raise InputError(f"Y = X W^T + b needs [M, K], [N, K], [M, N]; got {x}, {(N, K)}, {y}")
        alike = isinstance(X, Stored) and isinstance(Y, Stored) and X.representation == Y.representation
        if alike and weights.W.dtype == np.float32:
            return cls(X=X, weights=weights, Y=Y)
        X, Y = (plain(a.wide() if isinstance(a, Stored) else a) for a in (X, Y))
        if len({X.dtype, Y.dtype, weights.W.dtype}) > 1:  # one type for all: a wider one holds every value
            X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
            weights = Weights(W=np.asarray(weights.W, dtype=np.float64), b=weights.b, biased=weights.biased)
        return cls(X=X, weights=weights, Y=Y)

    @property
    def X(self) -> AnyFloats:  # noqa: N802 - its name in the field
        """X in float32 or float64."""
        return self._read("X")

    @property
    def Y(self) -> AnyFloats:  # noqa: N802
        """Y in float32 or float64."""
        return self._read("Y")

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, K, N."""
        M, K = _shape(self._given["X"])
        return M, K, _shape(self._given["Y"])[1]

    @property
    def narrow(self) -> tuple[NDArray[Any], NDArray[Any], str] | None:
        """X and Y as float32 or as the 16 bits they are stored in, and which of the three formats; None for others."""
        X, Y = self._given["X"], self._given["Y"]
        if isinstance(X, Stored) and isinstance(Y, Stored):
            return X.bits, Y.bits, X.representation
        if isinstance(X, Stored) or isinstance(Y, Stored) or not X.dtype == Y.dtype == np.float32:
            return None
        return X, Y, "fp32"

    def of_rows(self, rows: NDArray[np.intp]) -> "Operands":
        """The call of some of its rows alone."""
        X, Y = (
            Stored(bits=a.bits[rows], representation=a.representation) if isinstance(a, Stored) else a[rows]
            for a in (self._given["X"], self._given["Y"])
        )
        return Operands(X=X, weights=self.weights, Y=Y)

    @property
    def largest_operand(self) -> float:
        """The largest finite absolute value among X and W."""
        return max(largest_finite(self.X), self.weights.largest)

    def _read(self, name: str) -> AnyFloats:
        if name not in self._wide:
            given = self._given[name]
            assert isinstance(given, Stored)
            self._wide[name] = plain(given.wide())
        return self._wide[name]


def _shape(a: AnyFloats | Stored) -> tuple[int, ...]:
    return (a.bits if isinstance(a, Stored) else a).shape


def plain(a: AnyFloats) -> AnyFloats:
    """`a` row-major in float32 or float64; narrower formats are held in float32, which holds them exactly."""
    wanted = a.dtype if a.dtype in (np.float32, np.float64) else np.dtype(np.float32 if a.dtype.itemsize < 4 else "f8")
    return np.ascontiguousarray(a, dtype=wanted)


def largest_finite(a: AnyFloats) -> float:
    """The largest finite absolute value of `a`, 0 for none."""
    top = float(max(a.max(initial=0.0), -a.min(initial=0.0)))
    return top if np.isfinite(top) else float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
