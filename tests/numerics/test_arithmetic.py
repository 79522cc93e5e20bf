"""The rounding model against BioAgent-DF A.3 in exact fractions."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.numerics import (
    BF16,
    FP16,
    FP32,
    FP64,
    LinearArithmetic,
    bf16_arithmetic,
    fp32_arithmetic,
    fp64_arithmetic,
)

SPLIT = LinearArithmetic(
    operands=BF16, accumulate=FP32, storage=BF16, bias="fused", flush=False, intermediate=BF16, nodes=7
)
ARITHMETICS = [
    fp32_arithmetic(bias=True, flush=False),
    fp32_arithmetic(bias=False, flush=True),
    fp64_arithmetic(bias=True, flush=False),
    bf16_arithmetic(bias=True),
    SPLIT,
    replace(SPLIT, flush=True, accumulate=BF16, nodes=1),
    replace(SPLIT, intermediate=FP16, storage=FP16),
]
PRECISIONS = {"fp64": 53, "fp32": 24, "bf16": 8, "fp16": 11}
LEAST = {"fp64": -1022, "fp32": -126, "bf16": -126, "fp16": -14}


def unit(form, cut=1):
    """The unit roundoff as a fraction; of truncation where `cut` is 2."""
    return Fraction(cut, 2 ** PRECISIONS[form.name])


def underflow(form, flush):
    """Half the smallest subnormal, or the smallest normal where flushed, as a fraction."""
    least = LEAST[form.name]
    return Fraction(2) ** (least if flush else least - PRECISIONS[form.name])


def growth(arithmetic, terms):
    """G of A.3 with u_p = u_a = 2 u."""
    result = (1 + unit(arithmetic.accumulate, 2)) ** (terms + 3)
    return result * (1 + unit(arithmetic.intermediate)) ** arithmetic.nodes if arithmetic.intermediate else result


def absolute(arithmetic, terms):
    """G {K eta_p + (K+2) eta_a + nu eta_r} of A.3, and the underflow of storing."""
    flush = arithmetic.flush
    total = (2 * terms + 2) * underflow(arithmetic.accumulate, flush)
    if arithmetic.intermediate:
        total += arithmetic.nodes * underflow(arithmetic.intermediate, flush)
    return growth(arithmetic, terms) * total + underflow(arithmetic.storage, flush)


@pytest.mark.parametrize(("nodes", "intermediate"), [(-1, BF16), (-1, None), (3, None)])
def test_a_declaration_of_roundings_to_nothing_is_refused(nodes, intermediate):
    """A negative number of intermediate roundings, or some without a format, would tighten the bound: refused."""
    with pytest.raises(InputError, match="intermediate roundings"):
        replace(SPLIT, nodes=nodes, intermediate=intermediate)


def test_a_sum_too_long_for_its_format_has_an_infinite_bound():
    """Where growth leaves float64 the bound is infinite, not an exception and not a small number."""
    narrow = replace(SPLIT, accumulate=BF16)
    assert narrow.growth_minus_one_upper(10**6) == math.inf
    assert narrow.absolute_upper(10**6, 1.0) == math.inf


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("terms", [0, 1, 2, 7, 300, 2000])
def test_growth_is_an_upper_bound_and_a_close_one(arithmetic, terms):
    """G - 1 is never below the exact power, and above it by less than one part in 10^12."""
    true = growth(arithmetic, terms) - 1
    ours = Fraction(arithmetic.growth_minus_one_upper(terms))
    assert true <= ours <= true * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("terms", [0, 1, 300])
def test_the_absolute_part_covers_that_of_the_paper(arithmetic, terms):
    """Underflow is charged with at least A.3's terms and, where subnormals are kept, less than three times them."""
    true = absolute(arithmetic, terms)
    ours = Fraction(arithmetic.absolute_upper(terms, 1.0))
    assert ours >= true
    assert arithmetic.flush or ours <= 3 * true


def test_flushed_operands_are_charged_with_their_partners():
    """An operand just below the normal range times a large one is lost whole, and the absolute part covers it."""
    arithmetic = fp32_arithmetic(bias=False, flush=True)
    lost = 5 * Fraction(np.nextafter(2.0**-126, 0)) * Fraction(2) ** 100
    assert Fraction(arithmetic.absolute_upper(5, 2.0**100)) >= lost
    assert Fraction(replace(arithmetic, flush=False).absolute_upper(5, 2.0**100)) < lost


positive = st.floats(0, 1e30)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([*ARITHMETICS, replace(SPLIT, bias="separate"), replace(SPLIT, bias="none")]),
    *(positive, positive, positive, st.integers(0, 400), st.integers(1, 100)),
)
def test_a_bound_adds_growth_storage_and_underflow(arithmetic, products, stored, bias, terms, elements):
    """The bound of a sum is the exact formula up to float64 rounding, which the check adds outward.

    (G-1) B + u' |Y| + [separate] u' (|Y| (1 + 2u) + |b|) + n absolute, storage only where it is narrower.
    """
    ours = arithmetic.bound_upper(products, stored, bias, terms=terms, elements=elements, largest_operand=1.0)
    u = unit(arithmetic.storage) / (1 - unit(arithmetic.storage))
    true = (growth(arithmetic, terms) - 1) * Fraction(products) + elements * absolute(arithmetic, terms)
    if arithmetic.storage.precision < arithmetic.accumulate.precision:
        true += u * Fraction(stored)
        if arithmetic.bias == "separate":
            true += u * (Fraction(stored) * (1 + 2 * u) + Fraction(bias))
    assert Fraction(ours) * (1 + Fraction(1, 2**48)) >= true
    assert arithmetic.flush or Fraction(ours) <= true * (1 + Fraction(1, 10**10)) + elements * 2 * absolute(
        arithmetic, terms
    )


def test_a_separate_bias_is_charged_a_second_rounding():
    """The bound with a separate bias exceeds the fused one by u' (|Y| (1 + 2u') + |b|) and by nothing without need."""
    fused, separate = (replace(bf16_arithmetic(bias=True), bias=bias) for bias in ("fused", "separate"))
    numbers = {"terms": 10, "elements": 1, "largest_operand": 1.0}
    gap = separate.bound_upper(8.0, 4.0, 2.0, **numbers) - fused.bound_upper(8.0, 4.0, 2.0, **numbers)
    u = 2.0**-8 / (1 - 2.0**-8)
    assert gap == pytest.approx(u * (4 * (1 + 2 * u) + 2), rel=1e-12)
    wide = fp32_arithmetic(bias=True, flush=False)
    assert replace(wide, bias="separate").bound_upper(8.0, 4.0, 2.0, **numbers) == wide.bound_upper(
        8.0, 4.0, 2.0, **numbers
    )


@pytest.mark.parametrize(
    ("arithmetic", "limit"),
    [
        (fp32_arithmetic(bias=False, flush=False), FP32.largest),
        (fp64_arithmetic(bias=False, flush=False), FP64.largest),
        (bf16_arithmetic(bias=False), BF16.largest),
        (replace(SPLIT, storage=FP32, intermediate=FP16), FP16.largest),
        (replace(SPLIT, storage=FP16), FP16.largest),
    ],
)
def test_overflow_is_possible_from_the_smallest_limit_on(arithmetic, limit):
    """A sum may overflow once it reaches the largest number of any format it passes through, and not at half of it."""
    assert arithmetic.overflow_possible(limit, 4)
    assert not arithmetic.overflow_possible(limit / 2, 4)
    assert arithmetic.overflow_possible(np.array([limit * 0.999999999999999]), 4).all()


def test_a_declaration_is_described_for_a_contract():
    """The description names every field in strings, and no two declarations share one."""
    assert SPLIT.describe() == {
        "operands": "bf16",
        "accumulate": "fp32",
        "storage": "bf16",
        "bias": "fused",
        "flush": "false",
        "intermediate": "bf16",
        "nodes": "7",
    }
    assert fp32_arithmetic(bias=False, flush=True).describe()["intermediate"] == "none"
    assert len({tuple(a.describe().items()) for a in ARITHMETICS}) == len(ARITHMETICS)
