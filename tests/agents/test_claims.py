"""The claim protocol answers each call as a naive recount of its rules does, and records all of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from claims_world import CLAIM, DOCUMENTS, SEARCH, Script, finish, library, read, spell

from veristate.agents.claims import (
    Cited,
    ClaimSettings,
    Ending,
    Library,
    Reply,
    Transcript,
    attempt_claim,
    check_transcript,
)
from veristate.core import InputError, TamperError

NEI = finish("NOT_ENOUGH_INFO")
WRONG = [
    ([], "one object"),
    ({"call": []}, "one object"),
    ({"call": {}, "why": "x"}, "one object"),
    ({"call": {"action": "look"}}, 'unknown action "look"'),
    ({"call": {"action": ["search"]}}, "unknown action"),
    ({"call": {"action": "search", "query": "x"}}, 'unknown "query"'),
    ({"call": {"action": "read"}}, 'lacks "document"'),
    ({"call": {"action": "read", "document": "a", "sentence": 0}}, 'unknown "sentence"'),
    ({"call": {"action": "read", "document": 7}}, "identifiers"[:-1]),
    ({"call": {"action": "read", "document": "\ud800"}}, "Unicode"),
    ({"call": {"action": "read", "document": "d"}}, "not in the list"),
    ({"call": {"action": "finish", "verdict": "SUPPORT"}}, 'lacks "citations"'),
    ({"call": {"action": "finish", "verdict": "MAYBE", "citations": []}}, "unknown verdict"),
    ({"call": {"action": "finish", "verdict": "SUPPORT", "citations": []}}, "at least one citation"),
    ({"call": {"action": "finish", "verdict": "REFUTE", "citations": {}}}, "must be a list"),
    ({"call": {"action": "finish", "verdict": "REFUTE", "citations": ["a"]}}, "must be an object"),
    (
        {"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": []}]}},
        "one number",
    ),
    (
        {"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": ["0"]}]}},
        '"0" is',
    ),
    (
        {"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": [True]}]}},
        "true",
    ),
    ({"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": [-1]}]}}, "-1"),
    (
        {"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": [2**60]}]}},
        "no sen",
    ),
    (
        {"call": {"action": "finish", "verdict": "REFUTE", "citations": [{"document": "a", "sentences": [0, 3]}]}},
        "sentence 3",
    ),
    (
        {
            "call": {
                "action": "finish",
                "verdict": "NOT_ENOUGH_INFO",
                "citations": [{"document": "b", "sentences": [0]}],
            }
        },
        "not read",
    ),
]


@pytest.mark.parametrize(("content", "reason"), WRONG)
def test_wrong_calls_cost_a_call_and_are_told_why(content, reason: str) -> None:
    """A reply that is JSON and no acceptable call is answered with the reason, costs one call and nothing else."""
    script = Script([SEARCH, read("a"), json.dumps(content), finish("SUPPORT", ("a", (0,)))])
    made = attempt_claim(CLAIM, library("abc"), script)
    assert made.ending is Ending.FINISHED
    assert (made.rejected, len(made.turns)) == (1, 4)
    assert reason in made.turns[2].delivery.rejection
    assert made.turns[2].delivery.text.startswith(f"Rejected: {made.turns[2].delivery.rejection}.")
    assert script.asked[3].calls_left == 13
    assert (script.asked[3].reads_left, script.asked[3].searches_left) == (5, 0)
    assert made.actions == (SEARCH, read("a"), finish("SUPPORT", ("a", (0,))))
    assert Transcript.from_bytes(made.to_bytes()) == made


@pytest.mark.parametrize(
    "text", ["", "search", '{"call":', '```json\n{"call":{"action":"search"}}\n```', '{"call": NaN}}', "[" * 100_000]
)
def test_a_reply_that_is_no_json_ends_the_attempt(text: str) -> None:
    """Nothing is repaired: the attempt is invalid, the reply on the record, and no verdict is given."""
    made = attempt_claim(CLAIM, library("ab"), Script([SEARCH, Reply(text=text, stopped="length"), NEI]))
    assert (made.ending, made.verdict, len(made.turns)) == (Ending.INVALID, None, 2)
    assert "no JSON" in made.reason
    assert "limit of 384 tokens" in made.reason
    assert made.exposed
    assert Transcript.from_bytes(made.to_bytes()) == made


def test_a_reply_over_the_limit_is_invalid_even_when_it_is_a_call() -> None:
    """A server that ignores the limit of tokens gains nothing by it."""
    made = attempt_claim(CLAIM, library("ab"), Script([Reply(text=SEARCH, reply_tokens=385)]))
    assert made.ending is Ending.INVALID
    assert "385 tokens" in made.reason
    assert attempt_claim(CLAIM, library("ab"), Script([Reply(text=SEARCH, reply_tokens=384)])).exposed


def test_a_decider_without_a_reply_fails_the_attempt() -> None:
    """What was done before stays on the record."""
    made = attempt_claim(CLAIM, library("ab"), Script([SEARCH]))
    assert (made.ending, made.reason, made.retrieved) == (Ending.FAILED, "the script is over", ("a", "b"))


def test_a_list_that_names_what_the_corpus_lacks_is_refused() -> None:
    """Before anything is asked."""
    script = Script([SEARCH])
    with pytest.raises(InputError, match="lacks the document 'z'"):
        attempt_claim(CLAIM, library("az"), script)
    assert not script.asked


@pytest.mark.parametrize("setting", [{"calls": 0}, {"reads": 0}, {"masking": "all"}, {"prompt": "long"}])
def test_impossible_settings_are_refused(setting) -> None:
    """The message names the setting."""
    with pytest.raises(InputError, match=next(iter(setting))):
        ClaimSettings(**setting)


def test_an_attempt_in_order_and_with_repetition() -> None:
    """What was read twice and cited twice stands twice."""
    last = finish("REFUTE", ("b", (0,)), ("a", (2, 0)), ("b", (0,)))
    made = attempt_claim(CLAIM, library("bad"), Script([SEARCH, read("b"), read("a"), read("b"), last]))
    assert made.retrieved == ("b", "a", "d")
    assert made.read == ("b", "a", "b")
    cited = (("b", (0,)), ("a", (2, 0)), ("b", (0,)))
    assert made.cited == tuple(Cited(document=d, sentences=s) for d, s in cited)
    assert made.actions == (SEARCH, read("b"), read("a"), read("b"), last)
    assert (made.verdict, made.rejected, made.exposed) == ("REFUTE", 0, True)
    requests = [json.loads(request) for request, _ in made.exchanges]
    assert [len(request) for request in requests] == [2, 4, 6, 8, 10]
    assert "[2] Sentence 2 of a." in requests[3][-1]["content"]
    assert requests[4][:8] == requests[3]


@pytest.mark.parametrize("masking", ["none", "titles", "texts", "both"])
def test_masking_takes_out_what_it_says_and_nothing_else(masking: str) -> None:
    """Identifiers and scores stay; sentences that were not delivered can't be cited."""
    script = Script([SEARCH, read("a"), finish("SUPPORT", ("a", (0,))), NEI])
    made = attempt_claim(CLAIM, library("abc"), script, ClaimSettings(masking=masking))
    shown = " ".join(message.content for message in made.history(3)[2:])
    assert ("Title" in shown) == (masking in ("none", "texts"))
    assert ("Sentence 1 of a." in shown) == (masking in ("none", "titles"))
    assert all(f"{name} | 0.{9 - place}" in shown for place, name in enumerate("abc"))
    assert made.verdict == ("SUPPORT" if masking in ("none", "titles") else "NOT_ENOUGH_INFO")
    check_transcript(made)


def test_the_examples_prompt_explains_rejections() -> None:
    """The right form is shown after a rejection; the baseline prompt gives the reason alone."""
    wrong = spell({"action": "read", "document": "a", "sentence": 1})
    texts = {
        prompt: attempt_claim(CLAIM, library("a"), Script([wrong]), ClaimSettings(prompt=prompt))
        for prompt in ("baseline", "examples")
    }
    assert "right form" not in texts["baseline"].turns[0].delivery.text
    assert "with no other field" in texts["examples"].turns[0].delivery.text
    verdicts = ("SUPPORT", "REFUTE", "NOT_ENOUGH_INFO")
    assert all(f'"verdict":"{verdict}"' in texts["examples"].opening[0].content for verdict in verdicts)


def naive(replies: list[str], listed: str, limits: dict[str, int]) -> dict:
    """The rules once more, counted over plain JSON: accepted calls by their place, and the ending."""
    accepted, searched, delivered = [], 0, []
    for place, text in enumerate(replies[: limits["calls"]]):
        call = json.loads(text)["call"]
        ok = False
        if call["action"] == "search":
            ok = searched < limits["searches"]
            searched += ok
        elif call["action"] == "read":
            ok = searched > 0 and len(delivered) < limits["reads"] and call["document"] in listed
            delivered += [call["document"]] * ok
        else:
            known = {(name, n) for name in delivered for n in range(len(DOCUMENTS[name].sentences))}
            cited = {(one["document"], n) for one in call["citations"] for n in one["sentences"]}
            ok = bool(delivered) and cited <= known and (call["verdict"] == "NOT_ENOUGH_INFO" or bool(cited))
        accepted += [place] * ok
        if ok and call["action"] == "finish":
            return {"accepted": accepted, "ending": "finished", "read": delivered, "turns": place + 1}
    spent = len(replies) >= limits["calls"]
    turns = min(len(replies), limits["calls"])
    return {"accepted": accepted, "ending": "budget_spent" if spent else "failed", "read": delivered, "turns": turns}


citations = st.lists(
    st.tuples(st.sampled_from("abcd"), st.lists(st.integers(0, 4), min_size=1, max_size=2)), max_size=2
)
replies = st.lists(
    st.one_of(
        st.just(SEARCH),
        st.sampled_from("abcd").map(read),
        st.builds(
            lambda verdict, cited: finish(verdict, *((name, tuple(numbers)) for name, numbers in cited)),
            st.sampled_from(["SUPPORT", "REFUTE", "NOT_ENOUGH_INFO"]),
            citations,
        ),
    ),
    max_size=12,
)


@given(
    replies=replies,
    listed=st.sampled_from(["", "a", "abc", "bd"]),
    calls=st.integers(1, 10),
    searches=st.integers(1, 2),
    reads=st.integers(1, 3),
)
def test_budgets_agree_with_a_naive_recount(replies, listed: str, calls: int, searches: int, reads: int) -> None:
    """Whatever is replied: the same calls are accepted, the same ending is reached, and the record holds together."""
    limits = {"calls": calls, "searches": searches, "reads": reads}
    made = attempt_claim(CLAIM, library(listed), Script(replies), ClaimSettings(**limits))
    expected = naive(replies, listed, limits)
    assert [place for place, turn in enumerate(made.turns) if turn.accepted] == expected["accepted"]
    assert (made.ending, len(made.turns)) == (expected["ending"], expected["turns"])
    assert list(made.read) == expected["read"]
    check_transcript(made, record=made.digest)
    assert Transcript.from_bytes(made.to_bytes()) == made


def test_the_answers_tell_the_budget() -> None:
    """Every delivery ends with the calls that are left and the actions that can be accepted."""
    settings = ClaimSettings(calls=4, reads=1)
    made = attempt_claim(CLAIM, library("ab"), Script([SEARCH, SEARCH, read("a"), read("b")]), settings)
    assert made.turns[0].delivery.text.endswith("Calls left: 3. Available: read.")
    assert made.turns[1].delivery.text.endswith("Calls left: 2. Available: read.")
    assert made.turns[2].delivery.text.endswith("Calls left: 1. Available: finish.")
    assert made.turns[3].delivery.text.endswith("Calls left: 0. Available: none.")
    assert made.ending is Ending.BUDGET_SPENT


def test_a_record_with_another_byte_is_no_record() -> None:
    """The canonical bytes are checked as for every record."""
    data = attempt_claim(CLAIM, library("ab"), Script([SEARCH, read("a"), NEI])).to_bytes()
    for damaged in (
        data.replace(b'"finished"', b'"won"'),
        data.replace(b"claim-transcript/1", b"claim-transcript/2"),
        data[:-1],
    ):
        with pytest.raises((TamperError, InputError)):
            Transcript.from_bytes(damaged)


def test_no_annotation_reaches_a_decider() -> None:
    """A situation has nothing of the library but what was delivered."""
    script = Script([SEARCH, read("a"), NEI])
    attempt_claim(CLAIM, Library(results=library("ab").results, documents=DOCUMENTS), script)
    assert [sorted(document.id for document in asked.documents) for asked in script.asked] == [[], [], ["a"]]
    assert replace(script.asked[0], calls_left=0).available == ()


def test_wording_and_format_are_those_of_the_golden_transcript() -> None:
    """A record is its bytes, prompts included: who changes one of them makes a new protocol and a new file."""
    replies = [SEARCH, read("d"), read("a"), '{"call":{"action":"look"}}', finish("SUPPORT", ("a", (0, 2)))]
    made = attempt_claim(CLAIM, library("abc"), Script(replies), ClaimSettings(prompt="examples"))
    golden = Path(__file__).parent / "golden" / "claim_transcript.json"
    assert made.to_bytes() == golden.read_bytes()
    check_transcript(Transcript.from_bytes(golden.read_bytes()), record=made.digest)
