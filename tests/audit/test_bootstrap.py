"""The bootstraps against slow loops over the same draws, and against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.audit.statistics import (
    RESAMPLES,
    Combinations,
    balanced,
    capture_bootstrap,
    capture_means,
    crossed_bootstrap,
    factorial_effects,
    factorial_intervals,
    percentile_interval,
)
from veristate.core import InputError


def table_of(means, present=None) -> Combinations:
    """Combinations with these means; `present` marks the ones there are."""
    values = np.asarray(means, dtype=np.float64)
    repeats = np.ones(values.shape, dtype=np.int64) if present is None else np.asarray(present, dtype=np.int64)
    return Combinations(
        captures=tuple(f"c{i}" for i in range(values.shape[0])),
        tasks=tuple(f"t{j}" for j in range(values.shape[1])),
        means=np.where(repeats > 0, values, 0.0),
        repeats=repeats,
    )


NOTHING = Combinations(captures=(), tasks=(), means=np.zeros((0, 0)), repeats=np.zeros((0, 0), dtype=np.int64))


@st.composite
def combination_tables(draw):
    """Up to four captures by four tasks, with gaps, but no empty capture or task."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    present = rng.random((rows, columns)) < 0.6
    present[np.arange(rows), rng.integers(columns, size=rows)] = True
    present[rng.integers(rows, size=columns), np.arange(columns)] = True
    return table_of(rng.integers(-3, 4, size=(rows, columns)) / 3, present)


def loop_over_captures(table, seed, resamples):
    """One estimate for each resample: the mean of the drawn captures' means."""
    draws = np.random.default_rng(seed).integers(len(table.captures), size=(resamples, len(table.captures)))
    estimates = []
    for drawn in draws.tolist():
        means = []
        for capture in drawn:
            found = [table.means[capture, t] for t in range(len(table.tasks)) if table.repeats[capture, t]]
            means.append(math.fsum(found) / len(found))
        estimates.append(math.fsum(means) / len(means))
    return estimates


def loop_over_both(table, seed, resamples):
    """One estimate for each resample that draws a combination: tasks within a drawn capture, then drawn captures."""
    rng = np.random.default_rng(seed)
    captures = rng.integers(len(table.captures), size=(resamples, len(table.captures)))
    tasks = rng.integers(len(table.tasks), size=(resamples, len(table.tasks)))
    estimates = []
    for drawn_captures, drawn_tasks in zip(captures.tolist(), tasks.tolist(), strict=True):
        means = []
        for capture in drawn_captures:
            found = [table.means[capture, t] for t in drawn_tasks if table.repeats[capture, t]]
            if found:
                means.append(math.fsum(found) / len(found))
        if means:
            estimates.append(math.fsum(means) / len(means))
    return estimates


@pytest.mark.parametrize("bootstrap", [capture_bootstrap, crossed_bootstrap])
def test_no_capture_gives_no_interval(bootstrap):
    """An empty subset has no interval, not one around zero."""
    assert bootstrap(NOTHING, seed=1) is None


@pytest.mark.parametrize("bootstrap", [capture_bootstrap, crossed_bootstrap])
@pytest.mark.parametrize(("resamples", "level"), [(0, 0.95), (10, 0.0), (10, 95.0)])
def test_resamples_and_levels_that_give_no_interval_are_refused(bootstrap, resamples, level):
    """At least one resample, and a level between 0 and 1."""
    with pytest.raises(InputError, match="give at least one"):
        bootstrap(table_of([[1.0]]), seed=1, resamples=resamples, level=level)


def test_resamples_that_draw_no_combination_are_counted_as_undefined():
    """Two captures with one task each: drawing only the other's task leaves nothing to estimate."""
    table = table_of([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]])
    found = crossed_bootstrap(table, seed=5, resamples=400)
    assert found.undefined == 400 - len(loop_over_both(table, 5, 400)) > 0
    assert (found.resamples, found.lower, found.upper) == (400, 1.0, 1.0)


def test_percentiles_of_nothing_are_none():
    """No estimate, no interval."""
    assert percentile_interval(np.zeros(0)) is None


@settings(deadline=None, max_examples=40)
@given(table=combination_tables(), seed=st.integers(0, 2**32 - 1))
def test_the_capture_bootstrap_is_the_loop_over_the_same_draws(table, seed):
    """Every estimate, by way of its percentiles at several levels."""
    expected = loop_over_captures(table, seed, 60)
    for level in (0.5, 0.9, 0.95):
        found = capture_bootstrap(table, seed=seed, resamples=60, level=level)
        ends = np.quantile(expected, [(1 - level) / 2, (1 + level) / 2])
        assert (found.lower, found.upper) == pytest.approx(tuple(ends), abs=1e-12)
        assert (found.resamples, found.undefined) == (60, 0)


@settings(deadline=None, max_examples=40)
@given(table=combination_tables(), seed=st.integers(0, 2**32 - 1))
def test_the_crossed_bootstrap_is_the_loop_over_the_same_draws(table, seed):
    """Gaps in the table included; the undefined resamples are those for which the loop has no estimate."""
    expected = loop_over_both(table, seed, 60)
    for level in (0.5, 0.9, 0.95):
        found = crossed_bootstrap(table, seed=seed, resamples=60, level=level)
        ends = np.quantile(expected, [(1 - level) / 2, (1 + level) / 2])
        assert (found.lower, found.upper) == pytest.approx(tuple(ends), abs=1e-12)
        assert found.undefined == 60 - len(expected)


def test_the_capture_bootstrap_agrees_with_scipy_s():
    """Other draws, 10,000 each: the ends agree within their Monte Carlo error."""
    stats = pytest.importorskip("scipy.stats")
    table = table_of(np.random.default_rng(2).normal(size=(40, 3)))
    found = capture_bootstrap(table, seed=1)
    peer = stats.bootstrap(
        (capture_means(table),), np.mean, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(8)
    ).confidence_interval
    assert (found.lower, found.upper) == (pytest.approx(peer.low, abs=0.012), pytest.approx(peer.high, abs=0.012))


@given(table=combination_tables(), seed=st.integers(0, 1000), shift=st.sampled_from([-2.0, 0.5]))
@settings(deadline=None, max_examples=25)
def test_law_a_constant_added_to_every_combination_moves_both_ends_by_it(table, seed, shift):
    """And the ends lie within the range of the combinations."""
    moved = table_of(table.means + shift, table.repeats)
    for bootstrap in (capture_bootstrap, crossed_bootstrap):
        one, other = bootstrap(table, seed=seed, resamples=50), bootstrap(moved, seed=seed, resamples=50)
        assert (one.lower + shift, one.upper + shift) == pytest.approx((other.lower, other.upper), abs=1e-12)
        inside = table.means[table.repeats > 0]
        assert inside.min() - 1e-12 <= one.lower <= one.upper <= inside.max() + 1e-12


def test_one_seed_gives_one_interval_and_a_generator_goes_on():
    """A number starts afresh; a generator that is passed in is used up."""
    table = table_of(np.random.default_rng(3).normal(size=(6, 4)))
    assert crossed_bootstrap(table, seed=7) == crossed_bootstrap(table, seed=7)
    rng = np.random.default_rng(7)
    assert crossed_bootstrap(table, seed=rng) == crossed_bootstrap(table, seed=7)
    assert crossed_bootstrap(table, seed=rng) != crossed_bootstrap(table, seed=7)


def test_one_capture_or_equal_captures_have_an_interval_of_no_width():
    """Resampling captures tells nothing about tasks within one; that is what the crossed bootstrap is for."""
    table = table_of([[0.0, 1.0]])
    found = capture_bootstrap(table, seed=1, resamples=100)
    assert found.lower == found.upper == balanced(table) == 0.5
    assert crossed_bootstrap(table, seed=1, resamples=100).upper == 1.0


def test_factorial_intervals_are_the_loop_over_the_same_draws():
    """Groups are resampled whole, one draw for all three effects."""
    outcomes = np.random.default_rng(4).integers(2, size=(9, 2, 2, 3))
    found = factorial_intervals(outcomes, seed=6, resamples=200)
    draws = np.random.default_rng(6).integers(9, size=(200, 9))
    effects = [factorial_effects(outcomes[drawn]) for drawn in draws]
    for name in ("list_effect", "values_effect", "interaction"):
        ends = np.quantile([getattr(effect, name) for effect in effects], [0.025, 0.975])
        interval = getattr(found, name)
        assert (interval.lower, interval.upper) == pytest.approx(tuple(ends), abs=1e-12)


def test_factorial_intervals_need_a_resample():
    """None drawn, none given."""
    with pytest.raises(InputError, match="draw at least one"):
        factorial_intervals(np.zeros((2, 2, 2, 1)), seed=1, resamples=0)
