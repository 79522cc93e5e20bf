"""Distances between outputs: laws, and values from other libraries and by hand."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine, jaccard

from veristate.attest.challenge import metric_named
from veristate.core import InputError

NAMES = st.lists(st.text(alphabet="abcdef", min_size=1, max_size=2), max_size=6, unique=True)
NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3)
TEXTS = st.text(alphabet="ab cé", max_size=12)


def artifact(value: object) -> bytes:
    """The bytes of a value."""
    return json.dumps(value).encode()


def embed(text: str) -> list[float]:
    """Counts of three letters and a constant."""
    return [text.count("a"), text.count("b"), text.count("c"), 1.0]


METRICS = {
    "digest": metric_named("digest"),
    "numeric": metric_named("numeric", {"absolute": "0.001", "relative": "0.01"}),
    "set": metric_named("set"),
    "ranking": metric_named("ranking"),
    "tokens": metric_named("tokens"),
    "embedding": metric_named("embedding", embed=embed),
    "structured": metric_named("structured", {"field.label": "2 equal", "field.cites": "1 set"}),
}
OBJECTS = st.fixed_dictionaries(
    {}, optional={"label": st.sampled_from("ab"), "cites": NAMES, "more": st.integers(0, 1)}
)
VALUES = {"set": NAMES, "ranking": NAMES, "numeric": NUMBERS, "structured": OBJECTS}


@pytest.mark.parametrize("name", METRICS)
@given(data=st.data())
def test_every_metric_is_symmetric_bounded_and_zero_for_the_same(name, data):
    """Equal bytes are at 0, all distances lie in [0, 1], and the order of the two does not matter."""
    if name in VALUES:
        a, b = (artifact(data.draw(VALUES[name])) for _ in range(2))
    else:
        a, b = (data.draw(TEXTS).encode() for _ in range(2))
    metric = METRICS[name]
    assert metric(a, a) == 0
    assert 0 <= metric(a, b) <= 1
    assert metric(a, b) == metric(b, a)


@pytest.mark.parametrize(
    ("name", "good", "broken"),
    [
        *(
            (name, good, broken)
            for name, good in (
                ("numeric", b"[1, 2]"),
                ("set", b'["a"]'),
                ("ranking", b'["a"]'),
                ("structured", b'{"label": "a"}'),
            )
            for broken in (b"\xff\xfe", b"{", b"[" * 100_000)
        ),
        ("tokens", b"a word", b"\xff\xfe"),
        ("embedding", b"a word", b"\xff\xfe"),
    ],
)
def test_what_cannot_be_read_is_as_far_as_can_be(name, good, broken):
    """Bytes that are no JSON or no text are at 1 from a good output, and at 0 from themselves."""
    assert METRICS[name](good, broken) == 1
    assert METRICS[name](broken, broken) == 0


@given(NAMES, NAMES)
def test_sets_are_compared_as_scipy_does(a, b):
    """The Jaccard distance of two lists is scipy's over their indicator vectors."""
    union = sorted(set(a) | set(b))
    expected = jaccard([n in a for n in union], [n in b for n in union]) if union else 0
    assert math.isclose(METRICS["set"](artifact(a), artifact(b)), expected, abs_tol=1e-12)


@given(NAMES, NAMES)
def test_rankings_are_compared_by_the_intersection_metric(a, b):
    """The mean over depths of the symmetric difference's share, counted element by element."""
    k = max(len(a), len(b))
    parts = [(2 * d - 2 * len([x for x in a[:d] if x in b[:d]])) / (2 * d) for d in range(1, k + 1)]
    assert math.isclose(METRICS["ranking"](artifact(a), artifact(b)), sum(parts) / k if k else 0, abs_tol=1e-12)


@given(TEXTS, TEXTS)
def test_embeddings_are_compared_by_half_scipys_cosine_distance(a, b):
    """(1 - cos) / 2."""
    expected = 0 if a == b else cosine(embed(a), embed(b)) / 2
    assert math.isclose(METRICS["embedding"](a.encode(), b.encode()), expected, abs_tol=1e-12)


def test_words_count_as_often_as_they_stand_there():
    """F1 of the multisets of words by hand: 'the cat the' and 'The dog' share one word of three and two."""
    assert math.isclose(METRICS["tokens"](b"the cat the", b"The dog!"), 1 - 2 * 1 / 5)
    assert METRICS["tokens"](b"...", b"") == 1
    assert Counter("aab") & Counter("ab") == Counter("ab")


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([100.0], [101.011], 0.5),  # tolerance .001 + .01 * 101.011 = 1.01111: just within
        ([1.0], [1.0, 2.0], 1.0),
        ([1.0], ["1.0"], 1.0),
        ([1.0], [math.nan], 1.0),
        ([math.inf], [1e300], 1.0),
        ([True], [1.0], 0.0),  # equal values are equal before they are read as numbers
        ([{"float": "1.5"}], [1.5], 0.0),
        ([[1], [2]], [[1, 2]], 1.0),
    ],
)
def test_numbers_within_tolerance_lie_below_one_half(a, b, distance):
    """A difference at the tolerance is at 1/2; other shapes, other types and NaN are at 1."""
    assert math.isclose(METRICS["numeric"](artifact(a), artifact(b)), distance, abs_tol=1e-4)


def test_a_field_outside_the_schema_counts_as_much_as_the_heaviest():
    """What is added to an output beside the schema moves it by 2 of 5, a missing field by its own weight of 3."""
    known = {"label": "a", "cites": ["x"]}
    metric = METRICS["structured"]
    assert metric(artifact(known), artifact(known | {"note": "buy"})) == 2 / 5
    assert metric(artifact(known), artifact({"label": "a"})) == 1 / 3
    assert metric(artifact({"map": known}), artifact(known)) == 0


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("cosine", {}, "no metric is called"),
        ("embedding", {}, "needs the embedding"),
        ("set", {"absolute": "1"}, "takes no absolute"),
        ("numeric", {"absolute": "-1"}, "finite number"),
        ("numeric", {"relative": "nan"}, "finite number"),
        ("structured", {}, "at least one field"),
        ("structured", {"field.a": "0 set"}, "weighs something"),
        ("structured", {"field.a": "set"}, "weight metric"),
        ("structured", {"a": "1 set"}, "weight metric"),
    ],
)
def test_a_policy_that_names_no_metric_is_refused(name, parameters, said):
    """Unknown metrics and parameters, and numbers that are none, are named."""
    with pytest.raises(InputError, match=said):
        metric_named(name, parameters)
