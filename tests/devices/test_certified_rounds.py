"""Rounds over enclosures: decisions of exact values, found with as few units as are open; contracts in words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import EnvironmentUnusableError, InputError, Rule, UndecidedError
from veristate.decisions import Box, Question, decide, ensemble_mean
from veristate.decisions.enclosures import Terms, bounds_meet, contract_kind, narrow_rounds
from veristate.devices.certified import Estimate, choose


def asked_of(exact, width=1e-12):
    """An executor that encloses what it is asked, and counts."""

    def enclose(mask):
        lower, upper = np.where(mask, exact - width, -np.inf), np.where(mask, exact + width, np.inf)
        enclose.units += int(mask.sum())
        return Box(lower=lower, upper=upper)

    enclose.units = 0
    return enclose


@given(st.integers(0, 10**6), st.floats(0, 0.4))
@settings(max_examples=80, deadline=None)
def test_the_rounds_end_with_the_decisions_of_the_exact_values(seed, width):
    """Random members, enclosures and rules."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 4), rng.integers(1, 9)
    exact = rng.random((m, n)) * 0.9 + 0.05
    spread = rng.random((m, n)) * width
    ids = tuple(f"c{i}" for i in range(n))
    rules = (Rule(kind="top_k", count=int(rng.integers(1, n + 1))), Rule(kind="threshold", threshold="0.5"))
    box = Box(lower=exact - spread * rng.random((m, n)), upper=exact + spread * rng.random((m, n)))
    enclose = asked_of(exact)
    found = narrow_rounds(Question(rules=rules, ids=ids), box, enclose)
    scores = ensemble_mean(exact, 1.0)
    gaps = np.abs(np.subtract.outer(scores, scores))[~np.eye(n, dtype=bool)]
    if min(gaps.min(initial=1), np.abs(scores - 0.5).min()) > 1e-10:
        assert found.decisions == tuple(decide(rule, scores, ids) for rule in rules)
    assert found.units_spent == enclose.units <= m * n
    assert all(((found.done | r.asked) == found.done).all() for r in found.rounds)


def one_rule(n):
    """The best of n."""
    return Question(rules=(Rule(kind="top_k", count=1),), ids=tuple("abcdef"[:n]))


def test_two_enclosures_that_exclude_each_other_decide_nothing():
    """One of them is wrong: neither may be used."""
    box = Box(lower=np.array([[0.1, 0.2]]), upper=np.array([[0.4, 0.5]]))
    with pytest.raises(UndecidedError, match="contradicts"):
        narrow_rounds(one_rule(2), box, asked_of(np.array([[0.9, 0.3]])))


def test_a_tie_closer_than_the_executor_tells_apart_stays_open():
    """Equal exact values: every unit is recomputed and nothing is decided."""
    box = Box(lower=np.zeros((2, 2)), upper=np.ones((2, 2)))
    found = narrow_rounds(one_rule(2), box, asked_of(np.full((2, 2), 0.3)))
    assert (found.ended, found.decisions, found.units_spent) == ("nothing narrower", (), 4)


def test_equal_candidates_are_certified_and_recomputed_once():
    """Two pairs, each of one exact value, and a list that ends inside the second pair: the identifier decides."""
    exact = np.array([[0.7, 0.3, 0.7, 0.3]] * 2)
    box, classes = Box(lower=np.zeros((2, 4)), upper=np.ones((2, 4))), np.array([0, 1, 0, 1])
    asked = Question(rules=(Rule(kind="top_k", count=3),), ids=tuple("dcba"), classes=classes)
    found = narrow_rounds(asked, box, asked_of(exact))
    assert found.decisions[0].chosen == ("a", "b", "d")
    assert found.units_spent == 4
    assert not found.done[:, 2:].any()
    assert (found.box.lower[:, classes] == found.box.lower).all()
    other = Question(rules=(Rule(kind="top_k", count=3),), ids=tuple("dcba"), classes=np.array([0, 1, 0, 3]))
    assert narrow_rounds(other, box, asked_of(exact)).ended == "nothing narrower"


@pytest.mark.parametrize(("budget", "ended"), [(0, "budget"), (1, "budget"), (2, "certified")])
def test_a_budget_is_never_passed(budget, ended):
    """A round that would need more units is not begun."""
    box = Box(lower=np.zeros((1, 2)), upper=np.ones((1, 2)))
    found = narrow_rounds(one_rule(2), box, asked_of(np.array([[0.2, 0.7]])), budget=budget)
    assert found.ended == ended
    assert found.units_spent <= budget


def test_an_executor_that_tells_nothing_is_not_asked_for_ever():
    """Values that are not finite enclose nothing."""
    box = Box(lower=np.zeros((1, 2)), upper=np.ones((1, 2)))
    with pytest.raises(EnvironmentUnusableError, match="not finite"):
        narrow_rounds(one_rule(2), box, lambda mask: Box.trivial((1, 2)))
    with pytest.raises(InputError, match="shape"):
        narrow_rounds(one_rule(2), box, lambda mask: Box.trivial((2, 2)))
    with pytest.raises(InputError, match="budget"):
        narrow_rounds(one_rule(2), box, asked_of(np.zeros((1, 2))), budget=-1)
    with pytest.raises(InputError, match="candidates"):
        narrow_rounds(one_rule(3), box, asked_of(np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("kind", "dtype", "met"),
    [
        ("C1", "fp32", True),
        ("C1", "fp64", True),
        ("C2", "fp64", True),
        ("C2", "fp32", False),
        ("C2", "bf16", False),
        ("C1", "bf16", False),
        ("C3", "bf16", True),
        ("C3", "fp32", False),
        ("C4", "int16", True),
    ],
)
def test_a_contract_that_bounds_can_not_meet_declines_with_a_reason_and_the_next_strategy(kind, dtype, met):
    """As measured: C2 below FP64, and bf16, leave every score open."""
    found = bounds_meet(kind, dtype)
    assert (found is None) == met
    if found:
        assert kind in found.reason
        assert found.next_strategy in ("memo", "full")


def test_contracts_have_names_and_sentences():
    """What a user writes, and what a certificate says."""
    assert [contract_kind(n) for n in ("exact", "device", "C3", "integer")] == ["C1", "C2", "C3", "C4"]
    with pytest.raises(InputError, match="choose one of"):
        contract_kind("best")
    said = Terms(kind="C1", delta="1e-9", certifies="decisions").in_words()
    assert "probability at most 1e-9" in said
    assert "not the values" in said
    assert "probability" not in Terms(kind="C2", delta="0", certifies="values").in_words()


COSTS = tuple(Estimate(strategy=s, seconds=c) for s, c in (("probes", 1.0), ("memo", 2.0), ("full", 9.0)))


@pytest.mark.parametrize(
    ("kind", "dtype", "values", "asked", "chosen", "said"),
    [
        ("C1", "fp32", False, None, "probes", "against memo"),
        ("C1", "fp32", True, None, "memo", "every value"),
        ("C1", "bf16", False, None, "memo", "C1 in bf16"),
        ("C2", "fp32", False, None, "memo", "C2 in fp32"),
        ("C2", "bf16", False, None, "full", "not for bf16"),
        ("C2", "fp32", False, "probes", "memo", "C2 in fp32"),
        ("C1", "fp32", False, "full", "full", "asked for"),
    ],
)
def test_the_plan_is_the_cheapest_that_the_contract_allows(kind, dtype, values, asked, chosen, said):
    """With its reason."""
    plan = choose(kind, dtype, COSTS, values=values, asked=asked)
    assert plan.strategy == chosen
    assert said in plan.reason
