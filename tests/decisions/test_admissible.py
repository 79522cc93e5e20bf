"""Certificates against brute force over every corner of small boxes, and over grids."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from veristate.core import InputError, Rule, UndecidedError
from veristate.decisions import (
    Box,
    Certified,
    ScoreRange,
    Unresolved,
    certify,
    decide,
    ensemble_mean,
    equal_inputs,
    nearest_gap_certificate,
)

GRID = [0.0, 0.25, 0.5, 0.75, 1.0]


@st.composite
def boxes(draw, kinds=("top_k", "threshold", "nearest"), sizes=(1, 5)):
    """A rule and a small box with ends on a coarse grid, so that ends often meet, and shuffled identifiers."""
    n = draw(st.integers(*sizes))
    ends = draw(st.lists(st.tuples(st.sampled_from(GRID), st.sampled_from([0, 0, 1, 2])), min_size=n, max_size=n))
    lower = np.array([a for a, _ in ends])
    upper = np.minimum(lower + 0.25 * np.array([k for _, k in ends]), 1.0)
    kind = draw(st.sampled_from(kinds))
    count = None if kind == "threshold" else draw(st.integers(1, n))
    threshold = None if kind == "top_k" else draw(st.sampled_from(["0.25", "0.5", "0.6", "1"]))
    ids = draw(st.permutations(["a", "a0", "b", "B", "10", "9"]))[:n]
    return Rule(kind=kind, count=count, threshold=threshold), lower, upper, ids


def decisions_on(rule, lower, upper, ids) -> set:
    """All values of the rule over the corners; for `nearest` also with scores at the threshold, where distances turn.

    A membership changes only when two keys pass each other, and every order that a box allows for two keys is reached
    with each at one of its extreme values.
    """
    return {decide(rule, list(q), ids) for q in itertools.product(*decisions_axes(rule, lower, upper))}


def decisions_axes(rule, lower, upper) -> list:
    """The scores of each candidate at which a decision can turn."""
    axes = []
    for a, b in zip(lower, upper, strict=True):
        points = {float(a), float(b)}
        if rule.kind == "nearest" and a <= float(rule.threshold) <= b:
            points.add(float(rule.threshold))
        axes.append(sorted(points))
    return axes


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0.2], [0.1], "lower above upper"),
        ([np.nan], [0.1], "NaN"),
        ([0.2], [np.nan], "NaN"),
        ([0.2], [0.3, 0.4], "one shape"),
    ],
)
def test_a_box_that_is_none_is_refused(lower, upper, message):
    """Bounds in the wrong order, NaN and different shapes make no box."""
    with pytest.raises(InputError, match=message):
        Box(lower=lower, upper=upper)


def test_recomputed_values_must_be_scores():
    """A recomputed NaN, infinity or value outside the range is refused, a suspect one is not even read."""
    for bad in (np.nan, np.inf, 1.5, -0.1):
        with pytest.raises(InputError, match="1 recomputed values lie outside"):
            Box.from_recomputed([0.5, bad], np.array([True, True]))
        box = Box.from_recomputed([0.5, bad], np.array([True, False]))
        assert (box.lower.tolist(), box.upper.tolist()) == ([0.5, 0.0], [0.5, 1.0])


@pytest.mark.parametrize("mask", [np.array([True]), np.array([1, 0]), np.array([[True, False]])])
def test_a_mask_of_another_kind_is_refused(mask):
    """What is fixed is a boolean mask of the values' shape, not counts or another shape."""
    with pytest.raises(InputError, match="boolean mask"):
        Box.from_recomputed([0.5, 0.5], mask)


def test_evidence_that_contradicts_itself_decides_nothing():
    """A recomputed value outside its proven enclosure makes the whole evidence unusable."""
    box = Box.from_recomputed([0.5], np.array([True]))
    with pytest.raises(UndecidedError, match="contradicts itself"):
        box.with_enclosures(Box(lower=[0.6], upper=[0.7]))
    with pytest.raises(InputError, match="don't fit"):
        box.with_enclosures(Box(lower=[0.6, 0.1], upper=[0.7, 0.2]))


def test_a_box_of_another_length_is_refused():
    """A box must have one entry per identifier."""
    with pytest.raises(InputError, match="need a box of shape"):
        certify(Rule(kind="top_k", count=1), Box.trivial(2), ["a"])


def test_a_box_cannot_be_written_to():
    """Neither the box nor the array it was made of changes the other."""
    source = np.array([0.1])
    box = Box(lower=source, upper=source)
    source[0] = 0.9
    assert box.lower[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 0.0


def test_enclosures_narrow_only_what_is_open():
    """The intersection keeps recomputed bits and cuts the trivial range."""
    box = Box.from_recomputed([0.5, 0.1], np.array([True, False])).with_enclosures(
        Box(lower=[0.4, -1.0], upper=[0.6, 0.3])
    )
    assert (box.lower.tolist(), box.upper.tolist()) == ([0.5, 0.0], [0.5, 0.3])


def test_margins_do_not_certify_what_bounds_leave_open():
    """Scores far from every boundary are unresolved while nothing but their range is known."""
    result = certify(Rule(kind="threshold", threshold="0.5"), Box.trivial(2), ["a", "b"])
    assert result == Unresolved(rule=Rule(kind="threshold", threshold="0.5"), indices=(0, 1), ids=("a", "b"))


def test_an_upper_end_at_the_threshold_is_open():
    """[0.4, 0.5] holds a score that is chosen at 0.5, and scores that are not."""
    rule = Rule(kind="threshold", threshold="0.5")
    assert isinstance(certify(rule, Box(lower=[0.4], upper=[0.5]), ["a"]), Unresolved)
    assert isinstance(certify(rule, Box(lower=[0.5], upper=[0.6]), ["a"]), Certified)


def test_ends_that_meet_are_decided_by_text():
    """lower_i == upper_j certifies i before j when i comes first as text, and not otherwise."""
    rule = Rule(kind="top_k", count=1)
    box = Box(lower=[0.5, 0.2], upper=[0.9, 0.5])
    assert certify(rule, box, ["a", "b"]) == Certified(decision=decide(rule, [0.9, 0.2], ["a", "b"]))
    assert isinstance(certify(rule, box, ["b", "a"]), Unresolved)


def test_all_of_them_is_certified_without_evidence():
    """K = n takes one value on any box."""
    result = certify(Rule(kind="top_k", count=3), Box.trivial(3), list("abc"))
    assert isinstance(result, Certified)
    assert result.decision.chosen == ("a", "b", "c")


def test_an_unbounded_range_can_be_certified_around():
    """With no range at all a candidate stays open until it is fixed, and the fixed ones are no work."""
    free = ScoreRange(lower=-np.inf, upper=np.inf)
    rule = Rule(kind="top_k", count=1)
    box = Box.from_recomputed([7.0, 0.0, -3.0], np.array([True, False, True]), free)
    assert certify(rule, box, list("abc"), score_range=free).indices == (1,)
    box = Box.from_recomputed([7.0, 0.0, -3.0], np.array([True, True, True]), free)
    assert certify(rule, box, list("abc"), score_range=free).decision.chosen == ("a",)


@given(boxes())
@settings(max_examples=150)
@example((Rule(kind="nearest", count=1, threshold="0.5"), np.array([0.0, 0.5]), np.array([0.25, 0.75]), ["b", "a"]))
def test_certified_exactly_when_the_rule_takes_one_value(case):
    """Every corner of the box gives the certified decision, or two corners differ and nothing is certified."""
    rule, lower, upper, ids = case
    values = decisions_on(rule, lower, upper, ids)
    result = certify(rule, Box(lower=lower, upper=upper), ids)
    if len(values) == 1:
        assert result == Certified(decision=values.pop())
    else:
        assert isinstance(result, Unresolved)


@given(boxes(), st.lists(st.integers(0, 2), min_size=5, max_size=5), st.booleans())
@settings(max_examples=150)
@example(
    (
        Rule(kind="top_k", count=1, threshold=None),
        np.array([0.5, 0.5, 0.0]),
        np.array([1.0, 1.0, 0.25]),
        ["b", "a", "9"],
    ),
    [0, 0, 1, 2, 2],
    False,
)
def test_equal_candidates_move_together(case, drawn, apart):
    """With classes: every corner at which the candidates of a class have one score, and no other one, is asked.

    Also when each of a class is told something else of their score, and it lies in what is common to them.
    """
    rule, lower, upper, ids = case
    n = len(ids)
    classes = [drawn[:n].index(drawn[i]) for i in range(n)]
    lower, upper = lower[classes], upper[classes]
    axes = decisions_axes(rule, lower, upper)
    corners = itertools.product(*(axes[c] for c in sorted(set(classes))))
    at = {c: k for k, c in enumerate(sorted(set(classes)))}
    values = {decide(rule, [corner[at[c]] for c in classes], ids) for corner in corners}
    wider = np.array([apart and i % 2 == 1 and classes[i] != i for i in range(n)])
    box = Box(lower=np.where(wider, 0.0, lower), upper=np.where(wider, 1.0, upper))
    result = certify(rule, box, ids, classes=classes)
    if len(values) == 1:
        assert result == Certified(decision=values.pop())
    else:
        assert isinstance(result, Unresolved)
        assert all(lower[i] < upper[i] for i in result.indices)


def test_two_enclosures_of_equal_candidates_that_exclude_each_other_decide_nothing():
    """One of them is wrong; and classes that name no first candidate are refused."""
    rule, box = Rule(kind="top_k", count=1), Box(lower=[0.1, 0.6], upper=[0.4, 0.7])
    with pytest.raises(UndecidedError, match="contradicts itself"):
        certify(rule, box, ["a", "b"], classes=[0, 0])
    for wrong in ([1, 1], [0, 2], [0], [0, -1]):
        with pytest.raises(InputError, match="first candidate of its class"):
            certify(rule, box, ["a", "b"], classes=wrong)


def test_inputs_are_equal_when_their_text_is():
    """Nothing is said where all are different; "CO" and "OC" are one molecule and two inputs."""
    assert equal_inputs(["CCO", "CO", "OC"]) is None
    assert equal_inputs(["CCO", "CO", "CCO", "CO", "C"]).tolist() == [0, 1, 0, 1, 4]


@given(boxes(), st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5))
@settings(max_examples=120)
def test_a_certified_decision_holds_inside_too(case, weights):
    """Points inside a certified box decide as the certificate says."""
    rule, lower, upper, ids = case
    result = certify(rule, Box(lower=lower, upper=upper), ids)
    q = np.clip(lower + np.array(weights[: len(ids)]) * (upper - lower), lower, upper)
    if isinstance(result, Certified):
        assert decide(rule, q, ids) == result.decision


@given(boxes(kinds=("top_k",)))
@settings(max_examples=120)
def test_sorting_agrees_with_comparing_all_pairs(case):
    """The O(n log n) answer is the pairwise condition of Corollary 1 with the tie rule."""
    rule, lower, upper, ids = case
    chosen = set(decide(rule, lower, ids).chosen)
    pairs = [(i, j) for i in range(len(ids)) for j in range(len(ids)) if ids[i] in chosen and ids[j] not in chosen]
    beats = all(lower[i] > upper[j] or (lower[i] == upper[j] and ids[i] < ids[j]) for i, j in pairs)
    assert isinstance(certify(rule, Box(lower=lower, upper=upper), ids), Certified) == beats


@given(boxes(), st.data())
@settings(max_examples=120)
def test_what_is_named_is_open_unfixed_and_enough(case, data):
    """Named candidates are in some decisions only and not fixed, and fixing all of them anywhere certifies."""
    rule, lower, upper, ids = case
    result = certify(rule, Box(lower=lower, upper=upper), ids)
    if isinstance(result, Certified):
        return
    values = decisions_on(rule, lower, upper, ids)
    is_open = {i for i, name in enumerate(ids) if len({name in d.chosen for d in values}) == 2}
    unfixed = {i for i in range(len(ids)) if lower[i] < upper[i]}
    if rule.kind != "nearest":  # there [0, 1] around 0.5 has a range of distances, but so has [0, 0.5]
        assert set(result.indices) == is_open & unfixed
    assert set(result.indices) <= is_open & unfixed
    assert result.ids == tuple(ids[i] for i in result.indices)
    settled_low, settled_high = lower.copy(), upper.copy()
    for i in result.indices:
        settled_low[i] = settled_high[i] = data.draw(st.sampled_from([lower[i], (lower[i] + upper[i]) / 2, upper[i]]))
    assert isinstance(certify(rule, Box(lower=settled_low, upper=settled_high), ids), Certified)


def test_a_large_table_is_quick_and_right():
    """20,000 candidates with narrow intervals are certified as a direct comparison says."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0, 1, 20_000)
    ids = [f"m{i}" for i in range(p.size)]
    rule = Rule(kind="top_k", count=4_000)
    ranked = np.sort(p)[::-1]
    gap = ranked[3_999] - ranked[4_000]
    for e, certified in [(gap * 0.499, True), (gap * 0.501, False)]:
        assert isinstance(certify(rule, Box(lower=p - e, upper=p + e), ids), Certified) == certified


def test_the_mean_of_recomputed_members_certifies_itself():
    """A box of recomputed scores is a point, and its decision that of the scores."""
    p = ensemble_mean(np.random.default_rng(2).uniform(0, 1, (3, 50)), 1.05)
    ids = [str(i) for i in range(50)]
    for rule in (Rule(kind="top_k", count=7), Rule(kind="threshold", threshold="0.3")):
        box = Box.from_recomputed(p, np.ones(50, dtype=bool))
        assert certify(rule, box, ids) == Certified(decision=decide(rule, p, ids))


@pytest.mark.parametrize("bad", [np.nan, -1e-9, np.inf])
def test_a_gap_needs_a_bound(bad):
    """NaN, negative and infinite error bounds certify nothing."""
    with pytest.raises(InputError, match="error bound"):
        nearest_gap_certificate(Rule(kind="nearest", count=1, threshold="0.5"), [0.1, 0.4], bad, ["a", "b"])


def test_the_gap_is_for_nearest_rules():
    """Another rule is refused and pointed to certify."""
    with pytest.raises(InputError, match="use certify"):
        nearest_gap_certificate(Rule(kind="top_k", count=1), [0.1, 0.4], 0.1, ["a", "b"])


def test_a_gap_of_exactly_twice_the_bound_is_not_enough():
    """The gap must exceed 2e: at g = 2e two distances can meet."""
    rule = Rule(kind="nearest", count=1, threshold="0.5")
    result = nearest_gap_certificate(rule, [0.5, 0.75, 1.0], 0.125, ["a", "b", "c"])
    assert isinstance(result, Unresolved)
    assert result.ids == ("a", "b")
    assert isinstance(nearest_gap_certificate(rule, [0.5, 0.75, 1.0], 0.1249, ["a", "b", "c"]), Certified)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
    st.floats(0.0, 0.3),
    st.integers(1, 5),
    st.sampled_from(["0.3", "0.5", "0.7"]),
    st.permutations(list("abcde")),
)
@settings(max_examples=120)
def test_a_gap_certificate_is_never_wrong(scores, e, count, threshold, names):
    """When the gap certifies, the corners of the box of radius e all give that decision, and so does `certify`."""
    ids, p = names[: len(scores)], np.array(scores)
    rule = Rule(kind="nearest", count=min(count, len(ids)), threshold=threshold)
    result = nearest_gap_certificate(rule, p, e, ids)
    if isinstance(result, Unresolved):
        assert result.indices
        return
    assert decisions_on(rule, p - e, p + e, ids) == {result.decision}
    assert certify(rule, Box(lower=p - e, upper=p + e), ids) == result
