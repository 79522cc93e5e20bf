"""What honest rounding can do to Y = X W^T + b: the rounding model of a healthy computation and its bound."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.formats import BF16, FP16, FP32, FP64, Format

Bias = Literal["none", "fused", "separate"]
FloatArray = NDArray[np.float64]

# An accumulator may truncate instead of rounding to nearest (tensor cores do): twice the unit roundoff covers both.
CONSERVATIVE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearArithmetic:
    """The declared arithmetic of one linear layer.

    `operands` is the format X and W are in when multiplied, `accumulate` that of the sum, `storage` that of Y.
    `nodes` bounds the additional roundings to `intermediate` inside the sum (split-K partial sums; 0 for none).
    `bias` says where b is added: fused into the accumulation, or separately after Y was rounded to storage.
    `flush` says that subnormals may be read or written as zero.

    Raises: InputError when `nodes` is negative, or names roundings to no format.
    Source: BioAgent-DF A.3.
    """

    operands: Format
    accumulate: Format
    storage: Format
    bias: Bias
    flush: bool
    intermediate: Format | None = None
    nodes: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 0 or (self.nodes and self.intermediate is None):
            raise InputError(f"{self.nodes} intermediate roundings need a count >= 0 and the format they round to")

    def describe(self) -> dict[str, str]:
        """The declaration as strings, for a contract."""
        return {
            "operands": self.operands.name,
            "accumulate": self.accumulate.name,
            "storage": self.storage.name,
            "bias": self.bias,
            "flush": str(self.flush).lower(),
            "intermediate": self.intermediate.name if self.intermediate else "none",
            "nodes": str(self.nodes),
        }

    def growth_minus_one_upper(self, terms: int) -> float:
        """An upper bound of G - 1, G = (1+u_p)(1+u_a)^(K+2)(1+u_r)^nodes, for K = `terms`."""
        u = CONSERVATIVE * self.accumulate.u
        exponent = math.log1p(u) * (terms + 3)
        if self.intermediate is not None:
            exponent += self.nodes * math.log1p(self.intermediate.u)
        try:
            return math.expm1(exponent * (1 + 2.0**-48)) * (1 + 2.0**-48)
        except OverflowError:  # so long a sum in so narrow a format has no bound
            return math.inf

    def absolute_upper(self, terms: int, largest_operand: float) -> float:
        """An upper bound of one element's absolute errors: underflow of products, sums, intermediate and stored
        values, and operands read as zero where subnormals are flushed. Unit: that of Y.
        """
        eta = self.accumulate.eta(flush=self.flush)
        total = (2 * terms + 2) * eta
        if self.intermediate is not None:
            total += self.nodes * self.intermediate.eta(flush=self.flush)
        growth = 1 + self.growth_minus_one_upper(terms)
        stored = 2 * self.storage.eta(flush=self.flush)
        flushed = 2 * terms * self.operands.smallest_normal * largest_operand if self.flush else 0.0
        return (growth * (total + flushed) + stored) * (1 + 2.0**-48)

    def bound_upper(
        self, products: Any, stored: Any, bias: Any, *, terms: int, elements: Any, largest_operand: float
    ) -> Any:
        """An upper bound of |sum of s_ij (Y_ij - exact_ij)| over a set of elements, signs s_ij = +-1.

        Maths: (G-1) B + u' (|Y| + [separate] (|Y| (1 + 2u') + |b|)) + n absolute, u' = u_s / (1 - u_s), where
        B = `products` is an upper bound of sum |x||w| + |b|, |Y| = `stored` the sum of absolute stored values,
        |b| = `bias` the sum of absolute biases, n = `elements` the number of elements; one element is n = 1.
        Storage is charged on the observed |Y|: an honest value A rounded to Y obeys |Y - A| <= u' |Y|.
        Shapes: arrays that broadcast, or scalars. Dtypes: float64.
        Source: BioAgent-DF A.3. Differs: the storage terms use |Y|, which is tighter than B under cancellation.
        """
        bound = self.growth_minus_one_upper(terms) * products
        if self.storage.precision < self.accumulate.precision:
            u = self.storage.u / (1 - self.storage.u)
            bound = bound + u * stored
            if self.bias == "separate":
                bound = bound + u * ((1 + 2 * u) * stored + bias)
        return bound + elements * self.absolute_upper(terms, largest_operand)

    def overflow_possible(self, products: Any, terms: int) -> Any:
        """Whether healthy arithmetic may exceed the largest finite value when sum |x||w| + |b| is `products`."""
        growth = 1 + self.growth_minus_one_upper(terms)
        formats = (self.accumulate, self.storage, self.intermediate or self.storage)
        return products >= min(f.largest for f in formats) / (growth * (1 + self.storage.u))

    def operands_fit(self, largest_operand: float) -> bool:
        """Whether an operand of that size is still finite when it is read in the format of `operands`. Where it is not,
        healthy arithmetic may give anything, however small the sum of products.
        """
        return largest_operand <= self.operands.largest


def fp32_arithmetic(*, bias: bool, flush: bool) -> LinearArithmetic:
    """float32 operands, accumulation and storage; the bias joins the accumulation."""
    return LinearArithmetic(operands=FP32, accumulate=FP32, storage=FP32, bias="fused" if bias else "none", flush=flush)


def fp64_arithmetic(*, bias: bool, flush: bool) -> LinearArithmetic:
    """float64 throughout."""
    return LinearArithmetic(operands=FP64, accumulate=FP64, storage=FP64, bias="fused" if bias else "none", flush=flush)


def bf16_arithmetic(*, bias: bool) -> LinearArithmetic:
    """bfloat16 operands and storage, float32 accumulation.

    Matrix units flush subnormals whatever the switch says, and whether the bias is fused is not visible from
    outside: both are charged.
    """
    return LinearArithmetic(
        operands=BF16, accumulate=FP32, storage=BF16, bias="separate" if bias else "none", flush=True
    )


def fp16_arithmetic(*, bias: bool, flush: bool) -> LinearArithmetic:
    """float16 operands and storage, float32 accumulation; the bias may be added after storing.

    Products of float16 are multiples of 2^-48: nothing underflows but what is stored, and, where `flush`, what is read.
    """
    return LinearArithmetic(
        operands=FP16, accumulate=FP32, storage=FP16, bias="separate" if bias else "none", flush=flush
    )


def narrowed_arithmetic(operands: Format, *, bias: bool) -> LinearArithmetic:
    """A float32 layer whose operands a fast unit may read in the narrower format `operands`; X and W are float32.

    Whether it does is decided shape by shape and can't be seen: the bound holds for full products too.

    Maths: an operand x is read as x (1 + d), |d| <= 2u, since a conversion may cut: two roundings for each of the two
    operands of a product. Units that narrow may flush: charged.
    """
    return LinearArithmetic(
        operands=operands,
        accumulate=FP32,
        storage=FP32,
        bias="fused" if bias else "none",
        flush=True,
        intermediate=operands,
        nodes=4,
    )


def segmented_arithmetic(arithmetic: LinearArithmetic, segments: int) -> LinearArithmetic:
    """`arithmetic` whose sum may be split in up to `segments` parts that are rounded to the storage format.

    Maths: J parts and the J - 1 sums of parts, in any order, are at most 2J - 1 roundings: nodes = 2J - 1. One part is
    not split. No product meets more float32 roundings than in one sum: its part has at most K - J + 1 terms.
    Raises: InputError when there is no part, or when the declaration names intermediate roundings already.
    Source: BioAgent-DF A.3, nu_K of the split sum.
    """
    if segments < 1 or arithmetic.nodes:
        raise InputError(f"a sum has 1 or more parts and one kind of them; got {segments} on {arithmetic.describe()}")
    if segments == 1:
        return arithmetic
    return replace(arithmetic, intermediate=arithmetic.storage, nodes=2 * segments - 1)
