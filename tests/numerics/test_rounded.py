"""Correct rounding: against fractions and the formats' own conversions, on midpoints too."""

import tracemalloc
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.numerics import BF16, FP16, FP32, FP64
from veristate.numerics.probes import nearest, rounded, rounded_layer, rounded_sigmoid, rounded_sums, settled

TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def brute(value, form):
    """By search among neighbours: the nearest number of the format to a fraction, the even one of two."""
    close = float(value)
    step = Fraction(form.smallest_subnormal)
    while abs(Fraction(close)) >= step * 2**form.precision:
        step *= 2
    below = (value / step).__floor__() * step
    above = below + step
    if value - below != above - value:
        return float(below if value - below < above - value else above)
    return float(below if (below / step).numerator % 2 == 0 else above)


@given(st.integers(0, 10**9), st.sampled_from([BF16, FP16, FP32]))
@settings(max_examples=20, deadline=None)
def test_values_round_as_the_format_does(seed, form):
    """Random values, subnormals and midpoints, against torch from float32 and against search in fractions."""
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(40) * 10.0 ** rng.integers(-9, 4)).astype(np.float32)
    grid = rounded(values, form)
    assert np.array_equal(grid, torch.from_numpy(values).to(TORCH[form.name]).double().numpy())
    for low, high in pairwise(np.unique(grid)[:6].tolist()):
        middle = (Fraction(low) + Fraction(high)) / 2
        for off in (0, Fraction(1, 2**400), -Fraction(1, 2**400)):
            assert nearest(middle + off, form) == brute(middle + off, form)


def test_what_is_beyond_the_range_is_infinite_and_what_is_missing_stays_so():
    """The last midpoint of fp16 goes up; NaN and infinities are kept."""
    got = rounded(np.array([65519.99, 65520.0, -1e9, np.nan, np.inf]), FP16)
    assert got[:3].tolist() == [65504.0, np.inf, -np.inf]
    assert np.isnan(got[3])
    assert got[4] == np.inf
    assert nearest(Fraction(65520), FP16) == np.inf
    assert nearest(Fraction(65520) - Fraction(1, 10**30), FP16) == 65504.0


@given(st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_an_interval_is_settled_only_when_all_of_it_rounds_one_way(seed):
    """Both ends and the middle agree, or the cell is open; a point is open only where it is no number."""
    rng = np.random.default_rng(seed)
    approx, reach = rng.standard_normal((5, 7)), np.abs(rng.standard_normal((5, 7))) * 2.0**-9
    values, cells = settled(approx, reach, BF16)
    open_ = np.zeros(approx.shape, bool)
    open_[cells[:, 0], cells[:, 1]] = True
    ends = [rounded(approx + s * reach, BF16) for s in (-1, 0, 1)]
    assert ((ends[0] == values) & (ends[1] == values) & (ends[2] == values))[~open_].all()
    assert (ends[0] != ends[2])[open_ & (reach > 1e-6)].all()
    assert len(settled(np.array([[1.0, np.nan]]), np.zeros((1, 2)), BF16)[1]) == 1


@given(st.integers(0, 10**9), st.sampled_from([BF16, FP16, FP32]), st.booleans())
@settings(max_examples=8, deadline=None)
def test_a_layer_is_rounded_once_from_its_exact_value(seed, form, coarse):
    """Against fractions; few bits make many midpoints. What a device saw, within its bound, gives the same."""
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(-3, 4, s) / 4.0) if coarse else (lambda *s: rng.standard_normal(s))
    W, b, X, add = (rounded(draw(*s), form) for s in ((6, 9), (6,), (5, 9), (5, 6)))
    exact = [
        [sum(Fraction(w) * Fraction(x) for w, x in zip(W[j], X[i], strict=True)) for j in range(6)] for i in range(5)
    ]
    wanted = [[brute(exact[i][j] + Fraction(b[j]) + Fraction(add[i, j]), form) for j in range(6)] for i in range(5)]
    got, _ = rounded_layer(W, b, X, form, add=add)
    assert got.tolist() == wanted
    off = rng.standard_normal((5, 6)) * 1e-3
    seen = (X @ W.T + b + off, np.linalg.norm(off, axis=1) * 1.01 + 1e-12)
    got, evaluated = rounded_layer(W, b, X, form, seen=seen)
    assert got.tolist() == [[brute(exact[i][j] + Fraction(b[j]), form) for j in range(6)] for i in range(5)]
    assert evaluated <= got.size


@given(st.integers(0, 10**9), st.booleans())
@settings(max_examples=8, deadline=None)
def test_sums_are_rounded_once_too(seed, mean):
    """Sums of a few numbers lie on midpoints often; a division by a hundred never is exact."""
    rng = np.random.default_rng(seed)
    rows = rounded(rng.standard_normal((8, 5)) * 2.0 ** rng.integers(-6, 7, (8, 1)), BF16)
    index = rng.integers(-1, 8, (6, 4))
    got, _ = rounded_sums(rows, index, BF16)
    for i, picked in enumerate(index):
        total = [sum((Fraction(max(v, 0.0)) for v in rows[picked[picked >= 0], k]), Fraction(0)) for k in range(5)]
        assert got[i].tolist() == [brute(t, BF16) for t in total]
    divisor = np.array([100.0, 4.0]) if mean else None
    got, _ = rounded_sums(rows, np.arange(8), BF16, starts=np.array([0, 3, 8]), divisor=divisor)
    for i, part in enumerate((slice(0, 3), slice(3, 8))):
        by = Fraction(1) if divisor is None else Fraction(divisor[i])
        exact = [sum((Fraction(max(v, 0.0)) for v in column), Fraction(0)) / by for column in rows[part].T]
        assert got[i].tolist() == [brute(t, BF16) for t in exact]


def test_a_sigmoid_is_rounded_as_forty_digits_say():
    """Against mpmath, at both ends of the range."""
    logits = np.concatenate([np.linspace(-90, 30, 200), [0.0, 1e-30]])
    with mpmath.workdps(40):
        exact = [1 / (1 + mpmath.exp(-mpmath.mpf(x))) for x in logits.tolist()]
        wanted = [nearest(Fraction(mpmath.nstr(y, 40)), FP32) for y in exact]
    assert rounded_sigmoid(logits).astype(float).tolist() == wanted


def test_a_value_beyond_the_format_has_no_score():
    """An overflow is refused, not passed on."""
    with pytest.raises(InputError, match="fp16"):
        rounded_layer(np.array([[6e4]]), np.zeros(1), np.array([[2.0]]), FP16)


def test_a_format_whose_products_fp64_does_not_hold_is_refused():
    """(1 + 2^-52)^2 - 1 - 2^-51 is 2^-104, and its product in FP64 says 0."""
    w = 1 + 2.0**-52
    with pytest.raises(InputError, match="fp64"):
        rounded_layer(np.array([[w, -1.0]]), np.array([-(2.0**-51)]), np.array([[w, 1.0]]), FP64)


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_a_device_that_leaves_everything_open_takes_no_more_memory(share):
    """Bounds that are infinite in all rows or in a few: the same values, and no operands per cell all at once."""
    rng = np.random.default_rng(4)
    rows, width = (512, 256) if share == 1.0 else (256, 8192)
    W, X = (rounded(rng.standard_normal(s), BF16) for s in ((64, width), (rows, width)))
    eps = np.where(np.arange(rows) < share * rows, np.inf, 0.0)
    given = np.where(np.isinf(eps)[:, None], 0.0, X @ W.T)
    tracemalloc.start()
    got, evaluated = rounded_layer(W, np.zeros(64), X, BF16, seen=(given, eps))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (got == rounded_layer(W, np.zeros(64), X, BF16)[0]).all()
    assert evaluated < 0.01 * got.size
    assert peak < 48 * 2**20  # one operand of all open cells is 64 MiB, or 51, and there are two
