"""Sums by destination, and many small products at once, against sums in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    BLOCK,
    FP32,
    Guard,
    LinearArithmetic,
    Operands,
    bf16_arithmetic,
    check_linear,
    check_scatter_sum,
    fp32_arithmetic,
    round_to_bf16,
)
from veristate.numerics.kernels import passes

from . import honest

SUM = LinearArithmetic(operands=FP32, accumulate=FP32, storage=FP32, bias="none", flush=False)
SEED = b"drawn"


@pytest.fixture(params=["native", "numba"], autouse=True)
def kernel(request, monkeypatch):
    """Both kernels of the pass."""
    if request.param == "numba":
        monkeypatch.setattr(passes, "native", None)
    elif passes.native is None:
        pytest.skip("the C kernel was not built, or the processor has no AVX-512")


def added_in_float32(rows, index, places, initial=None):
    """The sums as float32 additions in order of the rows."""
    out = np.zeros((places, rows.shape[1]), dtype=np.float32) if initial is None else initial.copy()
    for i, d in enumerate(index):
        out[d] = out[d] + rows[i]
    return out


def problem(seed, n=200, places=70, width=9):
    """Rows of mixed sizes and their destinations; some places get nothing, one gets very much."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, width)) * 2.0 ** rng.integers(-8, 8, (n, 1))).astype(np.float32)
    index = rng.integers(0, places - 5, n)
    index[: n // 3] = 4
    return rows, index


def test_shapes_and_destinations_that_do_not_fit_are_refused():
    """A destination outside the sums, or columns that differ, are input errors."""
    rows, index = problem(0)
    sums = added_in_float32(rows, index, 70)
    for wrong in (np.where(index == 4, 70, index), np.where(index == 4, -1, index)):
        with pytest.raises(InputError, match="destinations"):
            check_scatter_sum(rows, wrong, None, sums, SUM, seed=SEED)
    with pytest.raises(InputError, match="rows"):
        check_scatter_sum(rows[:, :3], index, None, sums, SUM, seed=SEED)
    with pytest.raises(InputError, match="index"):
        check_scatter_sum(rows, index[:-1], None, sums, SUM, seed=SEED)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_honest_sums_pass(begun, wide):
    """Float32 additions in order, from zeros and from values, with one index and with one for each column."""
    for seed in range(20):
        rows, index = problem(seed)
        initial = np.random.default_rng(seed).normal(size=(70, 9)).astype(np.float32) if begun else None
        sums = added_in_float32(rows, index, 70, initial)
        given = np.repeat(index[:, None], 9, axis=1) if wide else index
        check = check_scatter_sum(rows, given, initial, sums, SUM, seed=SEED)
        assert check.verdict() is Verdict.PASS
        assert 0 < check.worst < 1


def test_an_index_that_differs_by_column_is_followed():
    """Each column has its own destinations; honest sums pass and those of another index are flagged."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(120, 6)).astype(np.float32)
    index = rng.integers(0, 40, (120, 6))
    sums = np.zeros((40, 6), dtype=np.float32)
    for i in range(120):
        for f in range(6):
            sums[index[i, f], f] += rows[i, f]
    assert check_scatter_sum(rows, index, None, sums, SUM, seed=SEED).verdict() is Verdict.PASS
    check = check_scatter_sum(rows, np.roll(index, 1, axis=1), None, sums, SUM, seed=SEED)
    assert check.verdict() is Verdict.FLAG


def test_a_sum_is_flagged_exactly_where_it_exceeds_its_bound():
    """At every place the flag is that of exact fractions: the error above the bound of as many additions."""
    rows, index = problem(5)
    exact = [[Fraction(0)] * 9 for _ in range(70)]
    mass = [[Fraction(0)] * 9 for _ in range(70)]
    for i, d in enumerate(index):
        for f in range(9):
            exact[d][f] += Fraction(float(rows[i, f]))
            mass[d][f] += abs(Fraction(float(rows[i, f])))
    addends = np.bincount(index, minlength=70)
    for place, size in [((4, 3), 0.99), ((4, 3), 1.01), ((40, 8), 0.99), ((40, 8), 1.01), ((69, 0), 0.0)]:
        d, f = place
        growth = (1 + 2 * Fraction(1, 2**24)) ** (int(addends[d]) + 4) - 1
        bound = growth * mass[d][f]
        sums = added_in_float32(rows, index, 70).astype(np.float64)
        sums[place] = float(exact[d][f] + Fraction(size) * bound)
        check = check_scatter_sum(rows, index, None, sums, SUM, seed=SEED)
        assert check.flag[place] == (size > 1)
        assert (check.verdict() is Verdict.FLAG) == (size > 1)


def test_what_is_no_number_is_flagged_or_not_applicable():
    """A NaN sum of finite rows is a FLAG; of a row that is NaN it is INAPPLICABLE; infinite rows likewise."""
    rows, index = problem(6)
    sums = added_in_float32(rows, index, 70)
    sums[9, 2] = np.nan
    check = check_scatter_sum(rows, index, None, sums, SUM, seed=SEED)
    assert np.argwhere(check.flag).tolist() == [[9, 2]]
    rows[index == 9, 2] = np.inf
    check = check_scatter_sum(rows, index, None, sums, SUM, seed=SEED)
    assert check.verdict() is Verdict.INAPPLICABLE


def test_nothing_added_is_zero_or_what_it_began_with():
    """Without rows the sums are zeros; anything else is flagged, however small; no sums are not a pass."""
    none = np.zeros((0, 3), dtype=np.float32)
    index = np.zeros(0, dtype=np.int64)
    zeros = np.zeros((40, 3), dtype=np.float32)
    assert check_scatter_sum(none, index, None, zeros, SUM, seed=SEED).verdict() is Verdict.PASS
    zeros[33, 1] = 1e-30
    assert check_scatter_sum(none, index, None, zeros, SUM, seed=SEED).verdict() is Verdict.FLAG
    assert check_scatter_sum(none, index, None, zeros[:0], SUM, seed=SEED).verdict() is Verdict.INAPPLICABLE


def batch(narrowed, B=7, M=45, K=20, N=33):
    """Honest batched products."""
    X, W, Y = np.empty((B, M, K), np.float32), np.empty((B, N, K), np.float32), np.empty((B, M, N), np.float32)
    style = honest.BF16_STYLES["sequential"] if narrowed else honest.FP32_STYLES["lanes"]
    for n in range(B):
        X[n], W[n], _ = honest.operands("normal", (M, K, N), n, narrowed=narrowed)
        Y[n] = style.compute(X[n], W[n], None, np.random.default_rng(n))
    return X, W, Y


@pytest.mark.parametrize("narrowed", [False, True])
def test_batched_products_have_the_flags_of_the_definition(narrowed):
    """Of a batch only spoiled products are reported, with the flags that the definition gives each alone."""
    arithmetic = bf16_arithmetic(bias=False) if narrowed else fp32_arithmetic(bias=False, flush=False)
    X, W, Y = batch(narrowed)
    assert not Guard().check_batch(X, W, Y, arithmetic, seed=SEED)
    Y[2, 40, 5] += 3.0
    Y[6, 0, 32] = np.nan
    if narrowed:
        Y[2] = round_to_bf16(Y[2])
    found = Guard().check_batch(X, W, Y, arithmetic, seed=SEED)
    assert sorted(found) == [2, 6]
    for n, check in found.items():
        alone = check_linear(Operands.of(X[n], W[n], None, Y[n]), arithmetic, seed=SEED)
        assert np.array_equal(check.columns.flag, alone.columns.flag)
        assert check.verdict() is Verdict.FLAG


def test_the_format_of_the_sums_is_that_of_every_addition():
    """Sums that are stored in bfloat16 after each addition pass as such, and are a fault in float32."""
    rng = np.random.default_rng(8)
    rows, index = round_to_bf16(rng.normal(size=(90, 4)).astype(np.float32)), rng.integers(0, 8, 90)
    sums = np.zeros((8, 4), dtype=np.float32)
    for i, d in enumerate(index):
        sums[d] = round_to_bf16(sums[d] + rows[i])
    narrow = LinearArithmetic(operands=BF16, accumulate=BF16, storage=BF16, bias="none", flush=False)
    assert check_scatter_sum(rows, index, None, sums, narrow, seed=SEED).verdict() is Verdict.PASS
    assert check_scatter_sum(rows, index, None, sums, SUM, seed=SEED).verdict() is Verdict.FLAG
    assert BLOCK == 32
