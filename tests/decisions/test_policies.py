"""Policies against the sets that the paper describes, chosen by hand or by plain loops."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import InputError, Rule
from veristate.decisions import (
    Current,
    Question,
    disagreement_choice,
    epsilon_from_residuals,
    full,
    margins,
    near_boundary,
    r1,
    r1_then,
    r1m,
    random_choice,
)

RULES = (Rule(kind="top_k", count=2), Rule(kind="threshold", threshold="0.3"))
IDS = ("a", "b", "c", "d", "e")
MEMBERS = np.array([[0.9, 0.62, 0.6, 0.31, 0.1], [0.9, 0.62, 0.6, 0.31, 0.1]])
NOBODY = np.zeros((2, 5), dtype=bool)


def current(members=MEMBERS, fixed=None) -> Current:
    """The values of two members as they stand."""
    return Current.of(Question(rules=RULES, ids=IDS), members, fixed)


@pytest.mark.parametrize("bad", [np.nan, -0.1, np.inf])
def test_an_estimate_that_is_no_width_is_refused(bad):
    """NaN, negative and infinite widths set no margin."""
    with pytest.raises(InputError, match="can't set a margin"):
        r1m(NOBODY, bad)
    with pytest.raises(InputError, match="can't set a margin"):
        near_boundary(current(), bad)
    with pytest.raises(InputError, match="can't set a margin"):
        epsilon_from_residuals([0.1], multiplier=bad)


@pytest.mark.parametrize("bad", [[], [np.nan, 0.1], [np.inf]])
def test_residuals_that_are_none_give_no_epsilon(bad):
    """No residual, or one that is not finite, gives no estimate."""
    with pytest.raises(InputError, match="at least one residual"):
        epsilon_from_residuals(bad)


def test_flags_of_another_shape_are_refused():
    """A mask of candidates is not spread over all members in silence."""
    for flagged in (np.zeros(5, dtype=bool), np.zeros((2, 5), dtype=int), np.zeros((5, 2), dtype=bool)):
        with pytest.raises(InputError, match="the flagged units"):
            r1(flagged)[0].choose(current())
    with pytest.raises(InputError, match="the candidates of stage 'mine'"):
        r1_then(NOBODY, "mine", lambda now: NOBODY)[1].choose(current())


@pytest.mark.parametrize("size", [-1, 6])
def test_a_choice_of_more_than_there_are_is_refused(size):
    """The comparison choices refuse a size outside 0..n."""
    with pytest.raises(InputError, match="can't choose"):
        random_choice(5, size, np.random.default_rng(0))
    with pytest.raises(InputError, match="can't choose"):
        disagreement_choice(MEMBERS, size)


def test_disagreement_over_nan_is_refused():
    """A NaN member would sort anywhere."""
    with pytest.raises(InputError, match="finite"):
        disagreement_choice([[np.nan, 0.1], [0.1, 0.2]], 1)


def test_margins_wait_until_impossible_values_are_gone():
    """R1+M's margins can't be taken over NaN; R1 asks for such units first."""
    members = MEMBERS.copy()
    members[1, 3], members[0, 0] = np.nan, 1.5
    with pytest.raises(InputError, match="NaN"):
        near_boundary(current(members), 0.01)
    asked = r1(NOBODY)[0].choose(current(members))
    assert np.argwhere(asked).tolist() == [[0, 0], [1, 3]]


def test_full_asks_for_everything():
    """One stage with every unit."""
    (stage,) = full()
    assert stage.reason == "all"
    assert stage.choose(current()).all()


def test_margins_strictly_below_epsilon_are_recomputed_in_all_members():
    """Candidates b and c stand 0.02 apart at the list's boundary, d 0.01 from the threshold; equal is not below."""
    flagged = NOBODY.copy()
    flagged[1, 4] = True
    first, second = r1m(flagged, 0.015)
    assert (first.reason, second.reason) == ("flagged", "margin")
    assert np.array_equal(first.choose(current()), flagged)
    assert second.choose(current()).tolist() == [[False, False, False, True, False]] * 2
    assert r1m(flagged, 0.025)[1].choose(current()).tolist() == [[False, True, True, True, False]] * 2
    scores = current().scores()
    exactly = min(margins(rule, scores, IDS).min() for rule in RULES)
    assert not near_boundary(current(), exactly).any()
    assert near_boundary(current(), np.nextafter(exactly, 1.0)).sum() == 1
    assert not near_boundary(current(), 0.0).any()


def test_epsilon_is_twice_the_largest_residual():
    """The paper's largest retrospective residual gives the paper's epsilon."""
    assert epsilon_from_residuals([[0.001, -0.0046770063956257935], [0.0, 0.004]]) == 0.009354012791251587
    assert epsilon_from_residuals([0.5, -0.25], multiplier=0.5) == 0.25


@given(st.integers(0, 12), st.integers(0, 5))
def test_random_choices_have_the_size_and_follow_the_generator(size, seed):
    """The same generator state chooses the same `size` candidates."""
    once, again = (random_choice(12, size, np.random.default_rng(seed)) for _ in range(2))
    assert once.sum() == size
    assert np.array_equal(once, again)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=n, max_size=n), st.integers(0, n)
        )
    )
)
def test_disagreement_is_the_standard_deviation_with_ties_by_index(case):
    """The chosen have the largest exact spread; equal spreads go to the lower index."""
    columns, size = case
    order = sorted(range(len(columns)), key=lambda i: (-statistics.pvariance([4 * v for v in columns[i]]), i))
    members = np.array(columns, dtype=float).T / 4.0
    spreads = members.std(axis=0)
    if len({round(s, 9) for s in spreads}) == len(set(spreads.tolist())):  # std rounds no equal spreads apart
        assert set(np.flatnonzero(disagreement_choice(members, size))) == set(order[:size])


def test_a_comparison_choice_is_made_on_r1_values():
    """r1_then hands the values as they stand to the choice and asks for all members of what it chose."""
    stages = r1_then(NOBODY, "disagreement", lambda now: disagreement_choice(now.members, 1))
    members = MEMBERS.copy()
    members[0, 2] = 0.1
    assert stages[1].choose(current(members)).tolist() == [[False, False, True, False, False]] * 2
