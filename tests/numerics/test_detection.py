"""Faults above the bound are flagged where they are, and nowhere else."""

import numpy as np
import pytest

from veristate.core import Verdict
from veristate.numerics import Operands, bf16_arithmetic, check_elements, check_linear, draw_signs, fp32_arithmetic

from . import honest

M, K, N, BLOCK = 70, 16, 65, 32
ARITHMETICS = {"fp32": fp32_arithmetic(bias=True, flush=False), "bf16": bf16_arithmetic(bias=True)}
PLACES = [(0, 0), (31, 31), (31, 32), (32, 31), (32, 32), (63, 64), (64, 63), (69, 64), (40, 7), (0, 64)]


def healthy(name, shape=(M, K, N)):
    """An honest call of one format: X, W, b, Y."""
    narrowed = name == "bf16"
    X, W, b = honest.operands("normal", shape, 11, narrowed=narrowed)
    style = honest.BF16_STYLES["sequential"] if narrowed else honest.FP32_STYLES["sequential"]
    return X, W, b, style.compute(X, W, b, np.random.default_rng(0)).astype(np.float32)


def just_above(check, place, block):
    """1.01 times what is surely above the bounds of an element's cells: bound and residual, and u of the fault."""
    i, j = place
    row, columns = i, (slice(None), i // block if block else 0, j)
    row_need = check.rows.bound[row] + check.rows.residual[row]
    return 1.01 * max(row_need, *(check.columns.bound + check.columns.residual)[columns]) / (1 - 3 * 2.0**-8)


@pytest.mark.parametrize(("seed", "draws"), [(None, 1), (b"drawn", 1), (b"drawn", 2)])
@pytest.mark.parametrize("block", [BLOCK, None])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_one_error_just_above_the_bound_is_flagged_and_localised(checked, name, block, seed, draws):
    """At any position, borders and corners included, exactly the row and the column of a fault are flagged, and a guard
    tells the one element.
    """
    X, W, b, Y = healthy(name)
    how = {"block": block, "seed": seed, "draws": draws}
    clean = check_linear(Operands.of(X, W, b, Y), ARITHMETICS[name], **how)
    for place in PLACES:
        for sign in (1, -1):
            wrong = Y.copy()
            wrong[place] += sign * just_above(clean, place, block)
            check = checked(Operands.of(X, W, b, wrong), ARITHMETICS[name], **how)
            i, j = place
            assert np.flatnonzero(check.rows.flag).tolist() == [i]
            for drawn in check.columns.flag:
                assert np.argwhere(drawn).tolist() == [[i // block if block else 0, j]]
            assert check.verdict() is Verdict.FLAG
            assert check.worst > 1
            if checked is not check_linear:
                proven = check.elements.proven
                found = zip(check.elements.rows[proven], check.elements.columns[proven], strict=True)
                assert list(found) == [place]


@pytest.mark.parametrize("name", ARITHMETICS)
def test_one_error_just_above_its_own_bound_is_flagged_among_elements(name):
    """The element check flags exactly the one wrong element."""
    X, W, b, Y = healthy(name, (9, K, 8))
    clean = check_elements(Operands.of(X, W, b, Y), ARITHMETICS[name])
    for place in np.ndindex(Y.shape):
        wrong = Y.copy()
        wrong[place] += 1.01 * (clean.bound[place] + clean.residual[place]) / (1 - 3 * 2.0**-8)
        flag = check_elements(Operands.of(X, W, b, wrong), ARITHMETICS[name]).flag
        assert np.argwhere(flag).tolist() == [list(place)]


def test_blocks_see_what_whole_sums_are_blind_to(checked):
    """A fault of a third of the mean output is flagged in blocks of 32 of a 300-wide layer, not in its whole sums."""
    X, W, _ = honest.operands("normal", (300, 300, 300), 12, narrowed=True)
    Y = honest.bf16(X.astype(float) @ W.T.astype(float))
    i, j = 150, 151
    wrong = Y.copy()
    wrong[i, j] += 0.3 * np.abs(Y).mean()
    call = Operands.of(X, W, None, wrong)
    assert checked(call, bf16_arithmetic(bias=False), block=None, seed=b"s").verdict() is Verdict.PASS
    check = checked(call, bf16_arithmetic(bias=False), block=32, seed=b"s")
    assert np.argwhere(check.columns.flag).tolist() == [[0, i // 32, j]]
    assert not check.rows.flag.any()


def cancelling_pair(name, size):
    """A call with errors [[+e, -e], [-e, +e]], far above every bound, in two rows and two columns."""
    X, W, b, Y = healthy(name, (20, K, 24))
    for i, j, sign in ((3, 5, 1), (3, 17, -1), (12, 5, -1), (12, 17, 1)):
        Y[i, j] += sign * size
    return Operands.of(X, W, b, Y)


@pytest.mark.parametrize("name", ARITHMETICS)
def test_plain_sums_miss_errors_that_cancel_at_any_size(checked, name):
    """All-ones sums over whole rows and columns pass a pair of cancelling errors of a thousand times the output."""
    call = cancelling_pair(name, 1024.0)
    check = checked(call, ARITHMETICS[name], block=None)
    assert not check.rows.flag.any()
    assert not check.columns.flag.any()
    assert check.verdict() is Verdict.PASS
    assert check_elements(call, ARITHMETICS[name]).flag.sum() == 4


def assert_about(count, draws, share):
    """A count is within five standard deviations of its expectation."""
    assert abs(count - draws * share) < 5 * (draws * share * (1 - share)) ** 0.5


@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.parametrize("name", ARITHMETICS)
def test_random_signs_catch_cancelling_errors_unless_every_draw_gives_both_rows_one_sign(checked, name, draws):
    """Columns see the pair where two row signs differ: in half of the draws, in 1 - 2^-d with d draws. Rows, which have
    no signs, never see it.
    """
    call = cancelling_pair(name, 1024.0)
    seen = []
    for n in range(150):
        seed = b"draw %d" % n
        check = checked(call, ARITHMETICS[name], block=None, seed=seed, draws=draws)
        differ = [t[3] != t[12] for t in draw_signs(20, seed, draws)]
        assert [drawn.any() for drawn in check.columns.flag] == differ
        assert not check.rows.flag.any()
        assert (check.verdict() is Verdict.FLAG) == any(differ)
        seen.append(any(differ))
    assert_about(sum(seen), 150, 1 - 2.0**-draws)


def test_the_same_seed_repeats_the_check():
    """A recorded seed gives the same residuals, bounds and verdict again, another seed other residuals of columns."""
    call = cancelling_pair("fp32", 1.0)
    first, again, other = (
        check_linear(call, ARITHMETICS["fp32"], block=7, seed=s, draws=2) for s in (b"a", b"a", b"b")
    )
    for ours, theirs in ((first.rows, again.rows), (first.columns, again.columns)):
        assert np.array_equal(ours.residual, theirs.residual)
        assert np.array_equal(ours.bound, theirs.bound)
        assert np.array_equal(ours.flag, theirs.flag)
    assert not np.array_equal(first.columns.residual, other.columns.residual)
    assert np.array_equal(first.columns.bound, other.columns.bound)
    assert np.array_equal(first.rows.residual, other.rows.residual)


@pytest.mark.parametrize("bit", [22, 23, 27, 30, 31])
def test_a_flipped_bit_above_the_bound_is_flagged(checked, bit):
    """Flips of the high mantissa, exponent and sign bits of a float32 output are flagged in blocks."""
    X, W, b, Y = healthy("fp32")
    place = np.unravel_index(np.argsort(np.abs(Y), axis=None)[-5], Y.shape)
    Y.view(np.uint32)[place] ^= np.uint32(1 << bit)
    check = checked(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], block=BLOCK, seed=b"s")
    assert np.argwhere(check.rows.flag).tolist() == [[place[0]]]
    assert np.argwhere(check.columns.flag).tolist() == [[0, place[0] // BLOCK, place[1]]]


def test_a_wrong_weight_is_flagged_in_its_column_of_every_block(checked):
    """A layer that multiplied by another weight is flagged in that column alone."""
    X, W, b, _ = healthy("fp32")
    used = W.copy()
    used[9, 3] += 0.01
    Y = honest.FP32_STYLES["lanes"].compute(X, used, b, np.random.default_rng(0)).astype(np.float32)
    check = checked(Operands.of(X, W, b, Y), ARITHMETICS["fp32"], block=BLOCK, seed=b"s")
    assert np.argwhere(check.columns.flag).tolist() == [[0, block, 9] for block in range(3)]
