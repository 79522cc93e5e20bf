"""The definition of a check against a slow second implementation in exact fractions."""

import functools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from veristate.core import InputError, Verdict
from veristate.numerics import (
    BF16,
    FP32,
    MOST_DRAWS,
    LinearArithmetic,
    Operands,
    Weights,
    bf16_arithmetic,
    check_elements,
    check_linear,
    draw_signs,
    fp32_arithmetic,
    fp64_arithmetic,
)
from veristate.numerics.checksums import CELL_FIELDS, column_cells, element_cells, row_cells, signs_of

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


def slow_check(X, W, b, Y, arithmetic, block, signs):
    """Residuals, bounds and masses sum |x||w| + |b| + |Y| of all row and column cells, as dictionaries of fractions."""
    X, W, b, Y = ([[Fraction(float(v)) for v in row] for row in np.atleast_2d(a)] for a in (X, W, b, Y))
    b = b[0]
    residuals, bounds, masses = {}, {}, {}
    for i in range(M):
        for j in range(N):
            error = Y[i][j] - sum((x * w for x, w in zip(X[i], W[j], strict=True)), b[j])
            products = sum((abs(x * w) for x, w in zip(X[i], W[j], strict=True)), abs(b[j]))
            bound = slow_element_bound(arithmetic, products, Y[i][j], b[j])
            signed = [(("column", draw, i // block if block else 0, j), t[i]) for draw, t in enumerate(signs)]
            for cell, sign in ((("row", i), 1), *signed):
                residuals[cell] = residuals.get(cell, 0) + sign * error
                bounds[cell] = bounds.get(cell, 0) + bound
                masses[cell] = masses.get(cell, 0) + products + abs(Y[i][j])
    return residuals, bounds, masses


def planted(family):
    """X, W, b, Y of an honest call with two faults."""
    X, W, b = honest.operands(family, (M, K, N), 1, narrowed=True)
    Y = honest.BF16_STYLES["sequential"].compute(X, W, b, np.random.default_rng(0)).astype(np.float32)
    Y[2, 3] = Y[2, 3] * 1.5 + 2.0**-20
    Y[5, 0] += 2.0 * np.abs(Y).max()
    return X, W, b, Y


@functools.cache
def in_fractions(family, name, block, seed, draws):
    """The slow check of that call, made once for all ways of checking."""
    signs = np.ones((1, M)) if seed is None else draw_signs(M, seed, draws)
    return slow_check(*planted(family), ARITHMETICS[name], block, signs.astype(int).tolist())


def assert_same_cells(ours, theirs):
    """Two sets of cells agree in every bit of residual and bound, and in their answers."""
    for name in CELL_FIELDS:
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize("block", [0, -1])
def test_a_block_that_adds_nothing_is_refused(checked, block):
    """A block size below one is an input error, whatever the data."""
    call = Operands.of(*np.ones((2, 2, 2), dtype=np.float32), None, np.full((2, 2), 2, dtype=np.float32))
    with pytest.raises(InputError, match="block"):
        checked(call, fp32_arithmetic(bias=False, flush=False), block=block)


@pytest.mark.parametrize("draws", [0, -1, MOST_DRAWS + 1])
def test_no_draws_or_too_many_are_refused(checked, draws):
    """Signs are drawn once at least, and no more often than a kernel has room for."""
    call = Operands.of(*np.ones((2, 2, 2), dtype=np.float32), None, np.full((2, 2), 2, dtype=np.float32))
    with pytest.raises(InputError, match="draws"):
        checked(call, fp32_arithmetic(bias=False, flush=False), seed=b"drawn", draws=draws)


@pytest.mark.parametrize(
    ("X", "W", "b", "Y"),
    [
        ((2, 3), (4, 2), None, (2, 4)),
        ((2, 3), (4, 3), None, (4, 2)),
        ((2, 3), (4, 3), None, (2, 4, 1)),
        ((3,), (4, 3), None, (1, 4)),
        ((2, 3), (4,), None, (2, 4)),
        ((2, 3), (4, 3), (3,), (2, 4)),
        ((2, 3), (4, 3), (4, 1), (2, 4)),
        ((2, 3), (4, 3), (), (2, 4)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(X, W, b, Y):
    """Operands whose shapes contradict each other are an input error, also with weights that were prepared before."""
    with pytest.raises(InputError, match=r"shape|needs|weights must be"):
        Operands.of(np.ones(X), np.ones(W), None if b is None else np.ones(b), np.ones(Y))
    with pytest.raises(InputError, match=r"shape|needs|weights must be"):
        Operands.of(np.ones(X), Weights.of(np.ones(W), None if b is None else np.ones(b)), None, np.ones(Y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bias_that_the_declaration_denies_is_refused(checked, dtype):
    """A call with a bias under an arithmetic without one has no bound: refused for every kind of check."""
    ones = np.ones((8, 8), dtype=dtype)
    call = Operands.of(ones, ones, ones[0], ones * 9)
    for check in (checked, check_elements):
        with pytest.raises(InputError, match="bias"):
            check(call, bf16_arithmetic(bias=False))


@pytest.mark.parametrize(("seed", "draws"), [(None, 1), (b"drawn", 1), (b"drawn", 3)])
@pytest.mark.parametrize("block", [None, 1, 3, 8, 32])
@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("family", ["normal", "cancelling", "scales 1e+-12", "zeros"])
def test_sums_and_bounds_are_those_of_the_definition(checked, family, name, block, seed, draws):
    """Every row and column cell is flagged as in fractions, and the definition has the exact residual within its own
    rounding, and the exact bound, outward. Faults are planted, so that both answers occur.
    """
    check = checked(Operands.of(*planted(family)), ARITHMETICS[name], block=block, seed=seed, draws=draws)
    residuals, bounds, masses = in_fractions(family, name, block, seed, draws)
    assert (check.block, check.seed) == (block or M, seed)
    assert check.rows.flag.shape == (M,)
    assert check.columns.flag.shape == (draws, -(-M // (block or M)), N)
    assert len(residuals) == check.rows.flag.size + check.columns.flag.size
    assert check.rows.flag.any()
    worst = 0
    for (side, *place), residual in residuals.items():
        cells, place = check.rows if side == "row" else check.columns, tuple(place)
        bound = bounds[side, *place]
        assert cells.flag[place] == (abs(residual) > bound)
        assert not cells.inapplicable[place]
        if checked is check_linear:
            ours = Fraction(float(cells.bound[place]))
            own_rounding = masses[side, *place] * (K + M + N) * Fraction(2) ** -50
            assert bound <= ours <= bound * (1 + Fraction(1, 2**40)) + own_rounding + Fraction(2) ** -120
            assert abs(Fraction(float(cells.residual[place])) - abs(residual)) <= ours - bound
            worst = max(worst, abs(residual) / ours)
    if checked is check_linear:
        assert check.worst == pytest.approx(float(worst), rel=1e-6)
    else:
        assert check.undecided is not None


def scattered(rows):
    """A call whose rows differ in scale, with one fault: X, W, b, Y."""
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(rows, 6)) * 2.0 ** -rng.integers(0, 120, (rows, 1))).astype(np.float32)
    W = rng.normal(size=(9, 6)).astype(np.float32)
    b = (rng.normal(size=9) * 2.0**-60).astype(np.float32)
    Y = (X @ W.T + b).astype(np.float32)
    Y[40, 3] += 1
    return X, W, b, Y


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_some_cells_are_those_of_all(dtype, flush):
    """A check of some rows, column cells or elements, in any order and number, has the bits of the check of all."""
    X, W, b, Y = (a.astype(dtype) for a in scattered(133))
    Y[77, 8], X[9, 2] = np.nan, np.inf
    call, arithmetic = Operands.of(X, W, b, Y), fp32_arithmetic(bias=True, flush=flush)
    whole = check_linear(call, arithmetic, block=2, seed=b"drawn", draws=2)
    rng = np.random.default_rng(4)

    def some(cells, *index):
        return type(cells)(**{name: getattr(cells, name)[index] for name in CELL_FIELDS})

    every = element_cells(call, arithmetic, *(a.ravel() for a in np.indices(call.Y.shape))).reshaped(133, 9)
    assert np.array_equal(every.flag, check_elements(call, arithmetic).flag)
    for count in (1, 2, 50, 400):
        rows, columns, blocks = (rng.integers(size, size=count) for size in (133, 9, 67))
        assert_same_cells(row_cells(call, arithmetic, rows), some(whole.rows, rows))
        assert_same_cells(element_cells(call, arithmetic, rows, columns), some(every, rows, columns))
        for draw, signs in enumerate(signs_of(133, b"drawn", 2)):
            cells = column_cells(call, arithmetic, signs, 2, blocks, columns)
            assert_same_cells(cells, some(whole.columns, draw, blocks, columns))
    nothing = np.zeros(0, dtype=np.intp)
    assert row_cells(call, arithmetic, nothing).flag.shape == (0,)
    assert column_cells(call, arithmetic, signs, 2, nothing, nothing).flag.shape == (0,)
    assert element_cells(call, arithmetic, nothing, nothing).flag.shape == (0,)


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("seed", [None, b"drawn"])
def test_cells_follow_their_own_rows_alone(seed, flush):
    """A column cell is exact for its block's rows, a row for its own, however far other rows are in scale."""
    block, rows = 2, 133
    X, W, b, Y = scattered(rows)
    check = check_linear(Operands.of(X, W, b, Y), fp32_arithmetic(bias=True, flush=flush), block=block, seed=seed)
    signs = np.ones(rows) if seed is None else draw_signs(rows, seed)[0]
    exact = honest.exact_errors(X, W, b, Y)
    sums = np.add.reduceat(exact * signs[:, None].astype(int).astype(object), np.arange(0, rows, block), axis=0)
    for cells, true in ((check.rows, exact.sum(axis=1)), (check.columns.reshaped(*sums.shape), sums)):
        gap = np.abs(honest.integers(cells.residual) << honest.BITS) - np.abs(true)
        assert honest.within(gap, cells.bound * 1e-6 + 1e-300)
    assert np.argwhere(check.rows.flag).tolist() == [[40]]
    assert np.argwhere(check.columns.flag).tolist() == [[0, 20, 3]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_blocks_cells_are_those_of_its_rows_as_a_call(dtype):
    """Where nothing is flushed, each block is checked as if its rows were all, and one block of all rows as None."""
    call = Operands.of(*(a.astype(dtype) for a in scattered(133)))
    arithmetic = fp32_arithmetic(bias=True, flush=False)
    for block in (1, 32, 133, 10**12):
        check = check_linear(call, arithmetic, block=block)
        for number in range(-(-133 // block)):
            part = slice(number * block, (number + 1) * block)
            alone = check_linear(Operands(X=call.X[part], weights=call.weights, Y=call.Y[part]), arithmetic, block=None)
            found = {name: getattr(check.columns, name)[:, number : number + 1] for name in CELL_FIELDS}
            assert_same_cells(type(check.columns)(**found), alone.columns)
            assert_same_cells(
                type(check.rows)(**{name: getattr(check.rows, name)[part] for name in CELL_FIELDS}), alone.rows
            )


def test_bounds_where_subnormals_are_flushed_hold_for_the_whole_call():
    """Where subnormals are flushed, a large operand in one row shows in the bounds of all."""
    X = np.zeros((17, 1), dtype=np.float32)
    X[0] = 1e30
    call = Operands.of(X, np.ones((1, 1), dtype=np.float32), None, X.copy())
    check = check_linear(call, fp32_arithmetic(bias=False, flush=True), block=1)
    assert check.columns.bound[0, -1, 0] == check.columns.bound[0, 1, 0] > 2.0**-126 * 1e30
    assert check.rows.bound[-1] == check.rows.bound[1] > 2.0**-126 * 1e30


WIDER = {
    "float16": lambda a: a.astype(np.float16),
    "float64": lambda a: a.astype(np.float64),
    "big-endian": lambda a: a.astype(">f4"),
    "columns first": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
}


@pytest.mark.parametrize("kind", WIDER)
@pytest.mark.parametrize("which", [(0,), (1,), (2,), (3,), (0, 1, 2, 3)])
def test_narrow_wide_and_strided_inputs_give_one_answer(checked, kind, which):
    """Float16-held, float32, float64, big-endian and strided arrays of the same values give the same cells."""
    X, W, b = (a.astype(np.float16).astype(np.float32) for a in honest.operands("normal", (9, 4, 6), 2, narrowed=True))
    Y = honest.BF16_STYLES["sequential"].compute(X, W, b, np.random.default_rng(0)).astype(np.float32)
    Y[4, 4] += 2
    Y = Y.astype(np.float16).astype(np.float32)
    plain = check_linear(Operands.of(X, W, b, Y), ARITHMETICS["bf16"], block=3, seed=b"s")
    changed = [WIDER[kind](a) if n in which else a for n, a in enumerate((X, W, b, Y))]
    other = checked(Operands.of(*changed), ARITHMETICS["bf16"], block=3, seed=b"s")
    assert np.argwhere(plain.rows.flag).tolist() == [[4]]
    for ours, theirs in ((other.rows, plain.rows), (other.columns, plain.columns)):
        assert np.array_equal(ours.flag, theirs.flag)
        assert np.array_equal(ours.inapplicable, theirs.inapplicable)
        if checked is check_linear:
            assert_same_cells(ours, theirs)


def test_weights_that_were_prepared_serve_calls_of_either_width(checked):
    """Weights prepared once give the answers of W and b, to float32 and float64 calls in turn."""
    X, W, b = honest.operands("normal", (9, 4, 6), 2, narrowed=False)
    weights = Weights.of(W, b)
    for seed in (b"a", b"b"):
        for dtype in (np.float32, np.float64, np.float32):
            Y = (X.astype(float) @ W.T.astype(float) + b).astype(np.float32).astype(dtype)
            Y[3, 2] += 0.25
            fresh = check_linear(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], block=3, seed=seed)
            ours = checked(Operands.of(X, weights, None, Y), ARITHMETICS["fp32"], block=3, seed=seed)
            assert np.argwhere(ours.columns.flag).tolist() == np.argwhere(fresh.columns.flag).tolist() == [[0, 1, 2]]
            assert np.argwhere(ours.rows.flag).tolist() == [[3]]


def test_a_check_leaves_its_inputs_and_numpy_as_they_were(checked):
    """Operands are not written to, and numpy's error settings are the caller's again after a check of infinities."""
    X, W, b = honest.operands("normal", (5, 4, 6), 2, narrowed=False)
    Y = np.full((5, 6), np.inf, dtype=np.float32)
    kept = [a.copy() for a in (X, W, b, Y)]
    for a in (X, W, b, Y):
        a.setflags(write=False)
    before = np.geterr()
    call = Operands.of(X, W, b, Y)
    assert checked(call, ARITHMETICS["fp32"], block=2, seed=b"s").verdict() is Verdict.FLAG
    check_elements(call, ARITHMETICS["fp32"])
    assert np.geterr() == before
    assert all(np.array_equal(a, c) for a, c in zip((X, W, b, Y), kept, strict=True))


@pytest.mark.parametrize("value", [1e308, -1e308, 1.7e308, np.inf, np.nan])
def test_sums_beyond_float64_warn_nobody(checked, value):
    """Operands near the end of float64 whose sums leave it give an answer and no warning."""
    one, arithmetic = np.ones((3, 1)), fp64_arithmetic(bias=True, flush=False)
    for bias in (0.0, value):
        call = Operands.of(one, one * value, np.full(3, bias), np.full((3, 3), value + bias))
        for check in (checked(call, arithmetic, block=2), check_elements(call, arithmetic)):
            assert check.verdict() is not Verdict.FLAG
    small = Operands.of(one * 1e-160, one * 1e-160, None, np.full((3, 3), value))
    assert checked(small, fp64_arithmetic(bias=False, flush=False), block=1).verdict() is Verdict.FLAG
