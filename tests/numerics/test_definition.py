"""The definition of a check against a slow second implementation in exact fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    FP32,
    LinearArithmetic,
    Operands,
    bf16_arithmetic,
    check_elements,
    check_linear,
    draw_signs,
    fp32_arithmetic,
)
from veristate.numerics.checksums import TILE_BLOCKS

from . import honest

M, K, N = 7, 5, 8
SPLIT = LinearArithmetic(
    operands=BF16, accumulate=FP32, storage=BF16, bias="fused", flush=False, intermediate=BF16, nodes=3
)
ARITHMETICS = {
    "fp32": fp32_arithmetic(bias=True, flush=False),
    "bf16": replace(bf16_arithmetic(bias=True), flush=False),
    "split": SPLIT,
}


def slow_element_bound(arithmetic, products, y, b):
    """The bound of one element as A.3 writes it, without float64, plus storage on the observed value."""
    two_u = 2 * Fraction(1, 2**24)
    growth = (1 + two_u) ** (K + 3) * (1 + Fraction(1, 2**8)) ** arithmetic.nodes
    bound = (growth - 1) * products
    if arithmetic.storage is BF16:
        u = Fraction(1, 2**8) / (1 - Fraction(1, 2**8))
        bound += u * abs(y)
        if arithmetic.bias == "separate":
            bound += u * (abs(y) * (1 + 2 * u) + abs(b))
    return bound


def slow_check(X, W, b, Y, arithmetic, block, seed):
    """Residuals, bounds and masses sum |x||w| + |b| + |Y| of all row and column cells, as dictionaries of fractions."""
    X, W, b, Y = ([[Fraction(float(v)) for v in row] for row in np.atleast_2d(a)] for a in (X, W, b, Y))
    b = b[0]
    s = [1] * N if seed is None else [int(v) for v in draw_signs(N, seed, "row")]
    t = [1] * M if seed is None else [int(v) for v in draw_signs(M, seed, "column")]
    residuals, bounds, masses = {}, {}, {}
    for i in range(M):
        for j in range(N):
            error = Y[i][j] - sum((x * w for x, w in zip(X[i], W[j], strict=True)), b[j])
            products = sum((abs(x * w) for x, w in zip(X[i], W[j], strict=True)), abs(b[j]))
            bound = slow_element_bound(arithmetic, products, Y[i][j], b[j])
            for cell, sign in (
                (("row", i, j // block if block else 0), s[j]),
                (("column", i // block if block else 0, j), t[i]),
            ):
                residuals[cell] = residuals.get(cell, 0) + sign * error
                bounds[cell] = bounds.get(cell, 0) + bound
                masses[cell] = masses.get(cell, 0) + products + abs(Y[i][j])
    return residuals, bounds, masses


@pytest.mark.parametrize("block", [0, -1])
def test_a_block_that_adds_nothing_is_refused(block):
    """A block size below one is an input error, whatever the data."""
    call = Operands.of(np.ones((2, 2)), np.ones((2, 2)), None, np.full((2, 2), 2.0))
    with pytest.raises(InputError, match="block"):
        check_linear(call, ARITHMETICS["fp32"], block=block)


@pytest.mark.parametrize(
    ("X", "W", "b", "Y"),
    [
        ((2, 3), (4, 2), None, (2, 4)),
        ((2, 3), (4, 3), None, (4, 2)),
        ((3,), (4, 3), None, (1, 4)),
        ((2, 3), (4, 3), (3,), (2, 4)),
        ((2, 3), (4, 3), (4, 1), (2, 4)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(X, W, b, Y):
    """Operands whose shapes contradict each other are an input error."""
    with pytest.raises(InputError, match=r"shape|needs"):
        Operands.of(np.ones(X), np.ones(W), None if b is None else np.ones(b), np.ones(Y))


def test_a_bias_that_the_declaration_denies_is_refused():
    """A call with a bias under an arithmetic without one has no bound: refused for every kind of check."""
    call = Operands.of(np.ones((2, 2)), np.ones((2, 2)), np.ones(2), np.full((2, 2), 3.0))
    for check in (check_linear, check_elements):
        with pytest.raises(InputError, match="bias"):
            check(call, bf16_arithmetic(bias=False))


@pytest.mark.parametrize("seed", [None, b"drawn"])
@pytest.mark.parametrize("block", [None, 1, 3, 8, 32])
@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("family", ["normal", "cancelling", "scales 1e+-12", "zeros"])
def test_sums_and_bounds_are_those_of_the_definition(family, name, block, seed):
    """Every row and column cell has the exact residual within the check's own rounding, and the exact bound, outward.

    Faults are planted, so that the verdicts of both implementations are compared too.
    """
    X, W, b = honest.operands(family, (M, K, N), 1, narrowed=True)
    Y = honest.BF16_STYLES["sequential"].compute(X, W, b, np.random.default_rng(0))
    Y[2, 3] = Y[2, 3] * 1.5 + 2.0**-20
    Y[5, 0] += 2.0 * np.abs(Y).max()
    check = check_linear(Operands.of(X, W, b, Y), ARITHMETICS[name], block=block, seed=seed)
    residuals, bounds, masses = slow_check(X, W, b, Y, ARITHMETICS[name], block, seed)
    assert (check.block, check.seed) == (block, seed)
    assert len(residuals) == check.rows.flag.size + check.columns.flag.size
    for (side, i, j), residual in residuals.items():
        cells = check.rows if side == "row" else check.columns
        bound = bounds[side, i, j]
        ours = Fraction(float(cells.bound[i, j]))
        own_rounding = masses[side, i, j] * (K + M + N) * Fraction(2) ** -50
        assert bound <= ours <= bound * (1 + Fraction(1, 2**40)) + own_rounding + Fraction(2) ** -120
        assert abs(Fraction(float(cells.residual[i, j])) - abs(residual)) <= ours - bound
        assert cells.flag[i, j] == (abs(residual) > bound)
        assert not cells.inapplicable[i, j]


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("seed", [None, b"drawn"])
def test_tiles_give_the_cells_of_an_untiled_computation(seed, flush):
    """Taking rows a few blocks at a time changes no residual, bound or verdict, also where tiles differ in scale."""
    block = 2
    rows = 2 * TILE_BLOCKS * block + 5
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(rows, 6)) * 2.0 ** -rng.integers(0, 120, (rows, 1))).astype(np.float32)
    W = rng.normal(size=(9, 6)).astype(np.float32)
    Y = (X @ W.T).astype(np.float32)
    Y[40, 3] += 1
    arithmetic = fp32_arithmetic(bias=False, flush=flush)
    tiled = check_linear(Operands.of(X, W, None, Y), arithmetic, block=block, seed=seed)
    signs = np.ones(rows) if seed is None else draw_signs(rows, seed, "column")
    exact = honest.exact_errors(X, W, None, Y)
    for number in range(-(-rows // block)):
        part = slice(number * block, (number + 1) * block)
        sums = (exact[part] * signs[part, None].astype(int).astype(object)).sum(axis=0)
        gap = np.abs(honest.integers(tiled.columns.residual[number]) << honest.BITS) - np.abs(sums)
        assert honest.within(gap, tiled.columns.bound[number] * 1e-6 + 1e-300)
    # A column cell of one tile is what a call on that block's rows alone gives.
    assert tiled.columns.flag.sum() == tiled.rows.flag.sum() == 1
    assert tiled.columns.flag[20, 3]
    assert tiled.rows.flag[40, 1]
    assert tiled.rows.flag.shape == (rows, 5)
    assert tiled.columns.flag.shape == (-(-rows // block), 9)
    whole = check_linear(Operands.of(X, W, None, Y), arithmetic, block=rows, seed=None)
    one = check_linear(Operands.of(X, W, None, Y), arithmetic)
    for ours, theirs in ((whole.rows, one.rows), (whole.columns, one.columns)):
        assert np.array_equal(ours.flag, theirs.flag)
        assert np.allclose(ours.bound, theirs.bound, rtol=1e-12, atol=0)


def test_bounds_do_not_depend_on_the_tiles():
    """Where subnormals are flushed, a large operand in one tile shows in the bounds of all, as untiled."""
    block = 1
    X = np.zeros((TILE_BLOCKS + 1, 1), dtype=np.float32)
    X[0] = 1e30
    call = Operands.of(X, np.ones((1, 1)), None, X.copy())
    check = check_linear(call, fp32_arithmetic(bias=False, flush=True), block=block)
    assert check.columns.bound[-1, 0] == check.columns.bound[1, 0] > 2.0**-126 * 1e30


def test_narrow_wide_and_strided_inputs_give_one_answer():
    """Float16-held, float32, float64 and strided arrays of the same values give the same cells."""
    X, W, b = honest.operands("normal", (9, 4, 6), 2, narrowed=True)
    Y = honest.BF16_STYLES["sequential"].compute(X, W, b, np.random.default_rng(0))
    plain = check_linear(Operands.of(X, W, b, Y), ARITHMETICS["bf16"], block=3, seed=b"s")
    wide = np.repeat(X.astype(np.float64), 2, axis=1)[:, ::2]
    other = check_linear(
        Operands.of(wide, np.asfortranarray(W), b, Y.astype(np.float32)), ARITHMETICS["bf16"], block=3, seed=b"s"
    )
    for ours, theirs in ((plain.rows, other.rows), (plain.columns, other.columns)):
        assert np.array_equal(ours.flag, theirs.flag)
        assert np.allclose(ours.bound, theirs.bound, rtol=1e-13, atol=0)
    assert plain.verdict() is other.verdict() is Verdict.PASS


def test_a_check_leaves_its_inputs_and_numpy_as_they_were():
    """Operands are not written to, and numpy's error settings are the caller's again after a check of infinities."""
    X, W, b = honest.operands("normal", (5, 4, 6), 2, narrowed=False)
    Y = np.full((5, 6), np.inf, dtype=np.float32)
    kept = [a.copy() for a in (X, W, b, Y)]
    for a in (X, W, b, Y):
        a.setflags(write=False)
    before = np.geterr()
    call = Operands.of(X, W, b, Y)
    check_linear(call, ARITHMETICS["fp32"], block=2, seed=b"s")
    check_elements(call, ARITHMETICS["fp32"])
    assert np.geterr() == before
    assert all(np.array_equal(a, c) for a, c in zip((X, W, b, Y), kept, strict=True))
