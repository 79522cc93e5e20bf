"""Calibrated ensemble means against mpmath, and the intervals that must hold them."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.decisions import calibrated, ensemble_interval, ensemble_mean

probabilities = st.one_of(
    st.floats(min_value=0.0, max_value=1.0),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, 5e-324, 2.3e-308, 1.0 - 2.0**-53, 2.0**-53, 0.3047517499542361]),
)
temperatures = st.one_of(st.sampled_from([1.0, 1.0546289419746864, 0.5, 2.0, 0.01, 100.0]), st.floats(0.02, 50.0))


def exact(p: float, temperature: float) -> mpmath.mpf:
    """sigmoid(logit(p) / temperature) to 60 digits, as a quotient of powers instead."""
    with mpmath.workdps(400):  # 1 - 5e-324 must not be 1
        a = mpmath.mpf(p) ** (1 / mpmath.mpf(temperature))
        b = (1 - mpmath.mpf(p)) ** (1 / mpmath.mpf(temperature))
        return a / (a + b)


def table(m: int, n: int, elements=probabilities):
    """Member values [m, n]."""
    return st.lists(elements, min_size=m * n, max_size=m * n).map(lambda v: np.array(v).reshape(m, n))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_a_temperature_that_is_none_is_refused(temperature):
    """Zero, negative, NaN and infinite temperatures are refused."""
    with pytest.raises(InputError, match="temperature"):
        ensemble_mean([[0.5]], temperature)


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1, np.inf])
def test_what_is_no_probability_is_refused(bad):
    """A value outside [0, 1] has no logit, and NaN no calibration at any temperature."""
    with pytest.raises(InputError, match="no probabilities"):
        ensemble_mean([[0.5, bad]], 2.0)
    if np.isnan(bad):
        with pytest.raises(InputError, match="NaN"):
            ensemble_mean([[0.5, bad]], 1.0)


def test_shapes_that_are_none_are_refused():
    """Members must be [m, n] with m >= 1, and both ends of an interval alike and in order."""
    with pytest.raises(InputError, match="shape"):
        ensemble_mean([0.5], 1.0)
    with pytest.raises(InputError, match="shape"):
        ensemble_mean(np.zeros((0, 3)), 1.0)
    with pytest.raises(InputError, match="must be equal"):
        ensemble_interval([[0.1]], [[0.1, 0.2]], 1.0)
    with pytest.raises(InputError, match="lower above upper"):
        ensemble_interval([[0.2]], [[0.1]], 1.0)
    with pytest.raises(InputError, match="or NaN"):
        ensemble_interval([[np.nan]], [[0.1]], 1.0)


@given(st.lists(probabilities, min_size=1, max_size=20))
def test_temperature_one_passes_bits_through(values):
    """At temperature 1 a single member comes out bit for bit, signed zeros too."""
    p = np.array(values)
    assert ensemble_mean(p[None, :], 1.0).tobytes() == p.tobytes()


@given(temperatures)
def test_certainty_stays_certain(temperature):
    """0, 1 and 1/2 stay what they are at any temperature."""
    assert ensemble_mean([[0.0, 1.0, 0.5]], temperature).tolist() == [0.0, 1.0, 0.5]


@given(probabilities, temperatures)
def test_calibration_is_that_of_high_precision(p, temperature):
    """One member's calibrated value lies within half the allowed spread of the exact one."""
    got = float(calibrated([p], temperature)[0])
    want = exact(p, temperature)
    half = 8.0 * (4.0 + 800.0 / temperature) * 2.0**-52
    assert abs(mpmath.mpf(got) - want) <= half * want + 2.0**-1001


def test_half_the_spread_is_kept_on_a_dense_sample():
    """On 4,000 values from 1e-300 to 1 - 2^-53 the error stays far below what the spread allows."""
    rng = np.random.default_rng(5)
    p = np.concatenate(
        (10.0 ** -rng.uniform(0, 300, 2000), rng.uniform(0, 1, 1000), 1 - 10.0 ** -rng.uniform(0, 15, 1000))
    )
    t = 1.0546289419746864
    worst = 0.0
    with mpmath.workdps(330):
        for x, got in zip(p, calibrated(p, t), strict=True):
            a, b = mpmath.log(mpmath.mpf(x)), mpmath.log(1 - mpmath.mpf(x))
            want = 1 / (1 + mpmath.exp((b - a) / mpmath.mpf(t)))
            worst = max(worst, float(abs(mpmath.mpf(got) - want) / want))
    assert worst <= 8.0 * (4.0 + 800.0 / t) * 2.0**-52 / 4


@given(st.lists(probabilities, min_size=1, max_size=70), temperatures, st.integers(0, 7))
def test_an_entry_depends_on_nothing_but_itself(values, temperature, offset):
    """A value is calibrated to the same bits alone, within any array, and at any place in it."""
    p = np.array(values)
    within = calibrated(np.concatenate((np.full(offset, 0.7), p)), temperature)[offset:]
    alone = np.array([calibrated(p[i : i + 1], temperature)[0] for i in range(p.size)])
    assert within.tobytes() == alone.tobytes()
    assert calibrated(np.repeat(p, 3)[::3], temperature).tobytes() == alone.tobytes()


@given(table(3, 4), temperatures)
def test_the_mean_adds_members_in_order(members, temperature):
    """The mean is ((c0 + c1) + c2) / 3 with Python's own floats."""
    c = calibrated(members, temperature).tolist()
    want = [((c[0][j] + c[1][j]) + c[2][j]) / 3.0 for j in range(4)]
    assert ensemble_mean(members, temperature).tolist() == want


@given(table(2, 3), temperatures)
def test_a_fixed_candidate_has_a_point_interval(members, temperature):
    """Where all members are fixed both ends are the bits of the mean, whatever the neighbours are."""
    lower, upper = members.copy(), members.copy()
    lower[0, 1], upper[0, 1] = 0.0, 1.0
    low, high = ensemble_interval(lower, upper, temperature)
    mean = ensemble_mean(members, temperature)
    for j in (0, 2):
        assert low[j : j + 1].tobytes() == mean[j : j + 1].tobytes() == high[j : j + 1].tobytes()
    assert low[1] <= mean[1] <= high[1]


@given(table(2, 6), table(2, 6), st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12), temperatures)
def test_an_interval_holds_every_mean_inside(a, b, weights, temperature):
    """Values anywhere between the bounds have their mean between the interval's ends."""
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    inside = np.clip(lower + np.array(weights).reshape(2, 6) * (upper - lower), lower, upper)
    low, high = ensemble_interval(lower, upper, temperature)
    for members in (inside, lower, upper, np.nextafter(lower, upper), np.nextafter(upper, lower)):
        mean = ensemble_mean(np.clip(members, lower, upper), temperature)
        assert (low <= mean).all()
        assert (mean <= high).all()
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()


@given(probabilities, probabilities, temperatures)
def test_an_open_interval_holds_the_exact_calibrations(p, q, temperature):
    """Both ends are rounded outward past the exact values, so any machine's log and exp stay inside."""
    if p == q:
        return
    p, q = min(p, q), max(p, q)
    low, high = ensemble_interval([[p]], [[q]], temperature)
    assert mpmath.mpf(float(low[0])) <= exact(p, temperature)
    assert exact(q, temperature) <= mpmath.mpf(float(high[0]))


@pytest.mark.parametrize("temperature", [1.0, 1.0546289419746864, 0.3, 7.0])
def test_neighbouring_floats_stay_inside(temperature):
    """Between two bounds 40 floats apart every one of the 41 values in each member is held."""
    rng = np.random.default_rng(3)
    for start in np.concatenate((rng.uniform(0, 1, 60), [1e-12, 0.5, 1 - 1e-14])):
        steps = [start]
        for _ in range(40):
            steps.append(float(np.nextafter(steps[-1], 1.0)))
        low, high = ensemble_interval([[steps[0]], [0.2]], [[steps[-1]], [0.2]], temperature)
        means = ensemble_mean([steps, [0.2] * 41], temperature)
        assert low[0] <= means.min() <= means.max() <= high[0]


@given(probabilities, probabilities, temperatures)
def test_calibration_increases_in_p(p, q, temperature):
    """A larger probability is never calibrated below a smaller one by more than the spread."""
    p, q = min(p, q), max(p, q)
    low, high = calibrated([p, q], temperature)
    assert low <= high * (1 + 16.0 * (4.0 + 800.0 / temperature) * 2.0**-52)


def test_intervals_are_not_needlessly_wide():
    """Outward rounding costs less than 1e-11 at the paper's temperature, and nothing at temperature 1."""
    for temperature, allowed in [(1.0546289419746864, 1e-11), (1.0, 0.0)]:
        for a, b in itertools.combinations([0.1, 0.3, 0.8], 2):
            low, high = ensemble_interval([[a]], [[b]], temperature)
            assert 0 <= calibrated([a], temperature)[0] - low[0] <= allowed
            assert 0 <= high[0] - calibrated([b], temperature)[0] <= allowed


def test_a_calibration_too_sharp_to_bound_says_nothing():
    """At a temperature where rounding decides the result, an open candidate has the whole range."""
    low, high = ensemble_interval([[0.4]], [[0.6]], 1e-14)
    assert (low[0], high[0]) == (0.0, 1.0)
