"""The shared records: bytes that read back, and bytes that are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import Action, ArrayRef, Certificate, Contract, Decision, Request, Rule, TamperError, View

RULE = Rule(kind="top_k", count=3)
DECISION = Decision(rule=RULE, chosen=("a", "b"))
EXAMPLES = [
    RULE,
    DECISION,
    ArrayRef(blob="0" * 64, dtype="float32", shape=(5, 7)),
    Contract(
        kind="C2",
        candidates="c",
        count=3,
        batch=2,
        dtype="fp32",
        temperature="1.0",
        model={"member_0": "d"},
        arithmetic={"bias": "fused"},
        settings={"threads": "1"},
    ),
    Request(request_id="r", contract="c", rules=(RULE,)),
    View(request_id="r", contract="c", table="t", fields=("id",), dropped=()),
    Certificate(
        request_id="r",
        contract="c",
        contract_kind="C2",
        delta="0",
        certifies="values",
        decisions=(DECISION,),
        table="t",
        evidence={"findings": "f"},
    ),
    Action(request_id="r", contract="c", view="v", decisions=(DECISION,)),
]


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda r: type(r).__name__)
def test_bytes_that_are_not_canonical_are_no_record(record):
    """The same JSON with a space would have another digest, so it is not the record."""
    with pytest.raises(TamperError, match="not canonical"):
        type(record).from_bytes(record.to_bytes().replace(b":", b": ", 1))


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda r: type(r).__name__)
def test_a_missing_or_an_added_field_is_refused(record):
    """A record of a later version is not silently read as one of ours."""
    content = json.loads(record.to_bytes())
    added = json.dumps(content | {"zzz": 1}, separators=(",", ":"), sort_keys=True).encode()
    del content[next(name for name in content if name != "format")]
    missing = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    for data in (added, missing, b"[]", b"\xff", b"{}"):
        with pytest.raises(TamperError):
            type(record).from_bytes(data)


def test_a_record_of_one_kind_is_not_read_as_another():
    """The format's name is inside the hashed bytes."""
    with pytest.raises(TamperError, match=r"view/1|action/1"):
        View.from_bytes(EXAMPLES[-1].to_bytes())


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda r: type(r).__name__)
def test_reading_and_writing_again_gives_the_same_bytes(record):
    """A record survives a round trip as value, bytes and digest."""
    again = type(record).from_bytes(record.to_bytes())
    assert again == record
    assert again.digest == record.digest


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 10**9))
def test_any_identifiers_survive(names, count):
    """Identifiers are whatever text the user's table holds."""
    decision = Decision(rule=Rule(kind="top_k", count=count), chosen=tuple(sorted(names)))
    assert Decision.from_bytes(decision.to_bytes()) == decision
