"""Columns that the flagged rows don't explain: a fault too thin for any row is not lost."""

import numpy as np
import pytest

from veristate.numerics import Operands, check_linear, draw_signs, fp32_arithmetic, unexplained_columns

from . import honest

M, K, N, BLOCK = 70, 8, 40, 32
ARITHMETIC = fp32_arithmetic(bias=True, flush=False)


def healthy():
    """An honest call: X, W, b, Y."""
    X, W, b = honest.operands("normal", (M, K, N), 31, narrowed=False)
    return X, W, b, honest.FP32_STYLES["lanes"].compute(X, W, b, np.random.default_rng(0)).astype(np.float32)


def judged(checked, Y, block, seed, explained=None, draws=1):
    """The check of the healthy operands with outputs Y, and the columns that its flagged rows leave unexplained."""
    X, W, b, _ = healthy()
    call = Operands.of(X, W, b, Y)
    check = checked(call, ARITHMETIC, block=block, seed=seed, draws=draws)
    return check, unexplained_columns(call, ARITHMETIC, check, check.rows.flag if explained is None else explained)


def thin_fault(Y, rows, column, seed):
    """Y with a column fault spread evenly, aligned with the first draw of signs, below every row's bound."""
    X, W, b, _ = healthy()
    clean = check_linear(Operands.of(X, W, b, Y), ARITHMETIC, block=BLOCK, seed=seed)
    signs = np.ones(M) if seed is None else draw_signs(M, seed)[0]
    wrong = Y.copy()
    wrong[rows, column] += 0.5 * clean.rows.bound[rows] * signs[rows]
    return wrong


@pytest.mark.parametrize(("seed", "draws"), [(None, 1), (b"drawn", 1), (b"drawn", 3)])
def test_a_fault_too_thin_for_any_row_is_left_unexplained_in_its_block(checked, seed, draws):
    """A column fault below every row's bound flags no row, and its column is reported, in its block of rows only."""
    *_, Y = healthy()
    wrong = thin_fault(Y, slice(32, 64), 7, seed)
    check, left = judged(checked, wrong, BLOCK, seed, draws=draws)
    assert not check.rows.flag.any()
    assert np.argwhere(check.columns.flag[0]).tolist() == [[1, 7]]
    assert np.argwhere(check.columns.flag.any(axis=0)).tolist() == [[1, 7]]
    assert np.argwhere(left).tolist() == [[1, 7]]


@pytest.mark.parametrize(("seed", "draws"), [(None, 1), (b"drawn", 1), (b"drawn", 3)])
@pytest.mark.parametrize("block", [None, BLOCK])
def test_columns_that_flagged_rows_explain_are_not_reported(checked, block, seed, draws):
    """Large errors in two rows flag rows and columns; without those rows no column is left."""
    *_, Y = healthy()
    Y[3, 5], Y[50, 5], Y[50, 39] = Y[3, 5] + 10, Y[50, 5] - 7, np.nan
    check, left = judged(checked, Y, block, seed, draws=draws)
    assert np.flatnonzero(check.rows.flag).tolist() == [3, 50]
    for drawn in check.columns.flag:
        assert set(np.argwhere(drawn)[:, 1].tolist()) == {5, 39}
    assert left.shape == (3 if block else 1, N)
    assert not left.any()


@pytest.mark.parametrize("seed", [None, b"drawn"])
def test_a_thin_fault_beside_a_flagged_row_is_still_reported(checked, seed):
    """After a loud row is taken out, the quiet column fault of another block, and of the same block, remains."""
    *_, Y = healthy()
    wrong = thin_fault(thin_fault(Y, slice(0, 32), 9, seed), slice(64, 70), 9, seed)
    wrong[40, 9] += 100
    check, left = judged(checked, wrong, BLOCK, seed)
    assert np.flatnonzero(check.rows.flag).tolist() == [40]
    assert check.columns.flag[0, 1, 9]
    assert not left[1].any()
    assert left[0, 9]
    wrong = thin_fault(Y, slice(32, 64), 9, seed)
    wrong[40, 9] += 100
    assert np.argwhere(judged(checked, wrong, BLOCK, seed)[1]).tolist() == [[1, 9]]


def test_a_fault_that_one_draw_alone_shows_is_reported(checked):
    """Errors that cancel under the first signs and not under the second are reported when two draws are made."""
    *_, Y = healthy()
    first, second = draw_signs(M, b"drawn", 2)
    same = np.flatnonzero((first[:32] == first[0]) & (second[:32] != second[0]))[0]
    Y[0, 7] += 2.0**10
    Y[same, 7] -= 2.0**10
    X, W, b, _ = healthy()
    call = Operands.of(X, W, b, Y)
    check = checked(call, ARITHMETIC, block=BLOCK, seed=b"drawn", draws=2)
    assert np.argwhere(check.columns.flag).tolist() == [[1, 0, 7]]
    assert np.argwhere(unexplained_columns(call, ARITHMETIC, check, np.zeros(M, dtype=bool))).tolist() == [[0, 7]]
    assert np.argwhere(unexplained_columns(call, ARITHMETIC, check, np.arange(M) == 0)).tolist() == [[0, 7]]
    assert not unexplained_columns(call, ARITHMETIC, check, np.isin(np.arange(M), (0, same))).any()


def test_rows_that_are_not_explained_keep_their_columns(checked):
    """Explaining another row leaves a column reported; explaining all rows leaves nothing to report."""
    *_, Y = healthy()
    Y[3, 5] += 10
    others = np.arange(M) != 3
    assert np.argwhere(judged(checked, Y, BLOCK, b"s", others)[1]).tolist() == [[0, 5]]
    assert not judged(checked, Y, BLOCK, b"s", np.ones(M, dtype=bool))[1].any()
    assert np.argwhere(judged(checked, Y, BLOCK, b"s", np.zeros(M, dtype=bool))[1]).tolist() == [[0, 5]]


def test_a_nan_that_no_explained_row_holds_is_reported(checked):
    """A NaN output stays reported until its own row is explained."""
    *_, Y = healthy()
    Y[69, 20] = np.nan
    assert np.argwhere(judged(checked, Y, BLOCK, None, np.arange(M) == 68)[1]).tolist() == [[2, 20]]
    assert not judged(checked, Y, BLOCK, None, np.arange(M) == 69)[1].any()


def test_a_flagged_cell_that_can_no_longer_be_judged_is_reported_and_an_unflagged_one_is_not(checked):
    """What cannot be cleared stays: a flagged column whose other rows have no answer; a column without a flag never."""
    X, W, b, Y = healthy()
    wrong = thin_fault(Y, slice(32, 64), 7, b"s")
    X[4], wrong[4], wrong[6, 5] = np.nan, np.nan, np.nan
    call = Operands.of(X, W, b, wrong)
    check = checked(call, ARITHMETIC, block=BLOCK, seed=b"s")
    assert np.argwhere(check.columns.flag).tolist() == [[0, 0, 5], [0, 1, 7]]
    left = unexplained_columns(call, ARITHMETIC, check, np.arange(M) == 6)
    assert np.argwhere(left).tolist() == [[0, 5], [1, 7]]
    assert np.argwhere(unexplained_columns(call, ARITHMETIC, check, np.isin(np.arange(M), (4, 6)))).tolist() == [[1, 7]]


def test_flushed_rows_beside_a_flagged_one_explain_their_column(checked):
    """Honest flushing that remains after the flagged row is taken out is within the bound of what remains."""
    X, W, _ = honest.operands("flushed times large", (M, K, N), 32, narrowed=False)
    Y = honest.FP32_STYLES["flushed"].compute(X, W, None, np.random.default_rng(0)).astype(np.float32)
    Y[3, 5] = 1.0
    call, arithmetic = Operands.of(X, W, None, Y), fp32_arithmetic(bias=False, flush=True)
    check = checked(call, arithmetic, block=BLOCK)
    assert np.argwhere(check.columns.flag).tolist() == [[0, 0, 5]]
    assert np.flatnonzero(check.rows.flag).tolist() == [3]
    assert not unexplained_columns(call, arithmetic, check, check.rows.flag).any()


def test_a_healthy_call_has_no_unexplained_column(checked):
    """Without a flagged column nothing is reported, for empty calls too."""
    *_, Y = healthy()
    assert not judged(checked, Y, BLOCK, b"s")[1].any()
    empty = Operands.of(*(np.ones(size, dtype=np.float32) for size in ((0, 2), (3, 2))), None, np.ones((0, 3)))
    arithmetic = fp32_arithmetic(bias=False, flush=False)
    check = checked(empty, arithmetic, block=4)
    assert unexplained_columns(empty, arithmetic, check, np.zeros(0, dtype=bool)).shape == (0, 3)
