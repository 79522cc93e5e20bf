"""Certificates at scale against the room's own `certify`, brute force over pairs, and sorts."""

import math
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError, Rule
from veristate.decisions import (
    Box,
    Certified,
    ScoreRange,
    Unresolved,
    certify,
    certify_threshold,
    certify_threshold_between,
    certify_top_k,
    certify_top_k_between,
    decide,
)

ANY = ScoreRange(lower=-math.inf, upper=math.inf)
TINY = 2.0**-1074
# Few values, so that ends often meet: signed zeros, subnormals, neighbours.
VALUES = [-2.0, -1.0, -TINY, -0.0, 0.0, TINY, 2 * TINY, 0.5, 1.0, math.nextafter(1.0, 2.0), 2.0]
ENDS = [-math.inf, *VALUES, math.inf]
SCORES = st.one_of(
    st.sampled_from(VALUES),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-(2.0**-1015), 2.0**-1015),
)
NAMES = ["a", "a\0", "b", "B", "10", "9", "é"]


@st.composite
def tables(draw, values=SCORES, other=None):
    """Up to seven candidates: two lists of numbers, identifiers in any order, and a count."""
    n = draw(st.integers(1, len(NAMES)))
    lists = [draw(st.lists(kind, min_size=n, max_size=n)) for kind in (values, values if other is None else other)]
    return np.array(lists[0]), np.array(lists[1]), draw(st.permutations(NAMES))[:n], draw(st.integers(1, n))


def assert_agree(found, expected, names):
    """The certificate says what `certify` says, and lists what it lists."""
    assert found.certified == isinstance(expected, Certified)
    if isinstance(expected, Unresolved):
        assert found.gap_lower <= 0
        assert (tuple(found.open_listed), found.open_count) == (expected.indices, len(expected.indices))
    else:
        assert tuple(sorted(names[i] for i in found.chosen)) == expected.decision.chosen
        assert found.gap_lower >= 0
        assert found.open_count == 0


RADII = st.one_of(st.sampled_from([0.0, TINY, 0.5, 1.0, 2.0]), st.floats(0.0, 2.0), st.floats(0.0, 2.0**-1015))


def rounded(exact: Fraction, towards: float) -> float:
    """The float next to an exact value, on the side of an infinity."""
    nearest = float(exact)
    if Fraction(nearest) == exact or (Fraction(nearest) > exact) == (towards > 0):
        return nearest
    return math.nextafter(nearest, towards)


def in_order(values, names) -> list[int]:
    """Positions, best first: by value, then by identifier."""
    return sorted(range(len(values)), key=lambda i: (-values[i], names[i]))


@pytest.mark.parametrize("k", [0, -1, 4, True, 2.0, "2"])
def test_a_count_that_is_none_is_refused(k):
    """K must be an integer from 1 to n."""
    with pytest.raises(InputError, match=r"with 3 candidates it must be 1\.\.3"):
        certify_top_k([0.1, 0.2, 0.3], k)


@pytest.mark.parametrize(
    ("scores", "radius", "message"),
    [
        ([], 0.0, "must have shape"),
        ([[0.1]], 0.0, "must have shape"),
        (np.array([1, 2]), 0.0, "scores are int64; give"),
        (np.array([1, 2], dtype=np.longdouble), 0.0, "scores are float128; give"),
        ([0.1, 0.2], [0.1], r"radii must have shape \(2,\)"),
        ([0.1, 0.2], -1e-9, "radius is -1e-09"),
        ([0.1, 0.2], np.nan, "radius is nan"),
        ([0.1, 0.2], [0.0, -1.0], "position 1 is 0.2 and its radius -1.0"),
        ([0.1, 0.2], [np.nan, 0.0], "position 0 is 0.1 and its radius nan"),
    ],
)
def test_scores_and_radii_that_are_none_are_refused(scores, radius, message):
    """Other shapes and types, and radii that are no numbers >= 0, are refused, saying what and where."""
    with pytest.raises(InputError, match=message):
        certify_top_k(scores, 1, radius=radius)
    with pytest.raises(InputError, match=message):
        certify_threshold(scores, 0.5, radius=radius)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 64, 199_999])
def test_a_score_that_is_not_finite_is_refused_by_its_position(bad, place):
    """One NaN or infinity among many is found in the pass, in every kind of call, also where K = n."""
    scores = np.random.default_rng(1).standard_normal(200_000).astype(np.float32)
    scores[place] = bad
    calls = [
        lambda: certify_top_k(scores, 10),
        lambda: certify_top_k(scores, len(scores)),
        lambda: certify_top_k(scores, 10, radius=np.full(len(scores), 0.1)),
        lambda: certify_threshold(scores, 0.5, radius=0.1),
    ]
    for call in calls:
        with pytest.raises(InputError, match=f"score at position {place} is"):
            call()


@pytest.mark.parametrize(
    ("lower", "upper"), [([0.0, 0.3], [0.1, 0.2]), ([0.0, np.nan], [0.1, 0.2]), ([0, 0], [0, np.nan])]
)
def test_ends_that_make_no_interval_are_refused(lower, upper):
    """NaN, and lower above upper, are refused by position."""
    for call in (lambda: certify_top_k_between(lower, upper, 1), lambda: certify_threshold_between(lower, upper, 0.1)):
        with pytest.raises(InputError, match="at position 1 lower is above upper, or NaN"):
            call()


@pytest.mark.parametrize(
    ("identifiers", "message"),
    [
        (["a"], "2 scores need 2 identifiers, not 1"),
        ("ab", "not one text"),
        ([1, 2], "identifiers must be text"),
        (["a", "a"], "identifier 'a' is at positions"),
    ],
)
def test_identifiers_that_settle_no_tie_are_refused(identifiers, message):
    """Of another number, not text, or equal for two candidates that meet at the boundary."""
    with pytest.raises(InputError, match=message):
        certify_top_k([0.5, 0.5], 1, identifiers=identifiers)


@pytest.mark.parametrize("threshold", ["half", None, math.nan, math.inf, "nan"])
def test_a_threshold_that_is_none_is_refused(threshold):
    """Text that is no number, NaN and infinities."""
    with pytest.raises(InputError, match="threshold"):
        certify_threshold([0.5], threshold)


def test_all_of_them_need_no_evidence():
    """K = n is certified whatever the radius, with no pair at the boundary."""
    found = certify_top_k([0.5, 0.1, 0.3], 3, radius=math.inf)
    assert found.certified
    assert (found.chosen.tolist(), found.last, found.challenger, found.gap_lower) == ([0, 1, 2], None, None, math.inf)
    assert found.reason == "all 3 candidates are chosen"


def test_the_pair_at_the_boundary_is_named():
    """The worst end inside and the best end outside, with positions, identifiers, gap, and how many are open."""
    found = certify_top_k([0.75, 0.5, 0.25], 1, radius=0.0625, identifiers=["x", "y", "z"])
    assert found.certified
    assert (found.last.identifier, found.last.value) == ("x", 0.6875)
    assert (found.challenger.position, found.challenger.value, found.gap_lower) == (1, 0.5625, 0.125)
    found = certify_top_k([0.75, 0.5, 0.25], 1, radius=0.25)
    assert (found.certified, found.gap_lower, found.open_listed.tolist()) == (False, -0.25, [0, 1])
    assert (found.last.position, found.challenger.position, found.chosen.tolist()) == (0, 1, [])
    assert found.reason == (
        "the last lower end inside, 0.5 of position 0, is below the best upper end outside, 0.75 of position 1; "
        "2 candidates are open"
    )


def test_ends_that_meet_go_to_the_first_by_position_or_by_identifier():
    """Equal ends certify when the chosen candidate comes first, by text where there is text."""
    lower, upper = [0.5, 0.2], [0.9, 0.5]
    assert certify_top_k_between(lower, upper, 1).certified
    assert certify_top_k_between(lower, upper, 1, identifiers=["a", "b"]).certified
    found = certify_top_k_between(lower, upper, 1, identifiers=["b", "a"])
    assert (found.certified, found.gap_lower, found.open_count) == (False, 0.0, 2)
    assert "may lose the tie" in found.reason


def test_rounding_outward_can_make_ends_equal_that_scores_tell_apart():
    """Equal ends go to the first position, not to the higher score, and an end that rounding moved up is not missed."""
    found = certify_top_k([TINY, -2.0, 2 * TINY], 1, radius=1.0)
    assert (found.last.position, found.last.value, found.open_listed.tolist()) == (0, -1.0, [0, 2])
    found = certify_top_k([-TINY, 2.0], 1, radius=1.0)
    assert (found.certified, found.challenger.value, found.open_listed.tolist()) == (False, 1.0, [0, 1])


def test_the_list_of_open_candidates_is_bounded_and_their_count_is_not():
    """Of ten open candidates the first three are listed."""
    found = certify_top_k(np.zeros(10), 4, radius=1.0, list_at_most=3)
    assert (found.open_count, found.open_listed.tolist()) == (10, [0, 1, 2])
    found = certify_threshold(np.zeros(10), 0.0, radius=1.0, list_at_most=3)
    assert (found.open_count, found.open_listed.tolist(), found.certified) == (10, [0, 1, 2], False)


@given(tables())
@settings(max_examples=150)
def test_exact_scores_choose_as_decide_does(case):
    """With radius 0 the certificate is the decision itself: ties by identifier, zeros of either sign equal."""
    scores, _, names, k = case
    rule = Rule(kind="top_k", count=k)
    expected = Certified(decision=decide(rule, scores, names, score_range=ANY))
    assert_agree(certify_top_k(scores, k, identifiers=names), expected, names)
    places = [f"{i}" for i in range(len(scores))]
    assert_agree(certify_top_k(scores, k), Certified(decision=decide(rule, scores, places, score_range=ANY)), places)


@given(tables(st.sampled_from(ENDS)), st.booleans())
@settings(max_examples=200)
def test_intervals_are_certified_as_certify_does(case, named):
    """The same outcome, the same chosen and the same open candidates, with infinite ends too."""
    a, b, names, k = case
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    ids = names if named else [str(i) for i in range(len(a))]
    expected = certify(Rule(kind="top_k", count=k), Box(lower=lower, upper=upper), ids, score_range=ANY)
    assert_agree(certify_top_k_between(lower, upper, k, identifiers=names if named else None), expected, ids)


@given(tables(other=RADII), st.booleans(), st.booleans())
@settings(max_examples=200)
def test_a_radius_makes_a_box_that_certify_judges_alike(case, named, single):
    """The box of score -+ radius in fractions, rounded outward, gives the same outcome in both kinds of rule."""
    scores, radii, names, k = case
    radii = np.full(len(scores), radii[0]) if single else radii
    box = Box(
        lower=[rounded(Fraction(s) - Fraction(e), -math.inf) for s, e in zip(scores, radii, strict=True)],
        upper=[rounded(Fraction(s) + Fraction(e), +math.inf) for s, e in zip(scores, radii, strict=True)],
    )
    radius = float(radii[0]) if single else radii
    ids = names if named else [str(i) for i in range(len(scores))]
    expected = certify(Rule(kind="top_k", count=k), box, ids, score_range=ANY)
    assert_agree(certify_top_k(scores, k, radius=radius, identifiers=names if named else None), expected, ids)
    expected = certify(Rule(kind="threshold", threshold="0.5"), box, ids, score_range=ANY)
    found = certify_threshold(scores, "0.5", radius=radius)
    assert found.certified == isinstance(expected, Certified)
    assert tuple(found.open_listed) == (expected.indices if isinstance(expected, Unresolved) else ())


@given(tables(st.sampled_from(ENDS)), st.sampled_from(VALUES))
@settings(max_examples=120)
def test_a_threshold_has_every_candidate_on_one_side_or_open(case, t):
    """Inside when lower >= t, outside when upper < t, otherwise open, counted one by one."""
    a, b, _, _ = case
    pairs = [(min(x, y), max(x, y)) for x, y in zip(a, b, strict=True)]
    found = certify_threshold_between([x for x, _ in pairs], [y for _, y in pairs], t)
    between = [i for i, (x, y) in enumerate(pairs) if x < t <= y]
    assert found.inside == sum(x >= t for x, _ in pairs)
    assert found.outside == sum(y < t for _, y in pairs)
    assert (found.certified, found.open_count, found.open_listed.tolist()) == (not between, len(between), between)


@given(tables(st.sampled_from(ENDS)), st.data())
@settings(max_examples=150)
def test_what_is_chosen_stays_chosen_and_the_named_pair_can_change_places(case, data):
    """In any corner the chosen are among the best k; in an open case the pair's own ends put the other one first."""
    a, b, names, k = case
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    found = certify_top_k_between(lower, upper, k, identifiers=names)
    corner = [data.draw(st.sampled_from([x, y])) for x, y in zip(lower, upper, strict=True)]
    best = set(in_order(corner, names)[:k])
    assert set(found.chosen.tolist()) <= best
    if found.certified:
        assert len(found.chosen) == k
        return
    last, challenger = found.last, found.challenger
    assert (last.value, challenger.value) == (lower[last.position], upper[challenger.position])
    assert last.position in in_order(lower, names)[:k]
    assert challenger.position not in in_order(lower, names)[:k]
    assert in_order([last.value, challenger.value], [last.identifier, challenger.identifier]) == [1, 0]


def brute_force(lower, upper, ranks, k) -> tuple:
    """For each row of many small cases: who is inside and who is outside, by comparing all pairs."""
    first = ranks[:, None, :] < ranks[:, :, None]  # [case, i, j]: j comes before i among equals
    others = ~np.eye(lower.shape[1], dtype=bool)

    def preceding(theirs, mine):
        x, y = theirs[:, None, :], mine[:, :, None]
        return (((x > y) | ((x == y) & first)) & others).sum(axis=2)

    return preceding(upper, lower) < k[:, None], preceding(lower, upper) >= k[:, None]


def compare_with_brute_force(cases: int, seed: int):
    """Random small cases whose ends lie on a grid and often meet; points, subnormals, text and position ties."""
    rng = np.random.default_rng(seed)
    for n in range(2, 10):
        many = cases // 8
        lower = rng.integers(0, 8, (many, n)) / 4.0 * rng.choice([1.0, 1.0, TINY], (many, 1))
        upper = lower + rng.integers(0, 3, (many, n)) / 4.0 * rng.choice([0.0, 1.0, TINY], (many, 1))
        named = rng.random(many) < 0.5
        ranks = np.where(named[:, None], rng.permuted(np.tile(np.arange(n), (many, 1)), axis=1), np.arange(n))
        k = rng.integers(1, n + 1, many)
        inside, outside = brute_force(lower, upper, ranks, k)
        certified = (inside | outside).all(axis=1)
        undecided = ~(inside | outside) & (lower < upper)
        for i in range(many):
            names = [f"{rank}" for rank in ranks[i].tolist()] if named[i] else None
            found = certify_top_k_between(lower[i], upper[i], int(k[i]), identifiers=names)
            assert found.certified == certified[i]
            assert found.chosen.tolist() == np.flatnonzero(inside[i]).tolist()
            assert found.open_listed.tolist() == np.flatnonzero(undecided[i]).tolist()


def test_twenty_thousand_small_cases_agree_with_brute_force():
    """Certified, chosen and open as the comparison of all pairs says."""
    compare_with_brute_force(20_000, 1)


@pytest.mark.soak
def test_a_million_small_cases_agree_with_brute_force():
    """The same, fifty times as many."""
    compare_with_brute_force(1_000_000, 2)


def arranged(order: str, n: int, dtype) -> np.ndarray:
    """Scores in an order that is hard for a selection, or full of ties."""
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n)
    if order == "ascending":
        values = np.sort(values)
    elif order == "descending":
        values = np.sort(values)[::-1]
    elif order == "equal":
        values = np.full(n, 0.25)
    elif order == "two values":
        values = (values > 1.0).astype(np.float64)
    elif order == "few values":
        values = np.round(values, 1)
    elif order == "saw":
        values = np.arange(n) % 997 + values
    elif order == "sampled":  # large exactly where the guess of the floor looks
        for i in range(64):
            start = (2 * i + 1) * n // 128
            values[start : start + n // 256 // 64] += 100.0
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize(
    "order", ["random", "ascending", "descending", "equal", "two values", "few values", "saw", "sampled"]
)
@pytest.mark.parametrize("k", [1, 3_000])
def test_many_scores_in_any_order_are_chosen_as_a_sort_says(order, dtype, k):
    """Over 200,000 scores: the first k of lexsort, for exact scores and for a radius that the gap allows."""
    scores = arranged(order, 200_003, dtype)
    wide = scores.astype(np.float64)
    ranked = np.lexsort((np.arange(len(wide)), -wide))
    assert np.array_equal(certify_top_k(scores, k).chosen, np.sort(ranked[:k]))
    gap = wide[ranked[k - 1]] - wide[ranked[k]]
    found = certify_top_k(scores, k, radius=gap * 0.499)
    assert found.certified
    assert np.array_equal(found.chosen, np.sort(ranked[:k]))
    radius = gap * 0.501 if gap else 1e-6
    for radii in (radius, np.full(len(wide), radius)):
        found = certify_top_k(scores, k, radius=radii)
        assert not found.certified
        assert (found.last.position, found.challenger.position) == (ranked[k - 1], ranked[k])
        near = np.flatnonzero((wide <= wide[ranked[k]] + 2 * radius) & (wide >= wide[ranked[k - 1]] - 2 * radius))
        assert (found.open_count, found.open_listed.tolist()) == (len(near), near[:1000].tolist())
        assert np.array_equal(found.chosen, np.setdiff1d(ranked[:k], near))


@pytest.mark.parametrize("step", [1, 3, -1])
def test_a_strided_or_mapped_array_is_read_as_it_is(step, tmp_path):
    """A memory-mapped file, and every third or the reverse of an array, give what a copy gives."""
    scores = arranged("few values", 100_001, np.float32)
    scores.tofile(tmp_path / "scores")
    mapped = np.memmap(tmp_path / "scores", dtype=np.float32, mode="r")[::step]
    for radius in (0.0, 0.05):
        found, expected = (certify_top_k(array, 500, radius=radius) for array in (mapped, scores[::step].copy()))
        assert np.array_equal(found.chosen, expected.chosen)
        assert (found.certified, found.open_count, found.last) == (
            expected.certified,
            expected.open_count,
            expected.last,
        )


def test_many_ties_are_broken_by_text_wherever_they_stand():
    """Of 100,000 equal scores and some better ones, those with the smallest identifiers are chosen."""
    rng = np.random.default_rng(3)
    scores = (rng.random(100_000) < 0.002).astype(np.float32)
    names = [f"m{i}" for i in rng.permutation(len(scores))]
    wanted = sorted(range(len(scores)), key=lambda i: (-scores[i], names[i]))[:400]
    for identifiers in (names, np.array(names)):
        found = certify_top_k(scores, 400, identifiers=identifiers)
        assert found.certified
        assert found.chosen.tolist() == sorted(wanted)
        assert found.last.identifier == names[wanted[-1]]


class Watched(Sequence):
    """Identifiers that count how often they are read."""

    def __init__(self, n):
        self.n, self.reads = n, 0

    def __len__(self):
        return self.n

    def __getitem__(self, position):
        self.reads += 1
        return f"{position:09}"


def test_identifiers_are_read_only_where_ends_meet():
    """Without a tie at the boundary the identifiers of the named pair are read, and no other."""
    scores = np.random.default_rng(4).permutation(100_000).astype(np.float64)
    names = Watched(len(scores))
    assert certify_top_k(scores, 100, radius=0.25, identifiers=names).certified
    assert names.reads == 2


def test_a_certificate_holds_a_few_k_scores_and_no_copy(tmp_path):
    """Over a mapped file of 64 MB, certified and open, less than 25 MB are allocated."""
    np.random.default_rng(6).standard_normal(1 << 24, dtype=np.float32).tofile(tmp_path / "scores")
    scores = np.memmap(tmp_path / "scores", dtype=np.float32, mode="r")
    certify_top_k(scores[:1000], 10, radius=1.0)
    tracemalloc.start()
    try:
        for radius in (0.0, 1e-4, np.inf):
            certify_top_k(scores, 10_000, radius=radius)
        assert tracemalloc.get_traced_memory()[1] < 25e6
    finally:
        tracemalloc.stop()
