"""Random signs: a function of the seed that anybody can repeat."""

import hashlib

import numpy as np
import pytest

from veristate.numerics import draw_signs


def signs_by_hand(length, seed, side):
    """The published rule: SHAKE-256 of side, a zero byte and seed; bits from the highest of each byte; 1 is plus."""
    stream = int.from_bytes(hashlib.shake_256(side.encode() + b"\0" + seed).digest((length + 7) // 8), "big")
    width = (length + 7) // 8 * 8
    return [1.0 if stream >> (width - 1 - i) & 1 else -1.0 for i in range(length)]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 301])
@pytest.mark.parametrize("side", ["row", "column"])
def test_signs_follow_the_published_rule(length, side):
    """A recorded seed gives the same signs in a second implementation."""
    assert draw_signs(length, b"seed", side).tolist() == signs_by_hand(length, b"seed", side)


def test_signs_differ_between_seeds_and_sides():
    """Rows and columns of one call, and two draws, don't share their signs."""
    drawn = [draw_signs(256, seed, side) for seed in (b"a", b"b") for side in ("row", "column")]
    for i, first in enumerate(drawn):
        for second in drawn[:i]:
            assert 64 < np.sum(first != second) < 192


def test_signs_are_balanced():
    """Over many draws half the signs are plus: within five standard deviations."""
    total = sum(draw_signs(1000, bytes([n]), "row").sum() for n in range(100))
    assert abs(total) < 5 * 100_000**0.5
