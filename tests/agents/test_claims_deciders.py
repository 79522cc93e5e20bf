"""The controller follows its stated rule; a schema admits exactly the calls it says."""

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from claims_world import CLAIM, SEARCH, Script, finish, library, read

from veristate.agents.claims import (
    ChatDecider,
    Cited,
    Claim,
    ClaimSettings,
    Document,
    Ending,
    Hit,
    LexicalController,
    Library,
    attempt_claim,
)
from veristate.agents.claims.schema import reply_schema
from veristate.core import InputError


def judged(claim: str, *documents: tuple[str, ...], **controller: Any):
    """The controller's attempt at a claim over documents named 0, 1, ... in this order."""
    held = {str(n): Document(id=str(n), title="T", sentences=sentences) for n, sentences in enumerate(documents)}
    shown = Library(results=tuple(Hit(document=name, score="0.5") for name in held), documents=held)
    return attempt_claim(Claim(id="1", text=claim), shown, LexicalController(**controller))


@pytest.mark.parametrize(
    ("claim", "sentence", "verdict"),
    [
        ("Aspirin helps headache patients.", "In headache patients, aspirin often helps.", "SUPPORT"),
        ("Aspirin helps headache patients.", "Aspirin did not help headache patients.", "REFUTE"),
        ("Aspirin does not help headache patients.", "Aspirin did not help headache patients.", "SUPPORT"),
        ("Aspirin increases clotting time.", "Clotting time was reduced by aspirin; it decreases.", "REFUTE"),
        ("Aspirin increases clotting time.", "Aspirin did not reduce but inhibits clotting time.", "SUPPORT"),
        ("Aspirin increases clotting time.", "Clotting time is higher and lower with aspirin.", "SUPPORT"),
        ("Aspirin increases clotting time.", "Bears sleep in winter.", "NOT_ENOUGH_INFO"),
    ],
)
def test_verdicts_by_the_rule(claim: str, sentence: str, verdict: str) -> None:
    """Shared words, parity of negations, and directions that oppose each other."""
    assert judged(claim, (sentence,)).verdict == verdict


def test_half_of_the_words_is_enough_and_the_first_best_sentence_is_cited() -> None:
    """Among equals the first delivered; a title counts for nothing."""
    made = judged("red blue green cats", ("red dogs",), ("red blue dogs", "green cats dogs"), ("blue red",))
    assert (made.read, made.cited) == (("0", "1", "2"), (Cited(document="1", sentences=(0,)),))
    assert judged("red blue green cats", ("red dogs",)).cited == ()
    assert judged("red blue green cats", ("red dogs",), enough=Fraction(1, 4)).verdict == "SUPPORT"


@pytest.mark.parametrize(("planned", "allowed", "listed", "read_count"), [(3, 6, 2, 2), (3, 2, 5, 2), (1, 6, 5, 1)])
def test_it_reads_the_first_documents_within_list_plan_and_budget(planned, allowed, listed, read_count) -> None:
    """The smallest of the three decides, and no call is ever rejected."""
    held = {str(n): Document(id=str(n), title="T", sentences=("x",)) for n in range(listed)}
    shown = Library(results=tuple(Hit(document=name, score="1") for name in held), documents=held)
    made = attempt_claim(CLAIM, shown, LexicalController(reads=planned), ClaimSettings(reads=allowed))
    assert made.read == tuple(map(str, range(read_count)))
    assert (made.ending, made.rejected) == (Ending.FINISHED, 0)


def test_an_empty_list_ends_with_the_budget() -> None:
    """Nothing can be read, so nothing can be concluded."""
    made = attempt_claim(CLAIM, library(""), LexicalController())
    assert (made.ending, made.exposed, made.verdict) == (Ending.BUDGET_SPENT, True, None)


@pytest.mark.parametrize("controller", [{"reads": 0}])
def test_a_controller_that_reads_nothing_is_refused(controller) -> None:
    """It could never finish."""
    with pytest.raises(InputError, match="read 0 documents"):
        LexicalController(**controller)


@pytest.mark.parametrize("settings", [{"temperature": -1.0}, {"temperature": float("nan")}, {"allowed": "all"}])
def test_impossible_sampling_is_refused(settings: dict[str, Any]) -> None:
    """When the decider is made, not at its first request."""
    with pytest.raises(InputError, match=r"temperature|allowed"):
        ChatDecider(model=None, **settings)  # type: ignore[arg-type]


def meets(schema: Any, value: Any) -> bool:
    """Whether the value meets the schema, for the few words that these schemas use."""
    if "anyOf" in schema:
        return any(meets(one, value) for one in schema["anyOf"])
    if "enum" in schema:
        return any(type(one) is type(value) and one == value for one in schema["enum"])
    kind = schema["type"]
    if kind == "object":
        same = isinstance(value, dict) and set(value) == set(schema["required"]) == set(schema["properties"])
        return same and all(meets(schema["properties"][name], part) for name, part in value.items())
    if kind == "array":
        right = isinstance(value, list) and schema["minItems"] <= len(value) <= schema["maxItems"]
        return right and all(meets(schema["items"], part) for part in value)
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return isinstance(value, str) and 0 < len(value) <= 40


CITED = st.lists(st.tuples(st.sampled_from("abcd"), st.lists(st.integers(0, 4), min_size=1, max_size=2)), max_size=2)
NEXT = st.one_of(
    st.just(SEARCH),
    st.sampled_from("abcd").map(read),
    st.builds(
        lambda verdict, cited: finish(verdict, *((name, tuple(numbers)) for name, numbers in cited)),
        st.sampled_from(["SUPPORT", "REFUTE", "NOT_ENOUGH_INFO"]),
        CITED,
    ),
)


@given(
    before=st.lists(st.one_of(st.just(SEARCH), st.sampled_from("abc").map(read)), max_size=5),
    reply=NEXT,
    masking=st.sampled_from(["none", "texts"]),
)
def test_the_narrow_schema_admits_what_the_tools_accept(before: list[str], reply: str, masking: Any) -> None:
    """As long as any call can be accepted: a call meets the schema exactly when it is accepted. The wide one admits all
    well-formed calls.
    """
    script = Script([*before, reply])
    made = attempt_claim(CLAIM, library("abc"), script, ClaimSettings(reads=2, masking=masking))
    situation = script.asked[len(before)]
    wide = reply_schema(situation, "any")
    assert meets(wide, json.loads(reply))
    if situation.available:
        assert meets(reply_schema(situation, "available"), json.loads(reply)) == made.turns[len(before)].accepted
    else:
        assert reply_schema(situation, "available") == wide
