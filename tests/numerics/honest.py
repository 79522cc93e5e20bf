"""Honest arithmetic, built without the code under test: exact results as integers, and producers that round by hand.

Every float is an integer multiple of 2^-1074, so sums of products are exact as Python integers at scale 2^-2148.
A producer computes in float64 with the last bit kept sticky (round to odd) and then rounds to the wanted format, which
gives the correctly rounded or truncated result of each single operation, fused or not.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

BITS = 1074
# significand bits, exponent of the smallest normal number: from IEEE 754 and the bfloat16 and TF32 definitions
F64, F32, T32, B16, F16 = (53, -1022), (24, -126), (11, -126), (8, -126), (11, -14)


def integers(values):
    """The values times 2^1074, as Python integers in an object array."""
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("only finite values are integers at some scale")
    mantissas, exponents = np.frexp(values)
    shift = exponents.astype(object) - 53 + BITS
    whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    return (whole << np.maximum(shift, 0)) >> np.maximum(-shift, 0)


def _dot(X, W):
    if X.shape[1] == 0:
        return np.full((len(X), len(W)), 0, dtype=object)
    return X.dot(W.T)


def exact(X, W, b=None):
    """X W^T + b exactly, as integers at scale 2^-2148."""
    products = _dot(integers(X), integers(W))
    return products if b is None else products + (integers(b) << BITS)


def exact_errors(X, W, b, Y):
    """Y minus the exact result, [M, N] of integers at scale 2^-2148."""
    return (integers(Y) << BITS) - exact(X, W, b)


def as_fraction(value):
    """An integer at scale 2^-2148 as a Fraction."""
    return Fraction(value, 2 ** (2 * BITS))


def within(errors, bounds):
    """Whether every error (integers at scale 2^-2148) is within its bound (floats), exactly."""
    return bool((np.abs(errors) <= integers(bounds) << BITS).all())


def narrow(values, form, *, truncate=False, flush=False):
    """Float64 values rounded (or cut) to a format, subnormals kept or flushed. No overflow."""
    precision, least = form
    _, exponent = np.frexp(values)
    quantum = np.ldexp(1.0, np.maximum(exponent, least + 1) - precision)
    result = (np.trunc if truncate else np.rint)(values / quantum) * quantum
    return np.where(np.abs(result) < 2.0**least, 0.0, result) if flush else result


def sticky_sum(a, b):
    """The sum a + b in float64, rounded to odd: rounding that again to a much shorter format equals rounding once."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    even = (total.view(np.int64) & 1) == 0
    return np.where((rest != 0) & even, np.nextafter(total, np.where(rest > 0, np.inf, -np.inf)), total)


@dataclass(frozen=True, kw_only=True)
class Style:
    """One honest way to compute a linear layer."""

    order: str = "sequential"
    fma: bool = False
    truncate: bool = False
    flush: bool = False
    accumulate: tuple[int, int] = F32
    storage: tuple[int, int] = F32
    bias: str = "fused"
    splits: int = 1
    intermediate: tuple[int, int] | None = None

    def compute(self, X, W, b, rng):
        """Y [M, N] in float64, as this way of computing gives it."""
        X, W, b = (self._read(np.asarray(a, dtype=np.float64)) for a in (X, W, np.zeros(len(W)) if b is None else b))
        K = X.shape[1]
        k = {"reversed": np.arange(K)[::-1], "random": rng.permutation(K)}.get(self.order, np.arange(K))
        terms = X[:, None, k] * W[None, :, k]  # exact in float64: the operands have at most 24 significant bits
        if self.splits > 1:
            parts = [self._split(part) for part in np.array_split(terms, self.splits, axis=2)]
            total = parts[0]
            for part in parts[1:]:
                total = self._to(sticky_sum(total, part), self.intermediate)
        else:
            total = self._sum(terms)
        if self.bias == "separate":
            total = self._store(total)
        return self._store(self._round(sticky_sum(total, b)))

    def _split(self, terms):
        return self._to(self._sum(terms), self.intermediate)

    def _to(self, values, form):
        return narrow(values, form, flush=self.flush)

    def _store(self, values):
        return narrow(values, self.storage, flush=self.flush)

    def _read(self, values):
        return np.where(np.abs(values) < 2.0**-126, 0.0, values) if self.flush else values

    def _round(self, values):
        return narrow(values, self.accumulate, truncate=self.truncate, flush=self.flush)

    def _sum(self, terms):
        if self.order.startswith("matrix unit"):
            return self._matrix_unit(terms, int(self.order.split()[-1]))
        if not self.fma:
            terms = self._round(terms)
        if self.order == "pairwise":
            return self._pairwise(self._round(terms))
        if self.order == "blocked":
            blocks = np.array_split(terms, max(1, terms.shape[2] // 5), axis=2)
            return self._sequential(np.stack([self._sequential(block) for block in blocks], axis=2))
        if self.order == "lanes":
            lanes = [terms[:, :, lane::4] for lane in range(4)]
            return self._pairwise(np.stack([self._sequential(lane) for lane in lanes], axis=2))
        return self._sequential(terms)

    def _sequential(self, terms):
        total = np.zeros(terms.shape[:2])
        for k in range(terms.shape[2]):
            total = self._round(sticky_sum(total, terms[:, :, k]))
        return total

    def _pairwise(self, terms):
        if terms.shape[2] == 0:
            return np.zeros(terms.shape[:2])
        while terms.shape[2] > 1:
            if terms.shape[2] % 2:
                terms = np.concatenate([terms, np.zeros((*terms.shape[:2], 1))], axis=2)
            terms = self._round(sticky_sum(terms[:, :, ::2], terms[:, :, 1::2]))
        return terms[:, :, 0]

    def _matrix_unit(self, terms, width):
        """A tensor core's sum: `width` products and the accumulator, aligned to the largest and cut, then added."""
        total = np.zeros(terms.shape[:2])
        for start in range(0, terms.shape[2], width):
            addends = np.concatenate([total[:, :, None], terms[:, :, start : start + width]], axis=2)
            _, exponents = np.frexp(addends)
            top = np.where(addends == 0, -2000, exponents).max(axis=2, keepdims=True)
            quantum = np.ldexp(1.0, np.maximum(top, -125) - 24)
            total = self._round((np.trunc(addends / quantum) * quantum).sum(axis=2))
        return total


def bf16(values):
    """Values rounded to bfloat16, as float32."""
    return narrow(np.asarray(values, dtype=np.float64), B16).astype(np.float32)


def _normal(rng, M, K, N):
    return rng.normal(size=(M, K)), rng.normal(size=(N, K)), rng.normal(size=N)


def _cancelling(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    X[:, 1::2] = -X[:, : K - K % 2 : 2] * (1 + 2.0**-6 * rng.integers(-1, 2, size=(M, K // 2)))
    W[:, 1::2] = W[:, : K - K % 2 : 2]
    return X * 1e3, W, b * 1e-3


def _subnormal_operands(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    return X * 2.0**-128, W * 4, b * 2.0**-127


def _subnormal_products(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    return X * 2.0**-66, W * 2.0**-66, b * 2.0**-131


def _tiny_products(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    return X * 2.0**-75, W * 2.0**-74, b * 2.0**-148


def _flushed_times_large(rng, M, K, N):
    return rng.uniform(0.5, 1, (M, K)) * 2.0**-126, rng.uniform(1, 2, (N, K)) * 2.0**100, np.zeros(N)


def _scales(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    rows = 10.0 ** rng.uniform(-12, 12, (M, 1))
    return X * rows, W * 10.0 ** rng.uniform(-12, 12, (N, 1)), b * 10.0 ** rng.uniform(-12, 12, N)


def _mixed_scales(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    return X * 10.0 ** rng.uniform(-12, 12, (1, K)), W, b * 1e6


def _relu(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    return np.maximum(X - 1, 0), W, b


def _zeros(rng, M, K, N):
    X, W, b = _normal(rng, M, K, N)
    X[::2], W[1::2], b[::2] = 0, 0, 0
    return X, W, b


def _constant(rng, M, K, N):
    return np.full((M, K), 1 / 3), np.full((N, K), 0.7), np.full(N, 1.1)


def _positive(rng, M, K, N):
    return rng.uniform(1, 2, (M, K)), rng.uniform(1, 2, (N, K)), rng.uniform(1, 2, N)


def _ties(rng, M, K, N):
    X = rng.integers(-3, 4, (M, K)) * 2.0 ** rng.integers(-12, 13, (M, K))
    return X, rng.integers(-3, 4, (N, K)) * 2.0 ** rng.integers(-12, 13, (N, K)), rng.integers(-9, 10, N) * 0.5


def _shrinking(rng, M, K, N):
    """One large term, then many that an accumulator loses in part; in half of the rows wholly, the worst of cuts."""
    X = np.full((M, K), 1 - 2.0**-7) * 2.0 ** -rng.integers(22, 27, (M, K))
    X[::2] = (1 - 2.0**-7) * 2.0**-23
    X[:, :1] = 1
    return X, np.ones((N, K)), np.full(N, 2.0**-24)


FAMILIES = {
    "normal": _normal,
    "cancelling": _cancelling,
    "subnormal operands": _subnormal_operands,
    "subnormal products": _subnormal_products,
    "tiny products": _tiny_products,
    "flushed times large": _flushed_times_large,
    "scales 1e+-12": _scales,
    "mixed scales": _mixed_scales,
    "relu": _relu,
    "zeros": _zeros,
    "constant": _constant,
    "positive": _positive,
    "ties": _ties,
    "shrinking": _shrinking,
}

FP32_STYLES = {
    "sequential": Style(),
    "reversed fma": Style(order="reversed", fma=True),
    "random": Style(order="random"),
    "pairwise": Style(order="pairwise"),
    "blocked fma": Style(order="blocked", fma=True),
    "lanes": Style(order="lanes", fma=True),
    "truncated": Style(truncate=True),
    "truncated random fma": Style(order="random", fma=True, truncate=True),
    "flushed": Style(flush=True),
    "flushed truncated pairwise": Style(order="pairwise", flush=True, truncate=True),
    "separate bias": Style(bias="separate"),
}
_BF16 = Style(storage=B16, bias="separate")
BF16_STYLES = {
    "sequential": _BF16,
    "fused bias": replace(_BF16, bias="fused", order="random"),
    "lanes fma": replace(_BF16, order="lanes", fma=True),
    "pairwise": replace(_BF16, order="pairwise"),
    "flushed": replace(_BF16, flush=True, order="random"),
    "truncated": replace(_BF16, truncate=True),
    "truncated, flushed": replace(_BF16, truncate=True, flush=True, order="reversed"),
    "matrix unit of 4": replace(_BF16, truncate=True, order="matrix unit 4"),
    "matrix unit of 8": replace(_BF16, truncate=True, order="matrix unit 8", bias="fused"),
    "matrix unit of 16": replace(_BF16, truncate=True, order="matrix unit 16", flush=True),
}
OTHER_STYLES = {
    "bf16 accumulation": replace(_BF16, accumulate=B16, bias="fused"),
    "bf16 accumulation, truncated": replace(_BF16, accumulate=B16, bias="fused", truncate=True, order="random"),
    "split-K in bf16": replace(_BF16, splits=4, intermediate=B16),
    "split-K in bf16, flushed": replace(_BF16, splits=3, intermediate=B16, flush=True, bias="fused"),
    "split-K in bf16, fp32 out": replace(_BF16, splits=2, intermediate=B16, storage=F32, bias="fused"),
    "fp32 in, bf16 out": replace(_BF16, order="random"),
    "TF32 out": replace(_BF16, storage=T32),
}


def operands(family, shape, seed, *, narrowed):
    """Represented X, W, b (float32 values; bfloat16 values where `narrowed`) of one family."""
    rng = np.random.default_rng([seed, *shape])
    form = B16 if narrowed else F32
    return tuple(narrow(a, form).astype(np.float32) for a in FAMILIES[family](rng, *shape))
