"""A continuation replaces what it says and nothing else, and only goes on from what matches its record."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from claims_world import CLAIM, DOCUMENTS, SEARCH, Script, finish, library, read

from veristate.agents.claims import (
    ClaimSettings,
    Document,
    Ending,
    LexicalController,
    Transcript,
    attempt_claim,
    check_transcript,
    continue_claim,
)
from veristate.core import InputError, TamperError

NEI = finish("NOT_ENOUGH_INFO")
HEALTHY, FAULTY = library("abc"), library("dab")


def recorded(*replies: str, condition=FAULTY, **settings: int) -> Transcript:
    """An attempt in the faulty condition."""
    return attempt_claim(CLAIM, condition, Script(replies), ClaimSettings(**settings))


def test_tools_alone_leave_the_visible_history() -> None:
    """The recorded list stays in view and a later read comes from the other corpus; without another search the other
    list is never seen, and the transcript says that nothing was revisited.
    """
    other = {**DOCUMENTS, "b": Document(id="b", title="Other", sentences=("Another text.",))}
    script = Script([read("b"), NEI])
    made = continue_claim(recorded(SEARCH, read("d"), NEI), 2, library("abc", other), script, replaced="tools")
    assert made.retrieved == ("d", "a", "b")
    assert made.read == ("d", "b")
    assert made.turns[2].delivery.documents[0].title == "Other"
    assert script.asked[0].messages == recorded(SEARCH, read("d"), NEI).history(2)
    assert not made.revisited
    assert (made.origin[0].calls, made.origin[0].replaced) == (2, "tools")


def test_tools_alone_where_another_search_is_left() -> None:
    """A search after the prefix delivers the other list."""
    before = recorded(SEARCH, NEI, searches=2)
    made = continue_claim(before, 1, HEALTHY, Script([SEARCH, read("c"), NEI]), replaced="tools")
    assert made.retrieved == ("d", "a", "b", "a", "b", "c")
    assert made.revisited


def test_history_and_tools_replace_what_was_delivered() -> None:
    """The replies stay; each is answered by the other library. A read of what its list lacks is rejected and gives the
    read back, so the budget is that of the tools that answered.
    """
    before = recorded(SEARCH, read("d"), read("a"), NEI)
    script = Script([NEI])
    made = continue_claim(before, 3, HEALTHY, script, replaced="history and tools")
    assert made.retrieved == ("a", "b", "c")
    assert made.read == ("a",)
    assert "'d' is not in the list" in made.turns[1].delivery.rejection
    assert script.asked[0].reads_left == 5
    assert [turn.reply for turn in made.turns[:3]] == [turn.reply for turn in before.turns[:3]]
    assert "Title d" not in json.dumps([message.content for message in script.asked[0].messages])


def test_nothing_replaced_is_a_repeat() -> None:
    """The same decider comes to the same end; only the origin tells them apart."""
    before = attempt_claim(CLAIM, FAULTY, LexicalController(reads=2))
    for calls in range(len(before.turns)):
        again = continue_claim(before, calls, FAULTY, LexicalController(reads=2), replaced="nothing")
        assert replace(again, origin=()) == before


def test_nothing_replaced_from_another_library_is_refused() -> None:
    """Another condition must be said to be one."""
    with pytest.raises(InputError, match="say what is to be replaced"):
        continue_claim(recorded(SEARCH, read("a"), NEI), 2, HEALTHY, Script([NEI]), replaced="nothing")


@pytest.mark.parametrize("calls", [-1, 3, 4])
def test_a_prefix_with_the_ending_is_refused(calls: int) -> None:
    """There is nothing to go on with."""
    with pytest.raises(InputError, match="0 to 2 calls"):
        continue_claim(recorded(SEARCH, read("a"), NEI), calls, FAULTY, Script([NEI]), replaced="nothing")


def test_a_spent_budget_is_continued_before_its_end_only() -> None:
    """The last of all calls can be taken again, not one more."""
    spent = recorded(SEARCH, SEARCH, read("a"), calls=3)
    assert spent.ending is Ending.BUDGET_SPENT
    assert continue_claim(spent, 2, FAULTY, Script([read("b")]), replaced="nothing").read == ("b",)
    with pytest.raises(InputError, match="0 to 2 calls"):
        continue_claim(spent, 3, FAULTY, Script([NEI]), replaced="nothing")


def test_a_failed_attempt_goes_on_where_it_failed() -> None:
    """All of its calls can be taken over."""
    failed = recorded(SEARCH, read("a"))
    assert failed.ending is Ending.FAILED
    assert continue_claim(failed, 2, FAULTY, Script([NEI]), replaced="nothing").verdict == "NOT_ENOUGH_INFO"


def test_an_ending_inside_the_replaced_prefix_is_refused() -> None:
    """A finish that the recorded tools rejected may be accepted by the others; then there is no continuation."""
    before = recorded(SEARCH, read("c"), NEI, read("a"), NEI)
    assert before.rejected == 2
    with pytest.raises(InputError, match="call 2 of the prefix ends it"):
        continue_claim(before, 4, HEALTHY, Script([NEI]), replaced="history and tools")


def damaged(transcript: Transcript, call: int, **delivery: object) -> Transcript:
    """The transcript with another delivery at one call."""
    turn = transcript.turns[call]
    changed = replace(turn, delivery=replace(turn.delivery, **delivery))
    return replace(transcript, turns=(*transcript.turns[:call], changed, *transcript.turns[call + 1 :]))


def tampered() -> dict[str, Transcript]:
    """Transcripts that were changed somewhere."""
    whole = recorded(SEARCH, read("d"), read("a"), NEI)
    first, second, third, last = whole.turns
    entry = first.delivery.listed[0]
    return {
        "text": damaged(whole, 1, text=second.delivery.text.replace("Sentence", "Fact")),
        "values": damaged(whole, 1, documents=(DOCUMENTS["b"],)),
        "score": damaged(whole, 0, listed=(replace(entry, score="0.99"), *first.delivery.listed[1:])),
        "rejected": damaged(whole, 2, rejection="no"),
        "nothing delivered": damaged(whole, 1, documents=()),
        "reply": replace(whole, turns=(first, replace(second, reply=third.reply), third, last)),
        "request": replace(whole, turns=(first, replace(second, request=third.request), third, last)),
        "call": replace(whole, turns=(first, replace(second, call=third.call), third, last)),
        "left out": replace(whole, turns=(first, third, last)),
        "cut": replace(whole, turns=(first, second)),
        "gone on": replace(whole, turns=(*whole.turns, last)),
        "opening": replace(whole, opening=whole.opening[1:]),
        "claim": replace(whole, claim=replace(CLAIM, text="Dogs purr.")),
        "budget": replace(whole, settings=ClaimSettings(reads=1)),
        "ending": replace(whole, ending=Ending.FAILED),
    }


@pytest.mark.parametrize("what", list(tampered()))
def test_a_prefix_that_does_not_match_its_record_is_refused(what: str) -> None:
    """Whatever was changed, nothing goes on from it."""
    script = Script([NEI])
    with pytest.raises(TamperError, match="transcript"):
        continue_claim(tampered()[what], 1, FAULTY, script, replaced="tools")
    assert not script.asked


def test_a_forgery_that_holds_together_is_refused_by_its_digest() -> None:
    """An attempt over another text is a transcript too; it is not the one that was kept."""
    kept = recorded(SEARCH, read("a"), NEI)
    other = {**DOCUMENTS, "a": Document(id="a", title="T", sentences=("Forged.",))}
    forged = recorded(SEARCH, read("a"), NEI, condition=library("dab", other))
    check_transcript(forged)
    with pytest.raises(TamperError, match=kept.digest):
        continue_claim(forged, 1, FAULTY, Script([NEI]), replaced="tools", record=kept.digest)


@given(
    reads=st.integers(1, 3),
    calls=st.integers(0, 3),
    lists=st.tuples(*[st.permutations("abcd").map("".join)] * 2),
    replaced=st.sampled_from(["tools", "history and tools"]),
)
def test_continuations_hold_together_and_can_be_continued(reads: int, calls: int, lists, replaced) -> None:
    """Whatever was replaced, the new transcript is a record of its own; with history and tools replaced after the
    search alone, a decider that sees only what was delivered ends as it would in the other condition.
    """
    mine, other = (library(names[:3]) for names in lists)
    before = attempt_claim(CLAIM, mine, LexicalController(reads=reads))
    made = continue_claim(before, min(calls, reads), other, LexicalController(reads=reads), replaced=replaced)
    check_transcript(made, record=made.digest)
    assert Transcript.from_bytes(made.to_bytes()) == made
    again = continue_claim(made, len(made.turns) - 1, other, LexicalController(reads=reads), replaced="tools")
    assert again.actions == made.actions
    if replaced == "history and tools" and calls <= 1:
        assert made.actions == attempt_claim(CLAIM, other, LexicalController(reads=reads)).actions
