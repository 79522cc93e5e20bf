"""NaN and infinity: a fault where finite operands can't give them, no judgement where they can, never a pass."""

import numpy as np
import pytest

from veristate.core import Verdict
from veristate.numerics import (
    Cells,
    LinearCheck,
    Operands,
    bf16_arithmetic,
    check_elements,
    check_linear,
    fp32_arithmetic,
    fp64_arithmetic,
    round_to_bf16,
)

from . import honest

M, K, N, BLOCK = 10, 6, 9, 4
ARITHMETICS = {"fp32": fp32_arithmetic(bias=True, flush=False), "bf16": bf16_arithmetic(bias=True)}
BAD = [np.nan, np.inf, -np.inf]
PASS, FLAG, INAPPLICABLE = Verdict.PASS, Verdict.FLAG, Verdict.INAPPLICABLE


def healthy(name):
    """An honest call: X, W, b, Y as writable arrays."""
    X, W, b = honest.operands("normal", (M, K, N), 21, narrowed=name == "bf16")
    style = honest.BF16_STYLES["fused bias"] if name == "bf16" else honest.FP32_STYLES["sequential"]
    return X, W, b, style.compute(X, W, b, np.random.default_rng(0)).astype(np.float32)


def checks(call, arithmetic, block):
    """The row and column checks plain and with signs."""
    return [check_linear(call, arithmetic, block=block, seed=seed) for seed in (None, b"drawn")]


def answers(cells):
    """One letter a cell: P, F or I."""
    return np.where(cells.flag, "F", np.where(cells.inapplicable, "I", "P"))


def expected(shape, marks, letter):
    """All P but for the marked cells."""
    result = np.full(shape, "P")
    for mark in marks:
        result[mark] = letter
    return result


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("block", [None, 1, BLOCK, 50])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_nan_or_infinity_from_finite_operands_is_a_fault(name, block, value):
    """Where products can't overflow a non-finite output is flagged in its cells, and every other cell is judged."""
    X, W, b, Y = healthy(name)
    Y[6, 5] = value
    call = Operands.of(X, W, b, Y)
    for check in checks(call, ARITHMETICS[name], block):
        step = block or 100
        assert np.array_equal(answers(check.rows), expected(check.rows.flag.shape, [(6, 5 // step)], "F"))
        assert np.array_equal(answers(check.columns), expected(check.columns.flag.shape, [(6 // step, 5)], "F"))
        assert check.verdict() is FLAG
    assert np.array_equal(answers(check_elements(call, ARITHMETICS[name])), expected((M, N), [(6, 5)], "F"))


def test_opposite_infinities_in_one_sum_are_a_fault():
    """Infinities that meet as NaN inside a checksum are flagged like one alone."""
    X, W, b, Y = healthy("fp32")
    Y[2, 1], Y[2, 2], Y[3, 1] = np.inf, -np.inf, -np.inf
    for check in checks(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], BLOCK):
        assert np.array_equal(answers(check.rows), expected((M, 3), [(2, 0), (3, 0)], "F"))
        assert np.array_equal(answers(check.columns), expected((3, N), [(0, 1), (0, 2)], "F"))


def test_outputs_that_are_all_nan_are_a_fault_everywhere():
    """A layer that returned nothing but NaN is flagged in every cell."""
    X, W, b, Y = healthy("fp32")
    for check in checks(Operands.of(X, W, b, Y * np.nan), ARITHMETICS["fp32"], BLOCK):
        assert check.rows.flag.all()
        assert check.columns.flag.all()
        assert not check.rows.inapplicable.any()


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_bad_input_row_is_not_judged_and_leaves_the_others_alone(name, value):
    """NaN or infinity in one row of X: that row and its block's columns have no answer, all else passes."""
    X, W, b, Y = healthy(name)
    X[6, 1] = value
    Y[6] = np.nan
    call = Operands.of(X, W, b, Y)
    for check in checks(call, ARITHMETICS[name], BLOCK):
        assert np.array_equal(answers(check.rows), expected((M, 3), [6], "I"))
        assert np.array_equal(answers(check.columns), expected((3, N), [1], "I"))
        assert check.verdict() is INAPPLICABLE
    assert np.array_equal(answers(check_elements(call, ARITHMETICS[name])), expected((M, N), [6], "I"))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("where", ["W", "b"])
def test_a_bad_weight_or_bias_is_not_judged_in_its_column(where, value):
    """NaN or infinity in a row of W or in b: that column and its block have no answer, all else passes."""
    X, W, b, Y = healthy("fp32")
    (W[5] if where == "W" else b[5:6])[:1] = value
    Y[:, 5] = np.nan
    call = Operands.of(X, W, b, Y)
    for check in checks(call, ARITHMETICS["fp32"], BLOCK):
        assert np.array_equal(answers(check.rows), expected((M, 3), [(slice(None), 1)], "I"))
        assert np.array_equal(answers(check.columns), expected((3, N), [(slice(None), 5)], "I"))
    elements = answers(check_elements(call, ARITHMETICS["fp32"]))
    assert np.array_equal(elements, expected((M, N), [(slice(None), 5)], "I"))


def test_a_fault_beside_a_bad_operand_is_still_a_fault():
    """A NaN that its own finite operands can't give is flagged although its block holds a row that has no answer."""
    X, W, b, Y = healthy("fp32")
    X[4, 0], Y[4], Y[6, 5] = np.nan, np.nan, np.nan
    W[3, 2], Y[:, 3] = np.inf, np.inf
    for check in checks(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], BLOCK):
        assert np.argwhere(check.rows.flag).tolist() == [[6, 1]]
        assert check.rows.inapplicable[:, 0].all()
        assert answers(check.rows)[4].tolist() == ["I"] * 3
        assert np.argwhere(check.columns.flag).tolist() == [[1, 5]]
        assert check.columns.inapplicable[:, 3].all()
        assert check.verdict() is FLAG


@pytest.mark.parametrize("finite", [1e30, -3.0])
def test_a_finite_output_of_a_bad_row_is_not_a_pass(finite):
    """An output that looks healthy although its operands are not finite has no answer."""
    X, W, b, Y = healthy("fp32")
    X[6, 1], Y[6] = np.inf, finite
    check = check_linear(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], block=BLOCK)
    assert answers(check.rows)[6].tolist() == ["I"] * 3


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ARITHMETICS)
def test_overflow_that_healthy_arithmetic_could_give_is_not_judged(name, value):
    """Operands of 3e38 with alternating signs may pass infinity on the way, though their sum is small."""
    X, W, b, _ = healthy(name)
    W[:, :4] = 1
    calm = X * (np.arange(M) != 6)[:, None]
    Y = honest.FP32_STYLES["random"].compute(calm, W, b, np.random.default_rng(0))
    Y = honest.bf16(Y) if name == "bf16" else Y
    X[6, :4] = honest.bf16([3e38, -3e38, 3e38, -3e38])
    Y[6] = value
    call = Operands.of(X, W, b, Y)
    for check in checks(call, ARITHMETICS[name], BLOCK):
        assert np.array_equal(answers(check.rows), expected((M, 3), [6], "I"))
        assert np.array_equal(answers(check.columns), expected((3, N), [1], "I"))
        assert check.verdict() is INAPPLICABLE
    Y[7, 2] = value
    for check in checks(Operands.of(X, W, b, Y), ARITHMETICS[name], BLOCK):
        assert np.argwhere(check.rows.flag).tolist() == [[7, 0]]
        assert np.argwhere(check.columns.flag).tolist() == [[1, 2]]


def test_a_large_bias_may_overflow_too():
    """Products and bias that only together pass the largest float32 may be infinite honestly; either alone may not."""
    one, far = np.ones((1, 1)), np.array([[2e38]])
    call = Operands.of(one, far, far[0], np.array([[np.inf]]))
    assert check_elements(call, ARITHMETICS["fp32"]).verdict() is INAPPLICABLE
    alone = Operands.of(one, far, np.zeros(1), call.Y)
    assert check_elements(alone, ARITHMETICS["fp32"]).verdict() is FLAG


def test_bf16_ends_before_float32_does():
    """A sum half a unit above the largest bfloat16 is stored as infinity honestly, but in float32 only by a fault."""
    top, half = 2.0**128 - 2.0**120, 2.0**119
    assert round_to_bf16(np.array([top + half], dtype=np.float32))[0] == np.inf
    call = Operands.of(np.ones((1, 2)), np.array([[top, half]]), None, np.array([[np.inf]]))
    assert check_elements(call, bf16_arithmetic(bias=False)).verdict() is INAPPLICABLE
    assert check_elements(call, fp32_arithmetic(bias=False, flush=False)).verdict() is FLAG
    less = Operands.of(call.X / 2, call.W, None, call.Y)
    assert check_elements(less, bf16_arithmetic(bias=False)).verdict() is FLAG


def test_float64_sums_that_leave_float64_are_not_judged():
    """Where the check's own float64 pass overflows there is no answer, and no warning either."""
    X = np.full((2, 3), 1e155)
    W = np.full((2, 3), 1e154)
    arithmetic = fp64_arithmetic(bias=False, flush=False)
    for value in (*BAD, 1.0):
        assert check_linear(Operands.of(X, W, None, np.full((2, 2), value)), arithmetic).verdict() is INAPPLICABLE


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 2, 0), (0, 0, 0), (0, 3, 0)])
@pytest.mark.parametrize("block", [None, 1, 3])
def test_nothing_checked_is_not_a_pass(shape, block):
    """Without rows or without columns there is nothing to judge: INAPPLICABLE."""
    m, k, n = shape
    call = Operands.of(np.ones((m, k)), np.ones((n, k)), np.ones(n), np.ones((m, n)))
    for check in checks(call, ARITHMETICS["fp32"], block):
        assert check.verdict() is INAPPLICABLE
        assert check.flagged_rows.shape == (m,)
        assert not check.flagged_rows.any()
    assert check_elements(call, ARITHMETICS["fp32"]).verdict() is INAPPLICABLE


@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_sum_of_no_terms_is_its_bias(name):
    """With K = 0 the output must be the bias: it passes, and anything else is flagged."""
    b = np.array([1.0, -2.0, 0.0])
    X, W = np.ones((4, 0)), np.ones((3, 0))
    right = np.tile(b, (4, 1))
    for check in checks(Operands.of(X, W, b, right), ARITHMETICS[name], BLOCK):
        assert check.verdict() is PASS
    right[2, 1] += 0.5
    for check in checks(Operands.of(X, W, b, right), ARITHMETICS[name], BLOCK):
        assert np.flatnonzero(check.flagged_rows).tolist() == [2]
    none = Operands.of(X, W, None, np.full((4, 3), 1e-30))
    assert check_linear(none, ARITHMETICS[name]).verdict() is FLAG


def cells(letters):
    """Cells with the given answers."""
    letters = np.array([list(letters)], dtype="<U1").reshape(1, -1)
    zero = np.zeros(letters.shape)
    return Cells(residual=zero, bound=zero, flag=letters == "F", inapplicable=letters == "I")


@pytest.mark.parametrize(
    ("letters", "verdict"),
    [
        ("", INAPPLICABLE),
        ("P", PASS),
        ("PPP", PASS),
        ("PI", INAPPLICABLE),
        ("PF", FLAG),
        ("IF", FLAG),
        ("I", INAPPLICABLE),
    ],
)
def test_cells_answer_flag_before_inapplicable_before_pass(letters, verdict):
    """One flag decides; without one, a single cell that could not be judged prevents a pass."""
    assert cells(letters).verdict() is verdict


@pytest.mark.parametrize(
    ("rows", "columns", "verdict"),
    [
        ("P", "P", PASS),
        ("P", "I", INAPPLICABLE),
        ("I", "P", INAPPLICABLE),
        ("", "P", INAPPLICABLE),
        ("P", "F", FLAG),
        ("F", "P", FLAG),
        ("F", "I", FLAG),
        ("I", "F", FLAG),
        ("F", "", FLAG),
        ("", "", INAPPLICABLE),
    ],
)
def test_a_check_passes_only_when_rows_and_columns_do(rows, columns, verdict):
    """Two kinds of check make one answer: any flag, else all pass, else none."""
    check = LinearCheck(rows=cells(rows), columns=cells(columns), block=None, seed=None)
    assert check.verdict() is verdict
