"""Sums split in parts, and operands read in a narrower format: the bounds against exact fractions."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    FP16,
    FP32,
    TF32,
    Operands,
    SegmentedSum,
    bf16_arithmetic,
    check_elements,
    fp16_arithmetic,
    fp32_arithmetic,
    narrowed_arithmetic,
    segmented_arithmetic,
)

from . import honest

# A.3's PBMC diagnosis: 1,838 features in eight parts of 232 or four of 464, the last one cut.
PBMC = {232: (232,) * 7 + (214,), 464: (464,) * 3 + (446,)}
HALF = {BF16: honest.B16, FP16: honest.F16}
SHAPES = [(1, 1, 1), (3, 7, 4), (2, 40, 5)]


def parts_of(X, W, lengths, style):
    """The parts' sums, each computed by an honest style of float32 and not yet rounded further."""
    borders = np.cumsum((0, *lengths))
    rng = np.random.default_rng(0)
    return [style.compute(X[:, a:b], W[:, a:b], None, rng) for a, b in pairwise(borders)]


def split_sum(X, W, lengths, *, form=honest.B16, across=honest.F32, style=None, flush=False):
    """An honest split sum: parts in float32, rounded to `form`, added in `across` from the first on, stored."""
    style = style or honest.Style(order="lanes", fma=True)
    rounded = [honest.narrow(part, form, flush=flush) for part in parts_of(X, W, lengths, style)]
    total = rounded[0]
    for part in rounded[1:]:
        total = honest.narrow(honest.sticky_sum(total, part), across, flush=flush)
    return honest.narrow(total, form, flush=flush)


def pbmc(rows=30, columns=20, K=1838):
    """Rows like those of the diagnosis: mostly zero, not negative, of length about one, in bfloat16."""
    rng = np.random.default_rng(11)
    values = rng.gamma(0.4, size=(rows + columns, K)) * (rng.random((rows + columns, K)) < 0.3)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return honest.bf16(values[:rows]), honest.bf16(values[rows:])


@pytest.mark.parametrize("segments", [0, -3])
def test_a_sum_has_parts(segments):
    """No part at all, or a declaration that names roundings already, is refused."""
    with pytest.raises(InputError, match="1 or more parts"):
        segmented_arithmetic(bf16_arithmetic(bias=False), segments)
    with pytest.raises(InputError, match="one kind"):
        segmented_arithmetic(narrowed_arithmetic(TF32, bias=False), 2)


@pytest.mark.parametrize("lengths", [(), (3, 0), (-1, 5)])
def test_parts_have_terms(lengths):
    """Parts without terms are refused, and parts that don't make up the product."""
    with pytest.raises(InputError, match="parts of"):
        SegmentedSum(lengths=lengths, intermediate=BF16, across=FP32, storage=BF16)
    split = SegmentedSum(lengths=(2, 3), intermediate=BF16, across=FP32, storage=BF16)
    with pytest.raises(InputError, match="don't make the 6"):
        split.bound_upper(np.ones((2, 6)), np.ones((2, 6)), np.ones((2, 2)))


@pytest.mark.parametrize("nominal", PBMC)
def test_parts_are_those_of_the_paper(nominal):
    """1,838 features in parts of nominally 232 or 464, the last of 214 or 446."""
    assert SegmentedSum.split(1838, nominal) == PBMC[nominal]
    assert SegmentedSum.split(5, 5) == (5,)


@pytest.mark.parametrize("terms", [1, 214, 232, 464, 100_000])
def test_the_contribution_of_a_part_is_gamma(terms):
    """gamma_{2K+4}(2^-23) = n u / (1 - n u), from above and by no more than float64 needs; infinite once n u is 1."""
    split = SegmentedSum(lengths=(terms,), intermediate=BF16, across=FP32, storage=BF16)
    nu = Fraction(2 * terms + 4, 2**23)
    gamma, found = nu / (1 - nu), Fraction(split.accumulation_upper(1.0, terms))
    assert gamma <= found <= gamma * (1 + Fraction(1, 2**38))
    assert split.accumulation_upper(1.0, 2**22) == np.inf


@pytest.mark.parametrize("across", [FP32, BF16])
@pytest.mark.parametrize("nominal", PBMC)
def test_an_honest_split_sum_stays_inside_and_needs_the_intermediate_rounding(nominal, across):
    """Exact errors of honest split sums lie inside A.3's bound; the bound without the rounding of parts excludes some
    of the same honest values, and so does the strict contract: the rounding belongs to the model.
    """
    X, W = pbmc()
    form = honest.B16 if across is BF16 else honest.F32
    Y = split_sum(X, W, PBMC[nominal], across=form)
    errors = honest.exact_errors(X, W, None, Y)
    split = SegmentedSum(lengths=PBMC[nominal], intermediate=BF16, across=across, storage=BF16)
    assert honest.within(errors, split.bound_upper(X, W, Y))
    bare = replace(split, intermediate=None, across=FP32).bound_upper(X, W, Y)
    excluded = np.abs(errors) > honest.integers(bare) << honest.BITS
    assert excluded.sum() >= 3
    call = Operands.of(X, W, None, Y)
    assert check_elements(call, bf16_arithmetic(bias=False)).verdict() is Verdict.FLAG
    declared = segmented_arithmetic(bf16_arithmetic(bias=False), len(PBMC[nominal]))
    assert check_elements(call, declared).verdict() is Verdict.PASS


def test_a_fault_in_a_split_sum_is_outside():
    """One part left out, or an element a hundredth of it off, is beyond the bound; the known split is the tighter."""
    X, W = pbmc()
    lengths = PBMC[232]
    Y = split_sum(X, W, lengths)
    split = SegmentedSum(lengths=lengths, intermediate=BF16, across=FP32, storage=BF16)
    call = Operands.of(X, W, None, Y)
    declared = check_elements(call, segmented_arithmetic(bf16_arithmetic(bias=False), len(lengths)))
    assert (split.bound_upper(X, W, Y) < declared.bound / 3).all()
    lost = split_sum(X[:, :-214], W[:, :-214], lengths[:-1])
    assert (np.abs(lost - X.astype(float) @ W.T) > split.bound_upper(X, W, lost)).all()
    off = Y * 1.02
    assert (np.abs(off - X.astype(float) @ W.T) > split.bound_upper(X, W, off)).mean() > 0.9


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("lengths", [(7,), (3, 4), (1, 5, 1), (1,) * 7])
def test_any_honest_split_is_inside(family, lengths):
    """Whatever the operands and the parts, rounded or cut, kept or flushed: inside the model and its declaration."""
    shape = (3, sum(lengths), 4)
    X, W, _ = honest.operands(family, shape, 5, narrowed=True)
    for across, flush, truncate in ((FP32, False, False), (BF16, False, True), (BF16, True, False)):
        form = honest.B16 if across is BF16 else honest.F32
        style = honest.Style(order="random", truncate=truncate, flush=flush)
        Y = split_sum(X, W, lengths, across=form, style=style, flush=flush)
        errors = honest.exact_errors(X, W, None, Y)
        split = SegmentedSum(lengths=lengths, intermediate=BF16, across=across, storage=BF16, flush=flush)
        assert honest.within(errors, split.bound_upper(X, W, Y))
        declared = segmented_arithmetic(replace(bf16_arithmetic(bias=False), flush=flush), len(lengths))
        cells = check_elements(Operands.of(X, W, None, Y), declared)
        assert honest.within(errors, cells.bound)
        assert cells.verdict() is Verdict.PASS


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("form", [TF32, BF16])
def test_operands_read_in_a_narrower_format_are_inside(form, family, truncate):
    """Operands rounded or cut to TF32 or bfloat16, flushed, then float32: inside the bound on the float32 operands, and
    so is the full product, since a unit may leave small shapes alone.
    """
    narrow = {TF32: honest.T32, BF16: honest.B16}[form]
    for number, shape in enumerate(SHAPES):
        X, W, b = honest.operands(family, shape, number, narrowed=False)
        read = [honest.narrow(a.astype(float), narrow, truncate=truncate, flush=True) for a in (X, W)]
        style = honest.Style(order="lanes", truncate=truncate, flush=True)
        for operands in (read, (X, W)):
            Y = style.compute(*operands, b, np.random.default_rng(number))
            cells = check_elements(Operands.of(X, W, b, Y), narrowed_arithmetic(form, bias=True))
            assert honest.within(honest.exact_errors(X, W, b, Y), cells.bound)
            assert cells.verdict() is Verdict.PASS


def test_narrowed_operands_are_a_fault_under_the_full_contract():
    """TF32 nobody declared is a FLAG; declared, a fault of a few times its rounding is still one."""
    X, W, _ = honest.operands("normal", (20, 64, 30), 1, narrowed=False)
    read = [honest.narrow(a.astype(float), honest.T32) for a in (X, W)]
    Y = honest.FP32_STYLES["lanes"].compute(*read, None, np.random.default_rng(0))
    call = Operands.of(X, W, None, Y)
    assert check_elements(call, fp32_arithmetic(bias=False, flush=True)).verdict() is Verdict.FLAG
    declared = narrowed_arithmetic(TF32, bias=False)
    cells = check_elements(call, declared)
    assert cells.verdict() is Verdict.PASS
    Y[3, 4] += 1.01 * (cells.bound[3, 4] + cells.residual[3, 4])
    assert np.argwhere(check_elements(Operands.of(X, W, None, Y), declared).flag).tolist() == [[3, 4]]


def test_operands_beyond_the_narrower_format_are_told():
    """float32 numbers above bfloat16's largest become infinite when read in it: they don't fit, others do."""
    assert narrowed_arithmetic(BF16, bias=False).operands_fit(3.38e38)
    assert not narrowed_arithmetic(BF16, bias=False).operands_fit(3.4e38)
    assert fp32_arithmetic(bias=False, flush=False).operands_fit(3.4e38)
    assert not fp16_arithmetic(bias=False, flush=False).operands_fit(65505.0)


@pytest.mark.parametrize("family", honest.FAMILIES)
def test_honest_fp16_is_never_flagged(family):
    """float16 with float32 accumulation, split or not, bias before or after storing: inside the bound. Operands outside
    float16's range are scaled into it.
    """
    half = fp16_arithmetic(bias=True, flush=False)
    for number, shape in enumerate(SHAPES):
        X, W, b = (a.astype(float) for a in honest.operands(family, shape, number, narrowed=False))
        scale = max(1.0, *(np.abs(a).max(initial=0) / 8 for a in (X, W, b)))
        X, W, b = (honest.narrow(a / scale, honest.F16) for a in (X, W, b))
        for bias in ("fused", "separate"):
            style = honest.Style(storage=honest.F16, bias=bias, order="random")
            Y = style.compute(X, W, b, np.random.default_rng(number))
            cells = check_elements(Operands.of(X, W, b, Y), replace(half, bias=bias))
            assert honest.within(honest.exact_errors(X, W, b, Y), cells.bound)
            assert cells.verdict() is Verdict.PASS
        lengths = (1, shape[1] - 1) if shape[1] > 1 else (1,)
        Y = split_sum(X, W, lengths, form=honest.F16, across=honest.F16)
        declared = segmented_arithmetic(fp16_arithmetic(bias=False, flush=False), len(lengths))
        cells = check_elements(Operands.of(X, W, None, Y), declared)
        assert honest.within(honest.exact_errors(X, W, None, Y), cells.bound)
