"""The screen raises suspicions where a bound proves nothing, accuses nobody, and stands above healthy rounding."""

import numpy as np
import pytest
import torch

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    TF32,
    Guard,
    Operands,
    Screen,
    Weights,
    bf16_arithmetic,
    check_elements,
    fp16_arithmetic,
    fp32_arithmetic,
    narrowed_arithmetic,
    round_to_bf16,
    segmented_arithmetic,
)

from . import honest

SHAPE = (100, 64, 40)
# What the storage of a bias, added separately or not, lets be healthy: both formats, biased or not.
ARITHMETICS = {
    "fp32": fp32_arithmetic(bias=True, flush=False),
    "bf16": bf16_arithmetic(bias=True),
}


def healthy(name, seed=0, shape=SHAPE):
    """A healthy call of torch's own linear."""
    X, W, b = honest.operands("normal", shape, seed, narrowed=name == "bf16")
    dtype = torch.bfloat16 if name == "bf16" else torch.float32
    Y = torch.nn.functional.linear(*(torch.from_numpy(a).to(dtype) for a in (X, W, b))).float().numpy()
    return Operands.of(X, Weights.of(W, b), None, Y)


def moved(call, place, size):
    """The call with one output moved."""
    Y = call.Y.copy()
    Y[place] += np.float32(size)
    return Operands(X=call.X, weights=call.weights, Y=Y)


def places(elements):
    """Where the elements are."""
    return list(zip(elements.rows.tolist(), elements.columns.tolist(), strict=True))


def test_an_error_below_its_bound_is_unresolved_and_its_call_passes():
    """A float32 error above the screen and below every bound is named with its place, and the verdict stays PASS."""
    call, place = healthy("fp32", shape=(100, 600, 40)), (70, 9)
    bound = check_elements(call, ARITHMETICS["fp32"]).bound[place]
    check = Guard().check(moved(call, place, 0.7 * bound), ARITHMETICS["fp32"], seed=b"s")
    assert places(check.elements) == [place]
    assert not check.elements.proven.any()
    assert 0.5 * bound < check.elements.residual[0] < check.elements.bound[0]
    assert check.verdict() is Verdict.PASS
    assert not check.rows.flag.any()
    assert not check.columns.flag.any()


@pytest.mark.parametrize("name", ARITHMETICS)
def test_an_error_above_its_own_bound_is_proven_where_no_sum_proves_it(name):
    """An error too small for the sums and above its element's bound is a FLAG at its place."""
    call, place = healthy(name), (33, 39)
    Y = call.Y.copy()
    Y[place] += 0.2 * np.abs(Y).mean() if name == "bf16" else 3 * check_elements(call, ARITHMETICS[name]).bound[place]
    Y = round_to_bf16(Y) if name == "bf16" else Y
    wrong = Operands(X=call.X, weights=call.weights, Y=Y)
    check = Guard().check(wrong, ARITHMETICS[name], seed=b"s")
    assert not check.rows.flag.any()
    assert not check.columns.flag.any()
    assert places(check.elements) == [place]
    assert check.elements.proven.all()
    assert check.verdict() is Verdict.FLAG
    assert Guard(screen=None).check(wrong, ARITHMETICS[name], seed=b"s").verdict() is Verdict.PASS


def test_every_element_of_a_row_with_a_proven_one_is_looked_at():
    """Beside one large error in a row, one too small for its own sums is found too; in another row it isn't."""
    call, arithmetic = healthy("bf16"), ARITHMETICS["bf16"]
    quiet = np.abs(call.Y[5:7]).argmin(axis=1)
    Y = call.Y.copy()
    Y[5, (quiet[0] + 7) % 40] += 8.0
    for row, column in zip((5, 6), quiet, strict=True):
        Y[row, column] += np.float32(0.02)
    Y = round_to_bf16(Y)
    wrong = Operands(X=call.X, weights=call.weights, Y=Y)
    assert check_elements(wrong, arithmetic).flag[(5, 6), quiet].all()
    found = Guard().check(wrong, arithmetic, seed=b"s").elements
    assert found.proven.all()
    assert sorted(places(found)) == sorted([(5, (quiet[0] + 7) % 40), (5, quiet[0])])
    assert found.examined >= 32 + 40


@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("size", [0.01, 0.1, 1.0, 100.0])
def test_what_the_guard_names_is_what_the_elements_are(name, size):
    """Proven elements are those above their own bound, with that bound; what is unresolved is below it."""
    rng, arithmetic = np.random.default_rng(3), ARITHMETICS[name]
    for seed in range(5):
        call = healthy(name, seed)
        Y = call.Y.copy()
        Y[rng.integers(100, size=20), rng.integers(40, size=20)] += np.float32(rng.normal(size=20) * size)
        wrong = Operands(X=call.X, weights=call.weights, Y=round_to_bf16(Y) if name == "bf16" else Y)
        every, found = check_elements(wrong, arithmetic), Guard().check(wrong, arithmetic, seed=b"s").elements
        assert len(set(places(found))) == len(found.rows)
        assert np.array_equal(every.flag[found.rows, found.columns], found.proven)
        assert np.allclose(every.bound[found.rows, found.columns], found.bound, rtol=1e-9)
        assert size < 0.5 or every.flag[np.unique(found.rows)].sum() == found.proven.sum() > 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_an_output_that_is_no_number_or_huge_is_named(name, value):
    """A NaN, an infinity or a huge value is proven wrong at its place, and nothing else is."""
    call, place = healthy(name), (99, 39)
    Y = call.Y.copy()
    Y[place] = value
    check = Guard().check(Operands(X=call.X, weights=call.weights, Y=Y), ARITHMETICS[name], seed=b"s")
    assert places(check.elements) == [place]
    assert check.elements.proven.all()


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("name", [*honest.FP32_STYLES, *honest.BF16_STYLES])
def test_no_honest_element_stays_unresolved(name, family):
    """Whatever the order, whether rounded, cut or flushed, and whatever the operands: nothing is left unresolved."""
    style = (honest.FP32_STYLES | honest.BF16_STYLES)[name]
    narrowed = style.storage == honest.B16
    arithmetic = bf16_arithmetic(bias=True) if narrowed else fp32_arithmetic(bias=True, flush=style.flush)
    X, W, b = honest.operands(family, (33, 24, 9), 5, narrowed=narrowed)
    Y = style.compute(X, W, b, np.random.default_rng(5)).astype(np.float32)
    check = Guard().check(Operands.of(X, W, b, Y), arithmetic, block=8, seed=b"s")
    assert check.verdict() is not Verdict.FLAG
    assert not len(check.elements.rows)


@pytest.mark.parametrize(
    "arithmetic",
    [
        segmented_arithmetic(bf16_arithmetic(bias=True), 4),
        narrowed_arithmetic(BF16, bias=True),
        narrowed_arithmetic(TF32, bias=True),
        fp16_arithmetic(bias=True, flush=False),
    ],
    ids=lambda a: f"{a.operands.name}, {a.nodes} nodes",
)
def test_other_declared_roundings_are_below_the_screen(arithmetic):
    """What a declaration lets be rounded besides, in operands and partial sums, raises no suspicion by itself."""
    rng = np.random.default_rng(4)
    X, W, b = (a * 0.1 for a in honest.operands("normal", (64, 96, 20), 4, narrowed=True))
    form = {"bf16": honest.B16, "fp16": honest.F16, "tf32": honest.T32}[arithmetic.operands.name]
    read = arithmetic.nodes == 4
    if read:
        X, W = (a * rng.uniform(1, 1.01, a.shape).astype(np.float32) for a in (X, W))
    parts = 4 if arithmetic.nodes == 7 else 1
    style = honest.Style(splits=parts, intermediate=honest.B16, storage=honest.F32)
    operands = [honest.narrow(a.astype(np.float64), form) if read else a for a in (X, W)]
    Y = style.compute(*operands, b, rng)
    if arithmetic.storage.name != "fp32":
        Y = honest.narrow(Y, form)
    check = Guard().check(Operands.of(X, W, b, Y.astype(np.float32)), arithmetic, seed=b"s")
    assert check.verdict() is Verdict.PASS
    assert not len(check.elements.rows)
    assert 0 < check.elements.loudest < 1


@pytest.mark.parametrize("name", ARITHMETICS)
def test_rows_of_very_different_sizes_raise_no_suspicion(name):
    """A block whose rows differ by many orders of magnitude is judged by its largest rows, not by their number."""
    X, W, b = honest.operands("scales 1e+-12", (320, 64, 40), 6, narrowed=name == "bf16")
    dtype = torch.bfloat16 if name == "bf16" else torch.float32
    Y = torch.nn.functional.linear(*(torch.from_numpy(a).to(dtype) for a in (X, W, b))).float().numpy()
    check = Guard().check(Operands.of(X, W, b, Y), ARITHMETICS[name], seed=b"s")
    assert check.verdict() is Verdict.PASS
    assert check.elements.examined <= 32


@pytest.mark.parametrize("family", ["subnormal operands", "subnormal products", "tiny products"])
def test_underflow_raises_no_suspicion(family):
    """What a unit may flush, systematically and far above a rounding, is below the screen."""
    X, W, b = honest.operands(family, (64, 64, 40), 7, narrowed=True)
    Y = honest.BF16_STYLES["flushed"].compute(X, W, b, np.random.default_rng(7)).astype(np.float32)
    assert Guard().check(Operands.of(X, W, b, Y), ARITHMETICS["bf16"], seed=b"s").elements.examined == 0


@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_calibrated_screen_stands_above_the_calls_it_was_calibrated_on(name):
    """Calls' loudest shares give a screen of which the same calls reach the inverse of the margin."""
    calls = [healthy(name, seed) for seed in range(8)]
    low = Screen(stored=0.2, accumulated=0.02)

    def loudest(screen):
        guard = Guard(screen=screen)
        return [guard.check(call, ARITHMETICS[name], seed=b"s").elements.loudest for call in calls]

    assert max(loudest(low)) > 1.0
    high = low.calibrated(loudest(low), margin=1.25)
    assert high.stored == pytest.approx(0.2 * 1.25 * max(loudest(low)))
    assert max(loudest(high)) == pytest.approx(0.8, rel=1e-3)


@pytest.mark.parametrize("shares", [[], [np.inf], [np.nan]])
def test_a_screen_is_not_calibrated_on_nothing(shares):
    """Without a healthy call that gives a number, calibration is refused."""
    with pytest.raises(InputError, match="calibrated"):
        Screen().calibrated(shares)


def test_whole_columns_raise_no_suspicion():
    """A check of whole rows and columns looks at no element unless a sum is flagged."""
    call = healthy("bf16")
    assert Guard().check(moved(call, (0, 0), 0.5), ARITHMETICS["bf16"], block=None).elements.examined == 0
    flagged = Guard().check(moved(call, (0, 0), 64.0), ARITHMETICS["bf16"], block=None)
    assert flagged.columns.flag.any()
    assert (0, 0) in places(flagged.elements)
