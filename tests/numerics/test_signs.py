"""Random signs: a function of the seed that anybody can repeat."""

import hashlib

import numpy as np
import pytest

from veristate.numerics import draw_signs


def signs_by_hand(length, seed, draws):
    """The published rule: SHAKE-256 of "signs", a zero byte and seed; bits from the highest of each byte, draw after
    draw; 1 is minus.
    """
    width = (draws * length + 7) // 8 * 8
    stream = int.from_bytes(hashlib.shake_256(b"signs\0" + seed).digest(width // 8), "big")
    signs = [-1.0 if stream >> (width - 1 - i) & 1 else 1.0 for i in range(draws * length)]
    return [signs[draw * length : (draw + 1) * length] for draw in range(draws)]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 301])
@pytest.mark.parametrize("draws", [1, 2, 3, 16])
def test_signs_follow_the_published_rule(length, draws):
    """A recorded seed gives the same signs in a second implementation."""
    drawn = draw_signs(length, b"seed", draws)
    assert drawn.tolist() == signs_by_hand(length, b"seed", draws)
    assert (drawn.dtype, drawn.shape) == (np.float32, (draws, length))


def test_more_draws_begin_with_the_fewer():
    """A check with more draws holds the check with one."""
    assert np.array_equal(draw_signs(301, b"seed", 5)[:2], draw_signs(301, b"seed", 2))
    assert np.array_equal(draw_signs(301, b"seed", 5)[:1], draw_signs(301, b"seed"))


def test_signs_differ_between_seeds_and_draws():
    """Two draws of one seed, and those of two seeds, don't share their signs."""
    drawn = [draw for seed in (b"a", b"b") for draw in draw_signs(256, seed, 3)]
    for i, first in enumerate(drawn):
        for second in drawn[:i]:
            assert 64 < np.sum(first != second) < 192


def test_signs_are_balanced():
    """Over many draws half the signs are plus: within five standard deviations."""
    total = sum(draw_signs(1000, bytes([n])).sum() for n in range(100))
    assert abs(total) < 5 * 100_000**0.5
