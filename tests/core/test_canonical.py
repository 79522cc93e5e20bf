"""Canonical bytes and digests."""

import hashlib
import json
import math
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import InputError, canonical_bytes, decimal_string, digest, plain

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_has_no_decimal_string(number):
    """NaN can't become null, nor an infinity a word, on its way into a record."""
    with pytest.raises(InputError, match="can't hold the number"):
        decimal_string(number)


@pytest.mark.parametrize("value", [0.5, {"a": [1.0]}, (1, 2.5)])
def test_a_float_is_refused_wherever_it_hides(value):
    """Hashed bytes hold no floats: their text would depend on who writes it."""
    with pytest.raises(InputError, match="decimal_string"):
        canonical_bytes(value)


def test_what_json_can_not_hold_is_refused_by_type():
    """Bytes, sets and objects are named in the error."""
    with pytest.raises(InputError, match="set"):
        plain({1, 2})
    with pytest.raises(InputError, match="bytes"):
        plain(b"x")


@pytest.mark.parametrize("value", [2**53, -(2**53), "\ud800"])
def test_what_rfc_8785_has_no_bytes_for_is_refused(value):
    """Integers that another reader would round, and half a surrogate pair."""
    with pytest.raises(InputError, match="can't hold this value"):
        canonical_bytes({"a": value})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_string_reads_back_bit_for_bit(number):
    """The shortest text that is still exactly the number, the sign of zero included."""
    assert math.copysign(1, float(decimal_string(number))) == math.copysign(1, number)
    assert float(decimal_string(number)) == number


@given(values)
def test_canonical_bytes_are_json_of_the_same_value(value):
    """Another JSON reader gets the value back."""
    assert json.loads(canonical_bytes(value)) == value


@given(st.dictionaries(texts, st.integers(-5, 5), min_size=2))
def test_the_order_of_keys_does_not_matter(value):
    """Equal dictionaries have equal bytes."""
    assert canonical_bytes(dict(reversed(value.items()))) == canonical_bytes(value)


def test_keys_are_sorted_as_rfc_8785_says():
    """The RFC's own example of sorting by UTF-16 code units."""
    given_keys = {"€": "Euro", "\r": "CR", "\ufb33": "Dalet", "1": "One", "😀": "Emoji", "\x80": "Control", "ö": "o"}
    found = list(json.loads(canonical_bytes(given_keys)))
    assert found == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


def test_an_enum_is_its_value_and_a_digest_is_sha256():
    """Records say what a verdict is called; digests are what sha256sum prints."""

    class Colour(StrEnum):
        RED = "red"

    assert canonical_bytes([Colour.RED]) == b'["red"]'
    assert digest(b"abc") == hashlib.sha256(b"abc").hexdigest()
