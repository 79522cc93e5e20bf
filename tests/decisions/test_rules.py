"""Rules, distances and margins against exact arithmetic on fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import Decision, InputError, Rule
from veristate.decisions import ScoreRange, decide, distance, margins, validate_rule

TOP = Rule(kind="top_k", count=2)
AT_HALF = Rule(kind="threshold", threshold="0.5")
NEAR_HALF = Rule(kind="nearest", count=2, threshold="0.5")

# Few values, so that ties and signed zeros are common, and any others.
scores_of = st.one_of(
    st.sampled_from([-0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 0.1, 0.9]), st.floats(min_value=0.0, max_value=1.0)
)


@st.composite
def cases(draw):
    """A rule, scores, and identifiers in any order, some of which are prefixes of others."""
    ids = draw(st.lists(st.text(alphabet="aB1\0é", min_size=1, max_size=3), min_size=1, max_size=7, unique=True))
    scores = draw(st.lists(scores_of, min_size=len(ids), max_size=len(ids)))
    kind = draw(st.sampled_from(["top_k", "threshold", "nearest"]))
    count = None if kind == "threshold" else draw(st.integers(1, len(ids)))
    threshold = None if kind == "top_k" else draw(st.sampled_from(["0.1", "0.25", "0.5", "0", "1"]))
    return Rule(kind=kind, count=count, threshold=threshold), scores, ids


def key_of(rule: Rule, score: float) -> Fraction:
    """What the rule ranks by, higher first; a distance is the exact one, rounded once to float64."""
    if rule.kind == "top_k":
        return Fraction(score)
    return -Fraction(float(abs(Fraction(score) - Fraction(float(rule.threshold)))))


def expected(rule: Rule, scores, ids) -> tuple[str, ...]:
    """The chosen identifiers by fractions and a plain sort."""
    if rule.kind == "threshold":
        return tuple(
            sorted(i for i, s in zip(ids, scores, strict=True) if Fraction(s) >= Fraction(float(rule.threshold)))
        )
    ranked = sorted(zip(ids, scores, strict=True), key=lambda pair: (-key_of(rule, pair[1]), pair[0]))
    return tuple(sorted(name for name, _ in ranked[: rule.count]))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(kind="top_k", count=0), "is 0; with 3 candidates it must be 1..3"),
        (Rule(kind="top_k", count=4), "is 4; with 3"),
        (Rule(kind="nearest", count=-1, threshold="0.5"), "is -1"),
        (Rule(kind="top_k", count=True), "is True"),
        (Rule(kind="top_k"), "needs a count"),
        (Rule(kind="nearest", count=1), "needs a threshold"),
        (Rule(kind="threshold"), "needs a threshold"),
        (Rule(kind="threshold", threshold="0.5", count=1), "has no count, but count 1"),
        (Rule(kind="top_k", count=1, threshold="0.5"), "has no threshold"),
        (Rule(kind="threshold", threshold="1.5"), r"1\.5 lies outside the score range \[0\.0, 1\.0\]"),
        (Rule(kind="threshold", threshold="-0.1"), "-0.1 lies outside"),
        (Rule(kind="threshold", threshold="nan"), "nan lies outside"),
        (Rule(kind="threshold", threshold="inf"), "inf lies outside"),
        (Rule(kind="threshold", threshold="half"), "'half' is no decimal number"),
        (Rule(kind="best", count=1), "unknown rule kind 'best'"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_cannot_be_asked_is_refused_by_name(rule, message):
    """A wrong count, threshold or kind is refused with the offending value in the message."""
    with pytest.raises(InputError, match=message):
        validate_rule(rule, 3)
    with pytest.raises(InputError, match=message):
        decide(rule, [0.1, 0.2, 0.3], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("scores", "ids", "message"),
    [
        ([], [], "the table is empty"),
        ([0.1, 0.2], ["a", "a"], "more than once: 'a'"),
        ([0.1, 0.2], ["a", 2], "must be text, not 2"),
        ([0.1, 0.2], "ab", "are one text"),
        ([0.1, 0.2], ["a", "b", "c"], r"need scores of shape \(3,\), not \(2,\)"),
        ([[0.1, 0.2]], ["a", "b"], r"not \(1, 2\)"),
        ([np.nan, 0.2], ["a", "b"], r"1 scores are not finite: 'a' \(nan\)"),
        ([0.1, np.inf, -np.inf, np.nan, np.nan], list("abcde"), r"4 scores .*'b' \(inf\), .*'d' \(nan\) and 1 more"),
    ],
)
def test_a_table_without_a_decision_is_refused(scores, ids, message):
    """Empty tables, repeated or strange identifiers, other lengths and non-finite scores are named and refused."""
    for ask in (decide, margins):
        with pytest.raises(InputError, match=message):
            ask(Rule(kind="top_k", count=1), scores, ids)


def test_decisions_of_different_rules_have_no_distance():
    """Two decisions are comparable under one rule only."""
    a = decide(TOP, [0.1, 0.2, 0.3], ["a", "b", "c"])
    b = decide(AT_HALF, [0.1, 0.2, 0.3], ["a", "b", "c"])
    with pytest.raises(InputError, match="different rules"):
        distance(a, b)


def test_an_empty_score_range_is_refused():
    """A range needs lower < upper, and NaN is neither."""
    for lower, upper in [(1.0, 1.0), (2.0, 1.0), (np.nan, 1.0)]:
        with pytest.raises(InputError, match="is empty"):
            ScoreRange(lower=lower, upper=upper)


def test_a_wider_range_allows_other_thresholds():
    """A threshold of 5 can be asked where scores go up to 10."""
    rule = Rule(kind="threshold", threshold="5")
    assert decide(rule, [4.0, 6.0], ["a", "b"], score_range=ScoreRange(lower=0.0, upper=10.0)).chosen == ("b",)


def test_ties_go_to_the_smaller_identifier_as_text():
    """Equal scores are told apart by text, in which '10' comes before '9' and NUL counts."""
    assert decide(Rule(kind="top_k", count=1), [0.5, 0.5], ["9", "10"]).chosen == ("10",)
    assert decide(Rule(kind="top_k", count=1), [-0.0, 0.0], ["a", "b"]).chosen == ("a",)
    assert decide(Rule(kind="top_k", count=1), [0.0, -0.0], ["b", "a"]).chosen == ("a",)
    assert decide(Rule(kind="top_k", count=1), [0.5, 0.5], ["a\0", "a"]).chosen == ("a",)


def test_a_swap_counts_two_and_an_addition_one():
    """The distance of two decisions is the size of their symmetric difference."""
    ids = ["a", "b", "c"]
    assert distance(decide(TOP, [0.9, 0.8, 0.1], ids), decide(TOP, [0.9, 0.1, 0.8], ids)) == 2
    assert distance(decide(AT_HALF, [0.9, 0.8, 0.1], ids), decide(AT_HALF, [0.9, 0.1, 0.1], ids)) == 1
    assert distance(decide(TOP, [0.9, 0.8, 0.1], ids), decide(TOP, [0.8, 0.9, 0.1], ids)) == 0


@given(cases())
def test_decisions_are_those_of_exact_arithmetic(case):
    """Every rule chooses what sorting by fractions and then by text chooses."""
    rule, scores, ids = case
    assert decide(rule, scores, ids).chosen == expected(rule, scores, ids)


@given(cases(), st.randoms())
def test_the_order_of_the_table_does_not_matter(case, random):
    """A shuffled table gives the same decision, to the byte."""
    rule, scores, ids = case
    rows = list(zip(ids, scores, strict=True))
    random.shuffle(rows)
    shuffled = decide(rule, [s for _, s in rows], [i for i, _ in rows])
    assert shuffled.to_bytes() == decide(rule, scores, ids).to_bytes()


@given(cases())
def test_margins_are_distances_to_the_boundary(case):
    """A margin is the exact distance of I.5, rounded once, to the boundary score of the other side."""
    rule, scores, ids = case
    got = margins(rule, scores, ids)
    if rule.kind == "threshold":
        want = [float(abs(Fraction(s) - Fraction(float(rule.threshold)))) for s in scores]
    elif rule.count == len(ids):
        want = [np.inf] * len(ids)
    else:
        keys = sorted((key_of(rule, s) for s in scores), reverse=True)
        chosen = expected(rule, scores, ids)
        want = [
            float(key_of(rule, s) - keys[rule.count]) if i in chosen else float(keys[rule.count - 1] - key_of(rule, s))
            for i, s in zip(ids, scores, strict=True)
        ]
    assert got.tolist() == want
    assert got.dtype == np.float64
    assert (got >= 0).all()


@given(st.lists(st.sets(st.sampled_from("abcd")), min_size=3, max_size=3))
def test_distance_is_a_metric(sets):
    """It is symmetric, zero for equal decisions only, and obeys the triangle inequality."""
    a, b, c = (Decision(rule=AT_HALF, chosen=tuple(sorted(s))) for s in sets)
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c)
