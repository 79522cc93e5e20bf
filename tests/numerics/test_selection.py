"""Ends rounded outward against fractions, and the largest values against a sort."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.numerics import Largest, floor_estimate, outward

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TINY = 2.0**-1074
MAX = float(np.finfo(np.float64).max)


def ends(score: float, radius: float, dtype=np.float64) -> tuple[float, float]:
    """The outward ends of one interval."""
    lower, upper = np.empty(1), np.empty(1)
    assert outward(np.array([score], dtype=dtype), np.array([radius], dtype=dtype), lower, upper) == 1
    return float(lower[0]), float(upper[0])


def exact(x: float) -> Fraction | float:
    """The number as a fraction, infinities as they are."""
    return Fraction(x) if math.isfinite(x) else x


def assert_outward(end: float, true: Fraction, direction: float):
    """The end is on the outer side of the true value, and the next float towards it isn't."""
    inner = math.nextafter(end, -direction * math.inf)
    assert exact(end) <= true < exact(inner) if direction < 0 else exact(inner) < true <= exact(end)


@given(*(st.one_of(FINITE, st.floats(-(2.0**-1015), 2.0**-1015)).map(kind) for kind in (float, abs)))
@settings(max_examples=500, deadline=None)
@example(1.0, 2.0**-60)
@example(-1.0, 2.0**-60)
@example(MAX, MAX)
@example(-MAX, TINY)
@example(MAX, 2.0**969)
@example(float.fromhex("0x1.baaad6426776ap-1021"), TINY)
@example(float.fromhex("-0x1.baaad6426776ap-1021"), TINY)
@example(float.fromhex("0x1.c541012662702p-1021"), 9 * TINY)
@example(1.0, 1.0)
def test_ends_are_the_floats_next_to_the_exact_sums(score, radius):
    """The sums score -+ radius, in exact fractions, lie inside, and no float lies between."""
    lower, upper = ends(score, radius)
    assert_outward(lower, Fraction(score) - Fraction(radius), -1.0)
    assert_outward(upper, Fraction(score) + Fraction(radius), +1.0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(width=32, min_value=0.0, max_value=1.0))
@settings(max_examples=200, deadline=None)
def test_float32_is_converted_exactly(score, radius):
    """A float32 score and radius give the ends of the same numbers as float64."""
    assert ends(score, radius, np.float32) == ends(score, radius)


@given(FINITE, st.integers(-(2**50), 2**50), st.integers(0, 2**50))
@settings(max_examples=300, deadline=None)
def test_exact_sums_stay_as_they_are(score, a, b):
    """A radius of zero, and integers that need no rounding, move no end outward."""
    assert ends(score, 0.0) == (score, score)
    assert ends(float(a), float(b)) == (float(a - b), float(a + b))


def test_an_infinite_radius_knows_nothing():
    """Its ends are the infinities, and so are those of sums beyond the largest float."""
    assert ends(1.0, math.inf) == (-math.inf, math.inf)
    assert ends(-MAX, MAX) == (-math.inf, 0.0)


@pytest.mark.parametrize(
    ("score", "radius"),
    [(math.nan, 0.0), (math.inf, 0.0), (-math.inf, 0.0), (0.0, -TINY), (0.0, math.nan), (0.0, -math.inf)],
)
@pytest.mark.parametrize("place", [0, 63, 1000])
def test_what_is_no_score_or_no_radius_is_found(score, radius, place):
    """The first position with a score that is not finite or a radius that is no number >= 0 is returned."""
    scores, radii = np.zeros(1001), np.zeros(1001)
    scores[[place, -1]], radii[[place, -1]] = score, radius
    assert outward(scores, radii, np.empty(1001), np.empty(1001)) == place


@given(
    st.lists(st.sampled_from([-1.0, -0.0, 0.0, 1.0, 2.5, -math.inf, math.inf, TINY]), min_size=1, max_size=400),
    st.integers(1, 400),
    st.integers(1, 150),
    st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=300, deadline=None)
def test_the_largest_are_those_of_a_stable_sort(values, count, size, dtype):
    """In stretches of any size: the first `count` of a stable descending sort, by ascending position."""
    array = np.array(values, dtype=dtype)
    found = Largest(count, dtype)
    for start in range(0, len(array), size):
        found.add(array[start : start + size], start)
    wanted = sorted(range(len(array)), key=lambda i: (-array[i], i))[:count]
    kept, places = found.best()
    assert places.tolist() == sorted(wanted)
    assert np.array_equal(kept, array[places])
    assert found.complete == (count <= len(array))


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal", "two values"])
@pytest.mark.parametrize("count", [1, 700, 30_000])
def test_many_values_in_any_order(order, count):
    """Over half a million values, with the room filled many times: what a stable sort says."""
    rng = np.random.default_rng(count)
    values = rng.standard_normal(600_001).astype(np.float32)
    if order in ("ascending", "descending"):
        values = np.sort(values)[:: 1 if order == "ascending" else -1].copy()
    elif order != "random":
        values = np.zeros_like(values) if order == "equal" else (values > 0).astype(np.float32)
    found = Largest(count, np.float32)
    found.add(values[:400_000], 0)
    found.add(values[400_000:], 400_000)
    assert np.array_equal(found.best()[1], np.sort(np.argsort(-values, kind="stable")[:count]))


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 5, 127, 128, 262_143, 262_144, 300_000])
def test_what_is_not_finite_is_refused_by_its_position(bad, place):
    """NaN of either sign and infinities are found wherever they stand, also where every value is passed over."""
    values = np.zeros(300_001, dtype=np.float32)
    values[place] = bad
    for floor in (math.nan, 7.0):
        with pytest.raises(InputError, match=f"position {place + 1000} is"):
            Largest(3, np.float32, floor=floor, limit=float(np.finfo(np.float32).max)).add(values, 1000)


def test_a_floor_that_was_guessed_too_high_shows():
    """With a floor above the wanted values too few are found, and the outcome says so."""
    found = Largest(3, np.float64, floor=7.0)
    found.add(np.arange(10.0), 0)
    assert not found.complete
    assert found.best()[1].tolist() == [8, 9]


def test_a_guess_is_low_enough_for_random_and_for_sorted_values():
    """More than `count` values exceed the guess, and at most a twentieth of all do; equal values exceed it too."""
    values = np.random.default_rng(5).standard_normal(1 << 20).astype(np.float32)
    for array in (values, np.sort(values), np.sort(values)[::-1]):
        starts = [(2 * i + 1) * len(array) // 128 for i in range(64)]
        guess = floor_estimate(np.stack([array[start : start + 64] for start in starts]), 1000, len(array))
        assert 1000 < int((array > guess).sum()) < len(array) // 20
    assert floor_estimate(np.ones((64, 64)), 10, 10_000) < 1.0


def test_no_guess_is_made_where_the_sample_is_too_small():
    """NaN, which keeps everything, when nearly all values are wanted, and when the sample holds NaN."""
    assert math.isnan(floor_estimate(np.zeros((64, 2)), 90, 100))
    assert math.isnan(floor_estimate(np.full((64, 20), np.nan), 1, 10_000))
