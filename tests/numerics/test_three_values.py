"""NaN and infinity: a fault where finite operands can't give them, no judgement where they can, never a pass."""

import numpy as np
import pytest

from veristate.core import Verdict
from veristate.numerics import (
    Cells,
    Elements,
    LinearCheck,
    Operands,
    bf16_arithmetic,
    check_elements,
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


def checks(checked, call, arithmetic, block):
    """The row and column checks plain and with signs."""
    yield checked(call, arithmetic, block=block)
    yield checked(call, arithmetic, block=block, seed=b"drawn", draws=2)


def answers(cells):
    """One letter a cell: P, F or I."""
    return np.where(cells.flag, "F", np.where(cells.inapplicable, "I", "P"))


def expected(shape, marks, letter):
    """All P but for the marked cells."""
    result = np.full(shape, "P")
    for mark in marks:
        result[mark] = letter
    return result


def assert_answers(check, rows, columns, letter):
    """All cells pass but for the marked rows and, under every draw, the marked (block, column)."""
    assert np.array_equal(answers(check.rows), expected(check.rows.flag.shape, rows, letter))
    for drawn in answers(check.columns):
        assert np.array_equal(drawn, expected(drawn.shape, columns, letter))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("block", [None, 1, BLOCK, 50])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_nan_or_infinity_from_finite_operands_is_a_fault(checked, name, block, value):
    """Where products can't overflow a non-finite output is flagged in its cells, and every other cell is judged."""
    X, W, b, Y = healthy(name)
    Y[6, 5] = value
    call = Operands.of(X, W, b, Y)
    for check in checks(checked, call, ARITHMETICS[name], block):
        assert_answers(check, [6], [(6 // (block or 100), 5)], "F")
        assert check.verdict() is FLAG
        assert check.worst == np.inf
    assert np.array_equal(answers(check_elements(call, ARITHMETICS[name])), expected((M, N), [(6, 5)], "F"))


def test_opposite_infinities_in_one_sum_are_a_fault(checked):
    """Infinities that meet as NaN inside a checksum are flagged like one alone."""
    X, W, b, Y = healthy("fp32")
    Y[2, 1], Y[2, 2], Y[3, 1] = np.inf, -np.inf, -np.inf
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS["fp32"], BLOCK):
        assert_answers(check, [2, 3], [(0, 1), (0, 2)], "F")


@pytest.mark.parametrize("value", BAD)
def test_outputs_that_are_all_not_finite_are_a_fault_everywhere(checked, value):
    """A layer that returned nothing but NaN or infinity is flagged in every cell."""
    X, W, b, Y = healthy("fp32")
    for check in checks(checked, Operands.of(X, W, b, np.full_like(Y, value)), ARITHMETICS["fp32"], BLOCK):
        assert check.rows.flag.all()
        assert check.columns.flag.all()
        assert not check.rows.inapplicable.any()
        assert not check.columns.inapplicable.any()


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_bad_input_row_is_not_judged_and_leaves_the_others_alone(checked, name, value):
    """NaN or infinity in one row of X: that row and its block's columns have no answer, all else passes."""
    X, W, b, Y = healthy(name)
    X[6, 1] = value
    for output in (np.nan, np.inf, 0.5):
        Y[6] = output
        call = Operands.of(X, W, b, Y)
        for check in checks(checked, call, ARITHMETICS[name], BLOCK):
            assert_answers(check, [6], [1], "I")
            assert check.verdict() is INAPPLICABLE
        assert np.array_equal(answers(check_elements(call, ARITHMETICS[name])), expected((M, N), [6], "I"))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("where", ["W", "b"])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_bad_weight_or_bias_is_not_judged_in_its_column(checked, name, where, value):
    """NaN or infinity in a row of W or in b: that column, and every row's sum, have no answer, all else passes."""
    X, W, b, Y = healthy(name)
    (W[5] if where == "W" else b[5:6])[:1] = value
    for output in (np.nan, -np.inf, 0.5):
        Y[:, 5] = output
        call = Operands.of(X, W, b, Y)
        for check in checks(checked, call, ARITHMETICS[name], BLOCK):
            assert_answers(check, [slice(None)], [(slice(None), 5)], "I")
            assert check.verdict() is INAPPLICABLE
        elements = answers(check_elements(call, ARITHMETICS[name]))
        assert np.array_equal(elements, expected((M, N), [(slice(None), 5)], "I"))


def test_a_fault_beside_a_bad_operand_is_still_a_fault(checked):
    """A NaN that finite operands can't give is flagged, though its row and its block hold what has no answer."""
    X, W, b, Y = healthy("fp32")
    X[4, 0], Y[4], Y[6, 5] = np.nan, np.nan, np.nan
    W[3, 2], Y[:, 3] = np.inf, np.inf
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS["fp32"], BLOCK):
        assert answers(check.rows).tolist() == ["I"] * 6 + ["F"] + ["I"] * 3
        for drawn in answers(check.columns):
            assert drawn[1].tolist() == ["F" if j == 5 else "I" for j in range(N)]
            assert np.array_equal(drawn[::2], expected((2, N), [(slice(None), 3)], "I"))
        assert check.verdict() is FLAG


@pytest.mark.parametrize("finite", [1e30, -3.0])
def test_a_finite_output_of_a_bad_row_is_not_a_pass(checked, finite):
    """An output that looks healthy although its operands are not finite has no answer."""
    X, W, b, Y = healthy("fp32")
    X[6, 1], Y[6] = np.inf, finite
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS["fp32"], BLOCK):
        assert_answers(check, [6], [1], "I")


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ARITHMETICS)
def test_overflow_that_healthy_arithmetic_could_give_is_not_judged(checked, name, value):
    """Operands of 3e38 with alternating signs may pass infinity on the way, though their sum is small."""
    X, W, b, _ = healthy(name)
    W[:, :4] = 1
    calm = X * (np.arange(M) != 6)[:, None]
    Y = honest.FP32_STYLES["random"].compute(calm, W, b, np.random.default_rng(0)).astype(np.float32)
    Y = honest.bf16(Y) if name == "bf16" else Y
    X[6, :4] = honest.bf16([3e38, -3e38, 3e38, -3e38])
    Y[6] = value
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS[name], BLOCK):
        assert_answers(check, [6], [1], "I")
        assert check.verdict() is INAPPLICABLE
    Y[7, 2] = value
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS[name], BLOCK):
        assert np.flatnonzero(check.rows.flag).tolist() == [7]
        assert np.argwhere(check.columns.flag)[:, 1:].tolist() == [[1, 2]] * len(check.columns.flag)


@pytest.mark.parametrize("name", ARITHMETICS)
def test_finite_outputs_of_overflowing_rows_are_judged(checked, name):
    """Where float32 sums of the operands would overflow, a right output passes and one wrong by 1e35 is flagged."""
    X = np.full((M, 8), 2.0**127, dtype=np.float32)
    W = np.tile(np.array([1, -1], dtype=np.float32), (N, 4))
    Y = np.zeros((M, N), dtype=np.float32)
    for check in checks(checked, Operands.of(X, W, np.zeros(N, dtype=np.float32), Y), ARITHMETICS[name], BLOCK):
        assert check.verdict() is PASS
    Y[6, 5] = 1e35
    for check in checks(checked, Operands.of(X, W, np.zeros(N, dtype=np.float32), Y), ARITHMETICS[name], BLOCK):
        assert_answers(check, [6], [(1, 5)], "F")


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
    less = Operands.of(call.X / 2, call.weights, None, call.Y)
    assert check_elements(less, bf16_arithmetic(bias=False)).verdict() is FLAG


def test_float64_sums_that_leave_float64_are_not_judged(checked):
    """Where the check's own float64 pass overflows there is no answer, and no warning either."""
    X = np.full((2, 3), 1e155)
    W = np.full((2, 3), 1e154)
    arithmetic = fp64_arithmetic(bias=False, flush=False)
    for value in (*BAD, 1.0):
        assert checked(Operands.of(X, W, None, np.full((2, 2), value)), arithmetic).verdict() is INAPPLICABLE


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 2, 0), (0, 0, 0), (0, 3, 0)])
@pytest.mark.parametrize("block", [None, 1, 3])
def test_nothing_checked_is_not_a_pass(checked, shape, block):
    """Without rows or without columns there is nothing to judge: INAPPLICABLE."""
    m, k, n = shape
    call = Operands.of(*(np.ones(size, dtype=np.float32) for size in ((m, k), (n, k), n, (m, n))))
    for check in checks(checked, call, ARITHMETICS["fp32"], block):
        assert check.verdict() is INAPPLICABLE
        assert check.rows.flag.shape == (m,)
        assert check.columns.flag.shape[1:] == (-(-m // (block or max(m, 1))), n)
        assert not check.rows.flag.any()
        assert not len(check.elements.rows)
    assert check_elements(call, ARITHMETICS["fp32"]).verdict() is INAPPLICABLE


@pytest.mark.parametrize("name", ARITHMETICS)
def test_a_sum_of_no_terms_is_its_bias(checked, name):
    """With K = 0 the output must be the bias: it passes, and anything else is flagged."""
    b = np.array([1.0, -2.0, 0.0], dtype=np.float32)
    X, W = np.ones((4, 0), dtype=np.float32), np.ones((3, 0), dtype=np.float32)
    right = np.tile(b, (4, 1))
    for check in checks(checked, Operands.of(X, W, b, right), ARITHMETICS[name], BLOCK):
        assert check.verdict() is PASS
    right[2, 1] += 0.5
    for check in checks(checked, Operands.of(X, W, b, right), ARITHMETICS[name], BLOCK):
        assert_answers(check, [2], [(0, 1)], "F")
    none = Operands.of(X, W, None, np.full((4, 3), 1e-30, dtype=np.float32))
    assert checked(none, ARITHMETICS[name]).verdict() is FLAG


@pytest.mark.parametrize("shape", [(1, 6, 9), (1, 1, 1), (10, 1, 9), (10, 6, 1)])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_one_row_one_column_or_one_term_is_judged(checked, name, shape):
    """The smallest calls pass when honest, and are flagged where they are wrong."""
    X, W, b = honest.operands("normal", shape, 22, narrowed=name == "bf16")
    style = honest.BF16_STYLES["fused bias"] if name == "bf16" else honest.FP32_STYLES["sequential"]
    Y = style.compute(X, W, b, np.random.default_rng(0)).astype(np.float32)
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS[name], BLOCK):
        assert check.verdict() is PASS
    Y[-1, -1] += 8
    for check in checks(checked, Operands.of(X, W, b, Y), ARITHMETICS[name], BLOCK):
        assert_answers(check, [-1], [(-1, -1)], "F")


def cells(letters):
    """Cells with the given answers."""
    letters = np.array(list(letters), dtype="<U1")
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
    check = LinearCheck(rows=cells(rows), columns=cells(columns), worst=0.0, block=1, seed=None)
    assert check.verdict() is verdict


@pytest.mark.parametrize("letters", ["P", "I", "F", ""])
def test_an_element_above_its_bound_is_a_fault_and_one_above_the_screen_is_none(letters):
    """A proven element makes the answer FLAG whatever the sums say; an unresolved one leaves it as it was."""
    place, number = np.zeros(1, dtype=np.intp), np.ones(1)
    for proven in (True, False):
        elements = Elements(
            rows=place, columns=place, residual=number, bound=number, proven=np.array([proven]), examined=1, loudest=0.0
        )
        sums = {"rows": cells(letters), "columns": cells(letters), "worst": 0.0, "block": 1, "seed": None}
        assert LinearCheck(**sums, elements=elements).verdict() is (FLAG if proven else LinearCheck(**sums).verdict())
