"""Honest arithmetic is never flagged: producers that round by hand, and torch, against exact integer sums."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import Verdict
from veristate.numerics import (
    BF16,
    FP32,
    TF32,
    Format,
    Guard,
    LinearArithmetic,
    Operands,
    bf16_arithmetic,
    check_elements,
    check_linear,
    fp32_arithmetic,
    fp64_arithmetic,
)

from . import honest

FORMATS = {honest.F32: FP32, honest.B16: BF16, honest.T32: TF32}
SHAPES = [(1, 1, 1), (3, 2, 4), (1, 40, 5), (5, 23, 1), (7, 37, 6), (2, 0, 3)]
HOW = ({"block": None}, {"block": 1}, {"block": 3, "seed": b"after Y"}, {"block": 4, "seed": b"after Y", "draws": 3})


def declared(style, *, narrowed):
    """The declaration that tells the truth about a style."""
    return LinearArithmetic(
        operands=BF16 if narrowed else FP32,
        accumulate=FORMATS[style.accumulate],
        storage=FORMATS[style.storage],
        bias=style.bias,
        flush=style.flush,
        intermediate=FORMATS[style.intermediate] if style.intermediate else None,
        nodes=0 if style.splits == 1 else 2 * style.splits - 1,
    )


def assert_sound(X, W, b, Y, arithmetic, checks=()):
    """Every exact error is within its element's bound, and no check of any granularity answers but PASS."""
    call = Operands.of(X, W, b, Y)
    cells = check_elements(call, arithmetic)
    assert honest.within(honest.exact_errors(X, W, b, Y), cells.bound)
    assert cells.verdict() is Verdict.PASS
    for how in HOW:
        check = check_linear(call, arithmetic, **how)
        assert check.verdict() is Verdict.PASS
        assert check.worst <= 1
    # What was stored in float32 or less is given to the guard so, as it would come from a device.
    if checks and np.array_equal(Y.astype(np.float32), Y):
        narrow = Operands.of(X, W, b, Y.astype(np.float32))
        for guarded in checks:
            for how in HOW:
                check = guarded(narrow, arithmetic, **how)
                assert check.verdict() is Verdict.PASS
                assert not check.elements.proven.any()


def sweep(family, style, arithmetic, checks, *, narrowed):
    """One style of computing over all shapes of a family, every producer's choice seeded."""
    for number, shape in enumerate(SHAPES):
        X, W, b = honest.operands(family, shape, number, narrowed=narrowed)
        rng = np.random.default_rng(number)
        assert_sound(X, W, b, style.compute(X, W, b, rng), arithmetic, checks)


def test_a_unit_roundoff_one_bit_too_small_is_noticed_by_elements_though_not_by_whole_sums(guards):
    """Healthy bf16 breaks a bound of u = 2^-9 element by element, while its whole rows and columns still pass."""
    longer = Format(name="wrong", precision=9, exponent_min=-126, largest=BF16.largest)
    wrong = replace(bf16_arithmetic(bias=False), storage=longer)
    rng = np.random.default_rng(1)
    X, W = (honest.bf16(rng.normal(size=shape)) for shape in ((64, 96), (48, 96)))
    call = Operands.of(X, W, None, torch_linear(X, W, None, torch.bfloat16))
    assert check_elements(call, wrong).flag.mean() > 0.1
    for check in (check_linear, *guards()):
        assert check(call, wrong, block=None).verdict() is Verdict.PASS
    assert check_elements(call, bf16_arithmetic(bias=False)).verdict() is Verdict.PASS


def test_a_relative_bound_alone_would_accuse_healthy_cancellation():
    """Under cancellation honest bf16 errs by more than 2^-8 |y|: the term in sum |x||w| is what covers it."""
    rng = np.random.default_rng(3)
    half, weights = honest.bf16(rng.normal(size=(40, 32)) * 1e4), honest.bf16(rng.normal(size=(8, 32)))
    order = rng.permutation(32)
    X = np.concatenate([half, -half[:, order], np.full((40, 1), 2.0**-7, dtype=np.float32)], axis=1)
    W = np.concatenate([weights, weights[:, order], np.ones((8, 1), dtype=np.float32)], axis=1)
    Y = torch_linear(X, W, None, torch.bfloat16)
    errors = honest.exact_errors(X, W, None, Y)
    assert not honest.within(errors, np.abs(Y) * 2.0**-8)
    assert honest.within(errors, check_elements(Operands.of(X, W, None, Y), bf16_arithmetic(bias=False)).bound)


def test_the_producer_rounds_as_float32_does():
    """Hand-rounded sums and products equal numpy's float32 ones, subnormals included (the producer's own oracle)."""
    rng = np.random.default_rng(2)
    a, b = (np.float32(rng.normal(size=2000) * 2.0 ** rng.integers(-149, 60, 2000)) for _ in range(2))
    b[::2] = a[::2] * np.float32(-1.1)
    assert np.array_equal(honest.narrow(honest.sticky_sum(a, b), honest.F32), (a + b).astype(np.float64))
    assert np.array_equal(honest.narrow(a.astype(float) * b, honest.F32), (a * b).astype(np.float64))


def test_the_producer_fuses_and_truncates_as_defined():
    """A fused result is within half a spacing of the exact one and a truncated one below it by less than a spacing."""
    rng = np.random.default_rng(2)
    a, b, c = (np.float32(rng.normal(size=500) * 2.0 ** rng.integers(-90, 40, 500)) for _ in range(3))
    c[::2] = -(a * b)[::2]
    exact = (honest.integers(a.astype(float) * b) + honest.integers(c)) << honest.BITS
    for truncate in (False, True):
        fused = honest.narrow(honest.sticky_sum(a.astype(float) * b, c), honest.F32, truncate=truncate)
        rest = exact - (honest.integers(fused) << honest.BITS)
        spacing = np.spacing(np.abs(fused).astype(np.float32)).astype(float)
        assert honest.within(rest, spacing if truncate else spacing / 2)
        assert not truncate or all(r * int(f) >= 0 for r, f in zip(rest, np.sign(fused), strict=True))


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("name", honest.FP32_STYLES)
def test_honest_fp32_is_never_flagged(guards, name, family):
    """float32 in any order, fused or not, rounded, truncated or flushed, passes at every granularity."""
    style = honest.FP32_STYLES[name]
    arithmetic = fp32_arithmetic(bias=True, flush=style.flush)
    sweep(family, style, arithmetic, guards(), narrowed=False)


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("name", honest.BF16_STYLES)
def test_honest_bf16_is_never_flagged(guards, name, family):
    """bfloat16 with float32 accumulation, on lanes or matrix units, with either bias, passes at every granularity."""
    style = honest.BF16_STYLES[name]
    sweep(family, style, bf16_arithmetic(bias=True), guards(), narrowed=True)
    if not style.flush:
        sweep(family, style, declared(style, narrowed=True), guards(), narrowed=True)


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("name", honest.OTHER_STYLES)
def test_honest_arithmetic_with_other_declarations_is_never_flagged(guards, name, family):
    """Narrow accumulation, rounded partial sums and mixed formats pass under declarations that name them."""
    style = honest.OTHER_STYLES[name]
    narrowed = name not in ("fp32 in, bf16 out", "TF32 out")
    sweep(family, style, declared(style, narrowed=narrowed), guards(), narrowed=narrowed)


small = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**40), max_value=2.0**40)


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    K=st.integers(0, 6),
    name=st.sampled_from([*honest.FP32_STYLES, *honest.BF16_STYLES, *honest.OTHER_STYLES]),
)
def test_no_operands_make_an_honest_result_flagged(data, K, name):
    """Whatever the operands, an honest result passes under a truthful declaration."""
    style = (honest.OTHER_STYLES | honest.BF16_STYLES | honest.FP32_STYLES)[name]
    narrowed = style.storage == honest.B16
    form = honest.B16 if narrowed else honest.F32
    values = data.draw(st.lists(small, min_size=4 * K + 2, max_size=4 * K + 2))
    values = honest.narrow(np.array(values), form).astype(np.float32)
    X, W, b = values[: 2 * K].reshape(2, K), values[2 * K : 4 * K].reshape(2, K), values[4 * K :]
    Y = style.compute(X, W, b, np.random.default_rng(0))
    assert_sound(X, W, b, Y, declared(style, narrowed=narrowed), (Guard().check,))


@pytest.mark.parametrize("family", honest.FAMILIES)
def test_honest_float64_is_never_flagged(family):
    """The float64 product of numpy passes the float64 contract: the check's rounding is inside the bound."""
    rng = np.random.default_rng(4)
    for shape in SHAPES:
        X, W, b = honest.FAMILIES[family](rng, *shape)
        assert_sound(X, W, b, X @ W.T + b, fp64_arithmetic(bias=True, flush=False))


@pytest.mark.parametrize("scale", [1e-160, 1e-154, 1e-150, 1e150])
def test_float64_near_its_limits_is_never_flagged(scale):
    """Products of float64 that underflow, in the layer and in the check itself, make no flag."""
    rng = np.random.default_rng(5)
    X, W = rng.normal(size=(6, 9)) * scale, rng.normal(size=(4, 9)) * scale
    b = rng.normal(size=4) * scale**2
    assert_sound(X, W, b, X @ W.T + b, fp64_arithmetic(bias=True, flush=False))


def torch_linear(X, W, b, dtype):
    """The linear of torch in a dtype, as float32 arrays."""
    arrays = [None if a is None else torch.from_numpy(a).to(dtype) for a in (X, W, b)]
    return torch.nn.functional.linear(*arrays).float().numpy()


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("biased", [True, False])
def test_torch_in_fp32_and_bf16_is_never_flagged(guards, family, biased):
    """The CPU linear of torch passes in both formats, element by element and in blocks with signs."""
    for narrowed in (False, True):
        for shape in ((1, 300, 5), (50, 147, 40), (130, 33, 1)):
            X, W, b = honest.operands(family, shape, 6, narrowed=narrowed)
            b = b if biased else None
            Y = torch_linear(X, W, b, torch.bfloat16 if narrowed else torch.float32)
            arithmetic = bf16_arithmetic(bias=biased) if narrowed else fp32_arithmetic(bias=biased, flush=False)
            call = Operands.of(X, W, b, Y)
            assert check_elements(call, arithmetic).verdict() is Verdict.PASS
            for check in (check_linear, *guards()):
                assert check(call, arithmetic, block=32, seed=b"after Y").verdict() is Verdict.PASS
                assert check(call, arithmetic, block=None).verdict() is Verdict.PASS


@pytest.mark.parametrize("family", honest.FAMILIES)
def test_torch_autocast_is_never_flagged(guards, family):
    """A float32 layer under bfloat16 autocast passes when its operands are represented as it rounds them."""
    X, W, b = honest.operands(family, (70, 96, 33), 7, narrowed=False)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        Y = torch.nn.functional.linear(*map(torch.from_numpy, (X, W, b))).float().numpy()
    call = Operands.of(*map(honest.bf16, (X, W, b)), Y)
    assert check_elements(call, bf16_arithmetic(bias=True)).verdict() is Verdict.PASS
    for check in (check_linear, *guards()):
        assert check(call, bf16_arithmetic(bias=True), block=32, seed=b"after Y").verdict() is Verdict.PASS
