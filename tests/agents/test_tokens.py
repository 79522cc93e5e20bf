"""Replies token by token: what a completion tells of its tokens, what is committed of a reply, how one is forced."""

import json
from dataclasses import replace

import pytest
import rfc8785

from veristate.agents.models import Sampled
from veristate.agents.models.tokens import LIKELY, choices_of, sampled_body, sampled_of, weighing_body
from veristate.core import EnvironmentUnusableError, InputError

REPLY = Sampled(tokens=(5, 7, 9), pieces=(b"The", b" caf\xc3\xa9", b" \xe3\x81\x8f"), ended=True)


def completion(rows, content, finish="stop"):
    """A completion as the runtime gives it: rows of number, bytes, log-probability, and the likeliest tokens."""
    told = [
        {"id": number, "bytes": list(piece), "logprob": logprob, "top_logprobs": likely}
        for number, piece, logprob, likely in rows
    ]
    choice = {"finish_reason": finish, "message": {"content": content}, "logprobs": {"content": told}}
    return {"choices": [choice]}


def row(number, piece, *, likely=((1, -0.5), (5, -1.0))):
    """One row, whose token is the second likeliest unless it is another."""
    return number, piece, -1.0, [{"id": other, "logprob": value} for other, value in likely]


@pytest.mark.parametrize(
    ("rows", "content", "finish", "expected"),
    [
        ([row(5, b"The"), row(6, b" end"), row(2, b"")], "The end", "stop", ((5, 6), (b"The", b" end"), True)),
        ([row(5, b"The"), row(6, b" en")], "The en", "length", ((5, 6), (b"The", b" en"), False)),
        ([row(2, b"")], "", "stop", ((), (), True)),
        # Of a character that was split, the last bytes alone; and of one that is none.
        (
            [row(5, b"a"), row(7, b"\x8f"), row(6, b"b")],
            "aくb",
            "length",
            ((5, 7, 6), (b"a", "く".encode(), b"b"), False),
        ),
        ([row(5, b"a"), row(7, b"\xa7")], "a \ufffd", "length", ((5, 7), (b"a", " \ufffd".encode()), False)),
        # Of one that was cut off, nothing.
        ([row(5, b"a")], "a ", "length", ((5,), (b"a",), False)),
    ],
)
def test_a_reply_and_its_tokens(rows, content, finish, expected):
    """Text and pieces agree, the end is no token."""
    tokens, pieces, ended = expected
    assert sampled_of(completion(rows, content, finish)) == Sampled(tokens=tokens, pieces=pieces, ended=ended)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"choices": []},
        {"error": {"code": 500}},
        {"choices": [{"finish_reason": "stop", "message": {"content": "a"}}]},
        completion([row(5, b"The")], "The rest of it"),
        completion([row(5, b"The"), row(6, b" end")], "The"),
    ],
)
def test_a_completion_that_does_not_tell_its_tokens_is_refused(said):
    """Nothing is made up for it."""
    with pytest.raises(EnvironmentUnusableError):
        sampled_of(said)


def test_a_committed_reply_is_read_again():
    """Canonical JSON with the text, which must be what the tokens say."""
    data = REPLY.to_bytes()
    assert Sampled.from_bytes(data) == REPLY
    assert json.loads(data) == {
        "ended": True,
        "pieces": ["546865", "20636166c3a9", "20e3818f"],
        "text": "The café く",
        "tokens": [5, 7, 9],
    }
    said = json.loads(data)
    assert rfc8785.dumps(said) == data
    for broken in (
        said | {"text": "The"},
        said | {"tokens": [5, 7]},
        said | {"pieces": ["zz"] * 3},
        said | {"tokens": [5.5, 7, 9]},
        said | {"tokens": [5, 7, True]},
        said | {"ended": 1},
        said | {"more": 1},
        {"text": ""},
        [],
        7,
        "text",
    ):
        with pytest.raises(InputError, match="not a reply in tokens"):
            Sampled.from_bytes(rfc8785.dumps(broken))
    spelt = (b"\xff", b" " + data, data.replace(b"[5,", b"[1e400,"), data.replace(b'"text"', b'"text":"lie","text"'))
    for other in spelt:
        with pytest.raises(InputError):
            Sampled.from_bytes(other)


def test_a_reply_is_forced_by_number_or_as_text():
    """Only what may be several tokens is doubtful; whatever else the request says stays, but for its shape."""
    assert REPLY.doubtful == {9: b" \xe3\x81\x8f"}
    body = {"messages": [], "response_format": {}, "temperature": 0.8, "max_tokens": 4}
    forced = weighing_body(body, REPLY)
    assert forced["grammar"] == "root ::= <[5]> <[7]> <[9]>"
    assert (forced["max_tokens"], forced["top_logprobs"], forced["temperature"]) == (4, LIKELY, 0.0)
    assert "response_format" not in forced
    by_text = weighing_body(body, REPLY, [9])
    assert by_text["grammar"] == 'root ::= <[5]> <[7]> " く"'
    assert by_text["max_tokens"] >= 4 + 3
    assert weighing_body(body, Sampled(tokens=(), pieces=(), ended=True))["grammar"] == 'root ::= ""'
    quoted = Sampled(tokens=(3,), pieces=(b'"\\\n',), ended=False)
    assert weighing_body(body, quoted, [3])["grammar"] == r'root ::= "\"\\\n"'
    with pytest.raises(InputError, match="no text"):
        weighing_body(body, replace(REPLY, pieces=(b"The", b"\xe3", b"x")))
    assert sampled_body(body)["logprobs"] is True


def test_choices_are_of_the_reply_or_none():
    """Sorted as likely as they are, with the place of the token; another token or piece is another reply."""
    rows = [row(5, b"The"), row(7, b" caf\xc3\xa9"), row(9, b"\x8f"), row(2, b"", likely=((2, -0.1), (1, -3.0)))]
    found = choices_of(completion(rows, ""), REPLY, [9])
    assert choices_of(completion(rows, ""), REPLY) is None  # by number it would have been all of the character
    assert [(choice.place, choice.piece) for choice in found] == [
        (1, b"The"),
        (None, b" caf\xc3\xa9"),
        (None, b"\x8f"),
        (0, b""),
    ]
    assert found[0].likely == (-0.5, -1.0)
    assert len(choices_of(completion(rows, ""), replace(REPLY, ended=False), [9])) == 3
    assert choices_of(completion(rows[:3], ""), REPLY, [9]) is None
    assert choices_of(completion([row(6, b"The"), *rows[1:]], ""), REPLY, [9]) is None
    assert choices_of(completion([row(5, b"Thy"), *rows[1:]], ""), REPLY, [9]) is None
    with pytest.raises(EnvironmentUnusableError):
        choices_of({"error": {}}, REPLY)
