"""The guard gives the definition's flags: at thresholds, on every family of operands, with both of its kernels."""

from dataclasses import replace

import numpy as np
import pytest

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    TF32,
    Cells,
    Guard,
    Operands,
    Weights,
    bf16_arithmetic,
    check_linear,
    draw_signs,
    fp16_arithmetic,
    fp32_arithmetic,
    fp64_arithmetic,
    narrowed_arithmetic,
    segmented_arithmetic,
)
from veristate.numerics.kernels import native, passes

from . import honest
from .thresholds import columns_near, rows_near

KERNELS = ("numba", "C")
BLOCKS = (None, 1, 3, 32, 1000)
# Per family and kernel: 14 families and two kernels make 100,000 and more.
CELLS = 4000


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    """Each kernel in turn."""
    if request.param == "numba":
        monkeypatch.setattr(passes, "native", None)
    elif native.native is None:
        pytest.skip("the C kernel was not built here, or this processor has no AVX-512")
    return request.param


def assert_same(checks, call, arithmetic, **options):
    """Each guard's masks are the definition's. Returns how many cells were compared, and the definition's check."""
    definition = check_linear(call, arithmetic, **options)
    for check in checks:
        fast = check(call, arithmetic, **options)
        for kind in ("rows", "columns"):
            for mask in ("flag", "inapplicable"):
                wanted, found = getattr(getattr(definition, kind), mask), getattr(getattr(fast, kind), mask)
                assert np.array_equal(wanted, found), (check, kind, mask, np.argwhere(wanted != found)[:5], options)
        assert (fast.block, fast.seed) == (definition.block, definition.seed)
    return definition.rows.flag.size + definition.columns.flag.size, definition


def declarations(*, biased, narrowed):
    """The arithmetics a call may be declared in."""
    if narrowed:
        return (
            bf16_arithmetic(bias=biased),
            segmented_arithmetic(bf16_arithmetic(bias=biased), 4),
            fp16_arithmetic(bias=biased, flush=False),
        )
    return (
        fp32_arithmetic(bias=biased, flush=False),
        fp32_arithmetic(bias=biased, flush=True),
        narrowed_arithmetic(BF16, bias=biased),
        narrowed_arithmetic(TF32, bias=biased),
    )


def configurations(family, count):
    """Random calls of a family with an arithmetic and options: (call, arithmetic, form, rng, options)."""
    for number in range(count):
        rng = np.random.default_rng([number, *family.encode()])
        narrowed, biased = bool(number % 2), bool(rng.random() < 0.7)
        shape = (int(rng.integers(1, 71)), int(2000 ** rng.random()), int(rng.integers(1, 41)))
        X, W, b = honest.operands(family, shape, number, narrowed=narrowed)
        with np.errstate(over="ignore"):
            Y = X.astype(np.float64) @ W.T.astype(np.float64) + (b if biased else 0)
        form = honest.B16 if narrowed else honest.F32
        call = Operands.of(X, Weights.of(W, b if biased else None), None, honest.narrow(Y, form).astype(np.float32))
        choices = declarations(biased=biased, narrowed=narrowed)
        options = {
            "block": BLOCKS[rng.integers(len(BLOCKS))],
            "seed": rng.bytes(8) if rng.random() < 0.8 else None,
            "draws": int(rng.integers(1, 9)),
        }
        yield call, choices[rng.integers(len(choices))], form, rng, options


def both_near(call, arithmetic, form, rng, options):
    """The call with its rows, then with its columns at their bounds, each with the kind of cell that is."""
    signs = np.ones(len(call.X))
    if options["seed"] is not None:
        signs = draw_signs(len(call.X), options["seed"], options["draws"])[0].astype(np.float64)
    yield from ((near, "rows") for near in rows_near(call, arithmetic, form, rng, **options))
    yield from ((near, "columns") for near in columns_near(call, arithmetic, form, rng, signs, **options))


@pytest.mark.parametrize("family", honest.FAMILIES)
def test_flags_at_the_bounds_are_the_definitions(family, guards):
    """Rows and columns brought to their bounds, and one step to either side, have the definition's flags."""
    checks, cells, close, flagged = guards(), 0, 0, 0
    for call, arithmetic, form, rng, options in configurations(family, 4):
        for near, kind in ((call, "rows"), *both_near(call, arithmetic, form, rng, options)):
            count, definition = assert_same(checks, near, arithmetic, **options)
            found = getattr(definition, kind)
            with np.errstate(invalid="ignore", divide="ignore"):
                at = np.abs(found.residual / found.bound - 1) < 2.0**-40
            cells, close, flagged = cells + count, close + int(at.sum()), flagged + int((at & found.flag).sum())
    # Some were within a few float64 roundings of their bounds, on both sides.
    assert cells >= CELLS
    assert 0 < flagged < close


@pytest.mark.parametrize("loudness", [1e-3, 1e3, 1e6])
@pytest.mark.parametrize("form", [honest.F32, honest.B16])
def test_flags_at_the_bounds_of_loud_outputs_are_the_definitions(loudness, form, guards):
    """Outputs far from their expected values that cancel up to bounds which rest on them alone have the same flags."""
    rng, narrowed = np.random.default_rng(4), form == honest.B16
    for M, K, N in ((40, 20, 33), (64, 200, 17), (9, 5, 40)):
        X, W, b = honest.operands("normal", (M, K, N), 4, narrowed=narrowed)
        Y = honest.narrow(X.astype(np.float64) @ W.T + loudness * rng.normal(size=(M, N)), form).astype(np.float32)
        arithmetic = declarations(biased=True, narrowed=narrowed)[0]
        options = {"block": (None, 8, 32)[rng.integers(3)], "seed": rng.bytes(4), "draws": 1}
        for near, _ in both_near(Operands.of(X, W, b, Y), arithmetic, form, rng, options):
            assert_same(guards(), near, arithmetic, **options)


@pytest.mark.parametrize("scale", [2.0**-128, 2.0**-140, 2.0**-146])
def test_flags_at_the_bounds_of_underflow_are_the_definitions(scale, guards):
    """Where bounds are little more than underflow, which the guard's own sums have too, flags are the definition's."""
    rng, arithmetic = np.random.default_rng(12), fp32_arithmetic(bias=False, flush=False)
    for M, K, N in ((40, 20, 33), (64, 200, 17), (33, 60, 40)):
        X, W, _ = honest.operands("normal", (M, K, N), 4, narrowed=False)
        X = np.float32(X * scale)
        Y = np.float32(X.astype(np.float64) @ W.T)
        for block in (None, 2, 32):
            options = {"block": block, "seed": rng.bytes(4), "draws": 1}
            for near, _ in both_near(Operands.of(X, W, None, Y), arithmetic, honest.F32, rng, options):
                assert_same(guards(), near, arithmetic, **options)


def plain_call(rng, M=40, K=50, N=40):
    """X, W, b, Y of a healthy bfloat16 call, which is a float32 call too."""
    X, W, b = honest.operands("normal", (M, K, N), int(rng.integers(1000)), narrowed=True)
    return X, W, b, honest.bf16(X.astype(np.float64) @ W.T + b)


def put(which, value, *places):
    """A change of an array of a call: `value` at the places, everywhere without one."""

    def change(arrays):
        arrays[which][places if places else ...] = value

    return change


def alternating(size):
    """Outputs of +size and -size by turns."""

    def change(arrays):
        arrays["Y"][:] = size * np.where(np.arange(arrays["Y"].size) % 3, -1.0, 1.0).reshape(arrays["Y"].shape)

    return change


def large_products(size):
    """Operands whose products are above float32, with outputs of that size."""

    def change(arrays):
        arrays["X"][:], arrays["W"][:], arrays["Y"][:] = 1e30, 1e10, size

    return change


def cancelling_outputs(arrays):
    """Two outputs of one row, and two of one column, that cancel."""
    arrays["Y"][3, 4:6] = 1e30, -1e30
    arrays["Y"][20:22, 9] = 1e30, -1e30


STRANGE = {
    "a NaN output": put("Y", np.nan, 3, 4),
    "an infinite output": put("Y", -np.inf, 33, 32),
    "only NaN outputs": put("Y", np.nan),
    "outputs that cancel": cancelling_outputs,
    "the largest outputs": put("Y", 3e38),
    "the largest outputs by turns": alternating(3e38),
    "outputs whose squares overflow": alternating(1e25),
    "one output near the largest": put("Y", 3e38, 39, 0),
    "a NaN operand": put("X", np.nan, 7, 7),
    "an infinite operand": put("X", np.inf, 7, 7),
    "an operand near the largest": put("X", 3e38, 7, 7),
    "only operands near the largest": put("X", 3e38),
    "no operands": put("X", 0.0),
    "no outputs": put("Y", 0.0),
    "subnormal operands": put("X", 1e-41),
    "subnormal outputs": put("Y", -1e-41),
    "products that overflow, outputs that don't": large_products(0.0),
    "products that overflow, and outputs": large_products(np.inf),
    "a NaN weight": put("W", np.nan, 5, 5),
    "an infinite weight": put("W", -np.inf, 5, 5),
    "a weight near the largest": put("W", 3e38, 5, 5),
    "a subnormal weight": put("W", 1e-41, 5, 5),
    "small weights": put("W", 1e-25),
    "no weights": put("W", 0.0),
    "weights of zero for one column": put("W", 0.0, 5),
    "weights of zero for one operand": put("W", 0.0, slice(None), 5),
    "a NaN bias": put("b", np.nan, 5),
    "a bias near the largest": put("b", 3e38, 5),
}


# Weights for which there is no fast path.
SLOW_WEIGHTS = (
    "a NaN weight",
    "an infinite weight",
    "a weight near the largest",
    "a subnormal weight",
    "small weights",
)


@pytest.mark.parametrize("strange", STRANGE)
def test_flags_of_strange_values_are_the_definitions(strange, guards):
    """NaN, infinities, overflow in the guard's own float32 sums, zeros and subnormals have the definition's flags."""
    rng = np.random.default_rng(5)
    for shape, biased in (((40, 50, 33), True), ((41, 129, 40), False)):
        arrays = dict(zip("XWbY", plain_call(rng, *shape), strict=True))
        STRANGE[strange](arrays)
        call = Operands.of(arrays["X"], arrays["W"], arrays["b"] if biased else None, arrays["Y"])
        for arithmetic in (*declarations(biased=biased, narrowed=True), *declarations(biased=biased, narrowed=False)):
            for block in (None, 3, 32):
                assert_same(guards(), call, arithmetic, block=block, seed=rng.bytes(4), draws=2)


@pytest.mark.parametrize("strange", STRANGE)
def test_strange_values_in_a_batch_of_products_pass_only_where_the_definition_passes(strange):
    """A product of a batch that is not reported has no flagged and no inapplicable block, by the definition."""
    arrays = [dict(zip("XWbY", plain_call(np.random.default_rng(n)), strict=True)) for n in range(3)]
    for own in arrays:
        own["Y"] = honest.bf16(own["Y"] - own["b"])
    STRANGE[strange](arrays[1])
    X, W, Y = (np.stack([own[name] for own in arrays]) for name in "XWY")
    both = (declarations(biased=False, narrowed=narrowed) for narrowed in (True, False))
    for arithmetic in (declared for group in both for declared in group):
        found = Guard().check_batch(X, W, Y, arithmetic, seed=b"s")
        for n in range(3):
            alone = check_linear(Operands.of(X[n], W[n], None, Y[n]), arithmetic, seed=b"s").columns
            if n in found:
                assert np.array_equal(found[n].columns.flag, alone.flag)
                assert np.array_equal(found[n].columns.inapplicable, alone.inapplicable)
            else:
                assert not (alone.flag | alone.inapplicable).any()


@pytest.mark.parametrize(("M", "K", "N"), [(0, 5, 4), (5, 0, 4), (5, 4, 0), (1, 1, 1), (1, 2, 1), (9, 1, 3), (2, 3, 1)])
def test_flags_of_small_calls_are_the_definitions(M, K, N, guards):
    """Calls without rows, terms or columns, and of one or two, have the definition's flags."""
    X, W, b = honest.operands("normal", (M, K, N), 1, narrowed=True)
    for biased in (True, False):
        weights = Weights.of(W, b if biased else None)
        for Y in (X @ W.T + (b if biased else 0), np.ones((M, N), dtype=np.float32)):
            for arithmetic in declarations(biased=biased, narrowed=True):
                assert_same(guards(), Operands.of(X, weights, None, Y), arithmetic, seed=b"s", draws=3)


@pytest.mark.parametrize("operand", [0.5, 1e30])
@pytest.mark.parametrize("K", [12_000, 90_000])
def test_flags_under_a_bound_that_grew_out_of_reach_are_the_definitions(operand, K, guards):
    """Sums so long for their accumulator that a bound is astronomical, or none, have the definition's marks."""
    arithmetic = replace(bf16_arithmetic(bias=False), accumulate=BF16)
    X, W = np.full((3, K), operand, dtype=np.float32), np.ones((2, K), dtype=np.float32)
    for size in (0.0, 1.0, 1e30, np.inf):
        call = Operands.of(X, W, None, np.full((3, 2), size, dtype=np.float32))
        assert_same(guards(), call, arithmetic, seed=b"s")


def test_float64_goes_to_the_definition():
    """A float64 call has the definition's cells, residuals and bounds among them."""
    rng = np.random.default_rng(6)
    X, W = rng.normal(size=(5, 7)), rng.normal(size=(4, 7))
    arithmetic = fp64_arithmetic(bias=False, flush=False)
    call = Operands.of(X, W, None, X @ W.T)
    assert_same((Guard().check,), call, arithmetic, seed=b"s")
    assert isinstance(Guard().check(call, arithmetic, seed=b"s").rows, Cells)


@pytest.mark.parametrize(
    "strange", ["a NaN weight", "a weight near the largest", "a subnormal weight", "small weights"]
)
def test_weights_that_float32_sums_can_not_carry_go_to_the_definition(strange):
    """Weights that are no numbers, or so small or large that float32 sums could lose them, have no fast path."""
    arrays = dict(zip("XWbY", plain_call(np.random.default_rng(7)), strict=True))
    weights = Weights.of(arrays["W"])
    assert weights.fast
    STRANGE[strange](arrays)
    call = Operands.of(arrays["X"], Weights.of(arrays["W"]), None, arrays["Y"])
    assert not call.weights.fast
    assert isinstance(Guard().check(call, bf16_arithmetic(bias=False)).rows, Cells)


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_healthy_calls_leave_hardly_a_cell_to_the_definition(name, kernel):
    """Of 10^5 cells of healthy calls, fewer than one in a thousand are undecided, and none is flagged."""
    rng, guard, cells, undecided = np.random.default_rng(8), Guard(), 0, 0
    while cells < 100_000:
        M, K, N = (int(rng.integers(low, high)) for low, high in ((30, 900), (64, 400), (30, 400)))
        X, W, b = honest.operands("normal", (M, K, N), cells, narrowed=name == "bf16")
        Y, arithmetic = X @ W.T + b, fp32_arithmetic(bias=True, flush=False)
        if name == "bf16":
            Y, arithmetic = honest.bf16(Y), bf16_arithmetic(bias=True)
        check = guard.check(Operands.of(X, W, b, Y), arithmetic, seed=rng.bytes(4))
        assert check.verdict() is Verdict.PASS
        cells, undecided = cells + check.rows.flag.size + check.columns.flag.size, undecided + check.undecided
    assert undecided < 1e-3 * cells


@pytest.mark.parametrize("importance", ["nothing", "one term", "NaN", "infinite"])
def test_a_stale_or_useless_sample_changes_no_flag(importance, guards):
    """Whichever columns of W a weight's sample holds from earlier calls, the flags are the definition's."""
    rng = np.random.default_rng(9)
    X, W, b, _ = plain_call(rng, 64, 300, 40)
    X[:, 160:] = 0.0  # what a sample of the later columns says nothing about
    Y = X @ W.T + b
    Y[rng.integers(64, size=20), rng.integers(40, size=20)] += np.float32(rng.normal(size=20) * 0.1)
    arithmetic = fp32_arithmetic(bias=True, flush=False)
    weights = Weights.of(W, b)
    scores = {"nothing": 0.0, "one term": 0.0, "NaN": np.nan, "infinite": np.inf}
    for _ in range(3):
        value = np.full(300, scores[importance])
        value[299] = 1.0 if importance == "one term" else value[299]
        weights.sample(value)
        _, definition = assert_same(guards(), Operands.of(X, weights, None, Y), arithmetic, seed=b"s")
        assert definition.columns.flag.any()


def test_a_bias_that_the_arithmetic_denies_is_refused():
    """A biased call under an arithmetic without one is refused, as the definition refuses it."""
    X, W, b, Y = plain_call(np.random.default_rng(10))
    with pytest.raises(InputError, match="bias"):
        Guard().check(Operands.of(X, W, b, Y), bf16_arithmetic(bias=False))


@pytest.mark.parametrize(("block", "draws"), [(0, 1), (-3, 1), (32, 0), (32, 17)])
def test_a_layout_that_checks_nothing_is_refused(block, draws):
    """Blocks without rows and checks without draws, or too many, are refused."""
    X, W, b, Y = plain_call(np.random.default_rng(11))
    with pytest.raises(InputError):
        Guard().check(Operands.of(X, W, b, Y), bf16_arithmetic(bias=True), block=block, draws=draws)
