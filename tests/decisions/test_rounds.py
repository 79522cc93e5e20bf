"""The rounds against the reference decision, over random small cases, plans, enclosures and executors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import EnvironmentUnusableError, InputError, Rule, UndecidedError
from veristate.decisions import (
    Box,
    Certified,
    Current,
    Question,
    Recomputed,
    ScoreRange,
    Stage,
    decide,
    ensemble_mean,
    full,
    r1,
    r1m,
    run_rounds,
)

RULES = (Rule(kind="top_k", count=1), Rule(kind="threshold", threshold="0.5"))
REFERENCE = np.array([[0.9, 0.45, 0.1], [0.7, 0.45, 0.3]])
SUSPECT = np.array([[0.2, 0.45, 0.1], [0.7, 0.45, 0.3]])
FLAGGED = SUSPECT != REFERENCE
ASK = Question(rules=RULES, ids=("a", "b", "c"))
GRID = [0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0]


class Executor:
    """A trusted executor that gives reference bits, remembers what it was asked, and may do whole batches."""

    def __init__(self, reference, batch: int = 1):
        self.reference, self.batch, self.calls = reference, batch, []

    def expand(self, asked):
        """Whole batches of `batch` candidates of each member that has a unit in them."""
        done = np.zeros_like(asked)
        for member, candidate in np.argwhere(asked):
            start = candidate // self.batch * self.batch
            done[member, start : start + self.batch] = True
        return done

    def __call__(self, asked):
        """The batches of what was asked; what is not done is NaN."""
        done = self.expand(asked)
        self.calls.append(asked)
        return Recomputed(values=np.where(done, self.reference, np.nan), done=done)


def test_a_negative_budget_is_refused():
    """A budget is a number of units."""
    with pytest.raises(InputError, match="-1 units"):
        run_rounds(ASK, SUSPECT, full(), Executor(REFERENCE), budget=-1)


def test_questions_that_are_none_are_refused():
    """No rules, repeated identifiers, wrong shapes and a calibration outside probabilities are refused at once."""
    with pytest.raises(InputError, match="no rule"):
        Question(rules=(), ids=("a",))
    with pytest.raises(InputError, match="more than once"):
        Question(rules=RULES, ids=("a", "a"))
    with pytest.raises(InputError, match=r"needs scores in \[0, 1\]"):
        Question(rules=RULES, ids=("a",), temperature=2.0, score_range=ScoreRange(lower=0.0, upper=2.0))
    with pytest.raises(InputError, match=r"\[members, 3\]"):
        run_rounds(ASK, SUSPECT[:, :2], full(), Executor(REFERENCE))
    with pytest.raises(InputError, match="stage 'mine'"):
        run_rounds(ASK, SUSPECT, [Stage(reason="mine", choose=lambda now: np.ones(3, bool))], Executor(REFERENCE))


def test_an_executor_that_leaves_something_out_is_not_trusted():
    """Units asked for and not done end the rounds with an error that names one."""

    def lazy(asked):
        done = asked.copy()
        done[1, 1] = False
        return Recomputed(values=REFERENCE, done=done)

    with pytest.raises(EnvironmentUnusableError, match=r"left out 1 of 6 units .* 'b' of member 1"):
        run_rounds(ASK, SUSPECT, full(), lazy)


def test_an_executor_that_changes_its_mind_is_not_trusted():
    """Other bits for a fixed unit, be it the sign of a zero, end the rounds; fixed stays fixed."""
    fixed = np.zeros((2, 3), dtype=bool)
    fixed[0, 2] = True
    suspect, reference = SUSPECT.copy(), REFERENCE.copy()
    suspect[0, 2], reference[0, 2] = 0.0, -0.0
    with pytest.raises(EnvironmentUnusableError, match=r"other bits for 1 units .* 'c' of member 0"):
        run_rounds(ASK, suspect, full(), Executor(reference, batch=3), fixed=fixed)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.01])
def test_a_reference_that_is_no_score_is_refused(bad):
    """Trusted recomputation that gives no score under the contract certifies nothing."""
    reference = REFERENCE.copy()
    reference[1, 1] = bad
    with pytest.raises(InputError, match="1 recomputed values lie outside"):
        run_rounds(ASK, SUSPECT, full(), Executor(reference))


def test_recomputed_values_of_another_shape_are_refused():
    """Values and mask must be [m, n]."""
    with pytest.raises(InputError, match="shape"):
        run_rounds(ASK, SUSPECT, full(), lambda asked: Recomputed(values=REFERENCE[0], done=asked))
    with pytest.raises(InputError, match="what was recomputed"):
        run_rounds(ASK, SUSPECT, full(), lambda asked: Recomputed(values=REFERENCE, done=asked[0]))


def test_an_enclosure_that_misses_the_recomputed_value_decides_nothing():
    """Evidence that contradicts itself raises and gives no decision."""
    wrong = Box(lower=REFERENCE - 0.01, upper=np.where(FLAGGED, REFERENCE - 0.005, REFERENCE + 0.01))
    question = Question(rules=(Rule(kind="threshold", threshold="0.45"),), ids=ASK.ids, enclosures=wrong)
    with pytest.raises(UndecidedError, match="contradicts itself"):
        run_rounds(question, SUSPECT, full(), Executor(REFERENCE))


def test_r1_alone_certifies_nothing():
    """R1 restores the decision here, and yet nothing is certified: what passed its check is not known."""
    outcome = run_rounds(ASK, SUSPECT, r1(FLAGGED), Executor(REFERENCE), go_on=False)
    assert decide(RULES[0], outcome.current.scores(), ASK.ids).chosen == ("a",)
    assert (outcome.stopped, outcome.certified, outcome.decisions) == ("plan ended", False, ())
    assert outcome.units_spent == 1
    assert np.array_equal(outcome.current.fixed, FLAGGED)


def test_r1m_goes_on_to_everything():
    """After R1 and the margin round what is open is recomputed, each round with its reason."""
    outcome = run_rounds(ASK, SUSPECT, r1m(FLAGGED, 0.1), Executor(REFERENCE))
    assert [r.reason for r in outcome.rounds] == ["flagged", "margin", "unresolved"]
    assert [int(r.asked.sum()) for r in outcome.rounds] == [1, 2, 3]
    assert outcome.rounds[-1].unresolved == (0, 0)
    assert outcome.stopped == "certified"
    assert outcome.values_fixed
    assert outcome.units_spent == 6


def test_a_budget_stops_before_it_is_passed_and_nothing_is_certified():
    """With 5 units the margin round still runs, and the last one is not begun."""
    executor = Executor(REFERENCE)
    outcome = run_rounds(ASK, SUSPECT, r1m(FLAGGED, 0.1), executor, budget=5)
    assert (outcome.stopped, outcome.units_spent, outcome.decisions) == ("budget", 3, ())
    assert len(executor.calls) == 2


def test_a_budget_is_judged_by_what_the_executor_will_do():
    """A batch of three units does not fit into a budget of two, though one unit was asked for."""
    executor = Executor(REFERENCE, batch=3)
    outcome = run_rounds(ASK, SUSPECT, r1(FLAGGED), executor, budget=2, expand=executor.expand)
    assert (outcome.stopped, outcome.units_spent, outcome.rounds) == ("budget", 0, ())


def test_what_comes_along_is_kept():
    """A batch done for one flagged unit fixes its other units too, and they are not asked for again."""
    executor = Executor(REFERENCE, batch=3)
    outcome = run_rounds(ASK, SUSPECT, r1(FLAGGED), executor)
    assert outcome.rounds[0].done.tolist() == [[True] * 3, [False] * 3]
    assert outcome.rounds[1].asked.tolist() == [[False] * 3, [True] * 3]
    assert outcome.units_spent == 6


def test_half_certified_is_not_certified():
    """One rule certified and the other open gives no decisions at all."""
    question = Question(rules=(Rule(kind="top_k", count=3), RULES[1]), ids=ASK.ids)
    outcome = run_rounds(question, SUSPECT, (), Executor(REFERENCE), budget=0)
    assert isinstance(outcome.results[0], Certified)
    assert (outcome.certified, outcome.decisions) == (False, ())


def test_enclosures_spare_what_they_settle():
    """With proven bounds only the candidate astride the threshold is recomputed."""
    near = Box(lower=REFERENCE - 0.06, upper=REFERENCE + 0.06)
    question = Question(rules=RULES, ids=ASK.ids, enclosures=near)
    executor = Executor(REFERENCE)
    outcome = run_rounds(question, SUSPECT, (), executor)
    assert [np.flatnonzero(asked.any(axis=0)).tolist() for asked in executor.calls] == [[1]]
    assert [d.chosen for d in outcome.decisions] == [("a",), ("a",)]
    assert not outcome.values_fixed


def test_values_are_recomputed_after_the_decisions_when_wanted():
    """With proven bounds the open candidate comes first, then the rest for its values, if the budget allows."""
    near = Box(lower=REFERENCE - 0.06, upper=REFERENCE + 0.06)
    question = Question(rules=RULES, ids=ASK.ids, enclosures=near)
    outcome = run_rounds(question, SUSPECT, (), Executor(REFERENCE), certify_values=True)
    assert [(r.reason, int(r.asked.sum())) for r in outcome.rounds] == [("unresolved", 2), ("values", 4)]
    assert (outcome.stopped, outcome.values_fixed) == ("certified", True)
    assert np.array_equal(outcome.current.members, REFERENCE)
    poor = run_rounds(question, SUSPECT, (), Executor(REFERENCE), budget=5, certify_values=True)
    assert (poor.stopped, poor.certified, poor.values_fixed) == ("budget", True, False)
    assert poor.decisions == outcome.decisions
    planned = run_rounds(question, SUSPECT, r1(FLAGGED), Executor(REFERENCE), go_on=False, certify_values=True)
    assert (planned.stopped, planned.units_spent) == ("plan ended", 1)


def test_nothing_to_do_when_everything_was_fixed():
    """A table already recomputed is certified without a round."""
    outcome = run_rounds(ASK, REFERENCE, full(), Executor(REFERENCE), fixed=np.ones((2, 3), bool))
    assert (outcome.stopped, outcome.rounds, outcome.units_spent) == ("certified", (), 0)


def test_the_caller_keeps_his_arrays_and_cannot_change_ours():
    """Suspect values are not written to, and those of the outcome are read-only."""
    members = SUSPECT.copy()
    outcome = run_rounds(ASK, members, full(), Executor(REFERENCE))
    assert np.array_equal(members, SUSPECT)
    with pytest.raises(ValueError, match="read-only"):
        outcome.current.members[0, 0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        outcome.current.fixed[0, 0] = False


@st.composite
def stories(draw):
    """Reference and suspect members, rules, temperature, enclosures that hold the reference, flags and a batch."""
    m, n = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    values = st.lists(st.sampled_from(GRID), min_size=m * n, max_size=m * n).map(lambda v: np.array(v).reshape(m, n))
    reference, suspect = draw(values), draw(values)
    if draw(st.booleans()):
        suspect[draw(st.integers(0, m - 1)), draw(st.integers(0, n - 1))] = draw(
            st.sampled_from([np.nan, np.inf, -7.0])
        )
    kinds = [
        Rule(kind="top_k", count=draw(st.integers(1, n))),
        Rule(kind="threshold", threshold="0.5"),
        Rule(kind="nearest", count=draw(st.integers(1, n)), threshold="0.4"),
    ]
    rules = tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True)))
    width = draw(st.sampled_from([None, 0.0, 0.01, 0.1, 0.3]))
    enclosures = None if width is None else Box(lower=reference - width, upper=reference + width)
    ids = tuple(draw(st.permutations(["a", "b", "B", "10", "9"]))[:n])
    temperature = draw(st.sampled_from([1.0, 1.0546289419746864, 0.4]))
    question = Question(rules=rules, ids=ids, temperature=temperature, enclosures=enclosures)
    flagged = draw(st.lists(st.booleans(), min_size=m * n, max_size=m * n).map(lambda v: np.array(v).reshape(m, n)))
    return question, reference, suspect, flagged, draw(st.integers(1, n))


def reference_decisions(question, reference):
    """What the rules say of the reference scores."""
    p = ensemble_mean(reference, question.temperature)
    return tuple(decide(rule, p, question.ids) for rule in question.rules)


@given(
    stories(), st.one_of(st.none(), st.integers(0, 20)), st.sampled_from(["none", "full", "r1", "r1m"]), st.booleans()
)
@settings(max_examples=120)
def test_whatever_is_certified_is_the_reference_decision(story, budget, name, values):
    """Under every policy, batch, budget and enclosure a certified decision is g(p*), and without a budget there is one.

    This is Proposition 1. The brute force is over policies and executors; g(p*) is computed from the reference alone.
    """
    question, reference, suspect, flagged, batch = story
    plan = {"none": (), "full": full(), "r1": r1(flagged), "r1m": r1m(flagged, 0.15)}[name]
    executor = Executor(reference, batch)
    outcome = run_rounds(
        question, suspect, plan, executor, budget=budget, expand=executor.expand, certify_values=values
    )
    assert outcome.units_spent == sum(int(r.done.sum()) for r in outcome.rounds)
    if budget is None:
        assert outcome.stopped == "certified"
        assert len(outcome.rounds) <= len(plan) + len(question.ids) + values
        assert outcome.values_fixed or not values
    else:
        assert outcome.units_spent <= budget
    if outcome.certified:
        assert outcome.decisions == reference_decisions(question, reference)
    else:
        assert (outcome.decisions, outcome.stopped) == ((), "budget")
    fixed = outcome.current.fixed
    assert np.array_equal(outcome.current.members[fixed], reference[fixed])
    if not outcome.rounds:
        assert not fixed.any()
    else:
        assert np.array_equal(fixed, np.logical_or.reduce([r.done for r in outcome.rounds]))


@given(stories(), st.randoms())
@settings(max_examples=100)
def test_certified_within_n_rounds_whatever_the_order(story, random):
    """A plan of one whole candidate per round, in any order, is certified within n rounds."""
    question, reference, suspect, _, _ = story
    m, n = reference.shape

    def only(j):
        return Stage(reason=f"candidate {j}", choose=lambda now: np.tile(np.arange(n) == j, (m, 1)))

    order = list(range(n))
    random.shuffle(order)
    outcome = run_rounds(question, suspect, [only(j) for j in order], Executor(reference), go_on=False)
    assert outcome.stopped == "certified"
    assert len(outcome.rounds) <= n
    assert outcome.decisions == reference_decisions(question, reference)


@given(stories())
@settings(max_examples=100)
def test_an_uncertified_rule_really_is_open(story):
    """Without calibration and enclosures, an open rule takes two values when the unfixed members go to 0 and 1.

    So no decision is held back that the evidence determines.
    """
    question, reference, _, flagged, _ = story
    question = Question(rules=question.rules, ids=question.ids)
    standing = Current.of(question, reference, flagged)
    free = np.flatnonzero(~flagged.all(axis=0))
    for rule, result in zip(question.rules, standing.results, strict=True):
        found = set()
        for corner in range(2**free.size):
            members = reference.copy()
            for bit, j in enumerate(free):
                members[~flagged[:, j], j] = float(corner >> bit & 1)
            scores = [math.nan] * len(question.ids)
            for j in range(len(question.ids)):
                total = members[0, j]
                for row in members[1:, j]:
                    total = total + row
                scores[j] = total / len(members)
            found.add(decide(rule, scores, question.ids))
        if rule.kind != "nearest":
            assert isinstance(result, Certified) == (len(found) == 1)
        elif isinstance(result, Certified):
            assert found == {result.decision}
