"""Reading a reply as a call. Nothing is corrected: a number given as text, or one field too many, is rejected."""

import json
from collections.abc import Mapping
from typing import Any, cast, get_args

from veristate.agents.claims.transcript import Call, Cited, Tool, Verdict

_FIELDS = {"search": {"action"}, "read": {"action", "document"}, "finish": {"action", "verdict", "citations"}}
# Larger than any abstract, and small enough to be a number of every JSON reader.
_SENTENCE_UPPER = 2**31


class NoJsonError(ValueError):
    """The reply is no JSON at all; the attempt is invalid."""


class RejectedError(Exception):
    """The reply is JSON and no call of the protocol; `tool` is the action it names, empty when it names none."""

    def __init__(self, reason: str, tool: str = "") -> None:
        super().__init__(reason)
        self.tool = tool


def read_call(text: str) -> Call:
    """The call that the reply spells.

    Raises: NoJsonError when it is no JSON; RejectedError with the reason when it is JSON and no call.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoJsonError(f"the reply is no JSON: {error}") from error
    if not isinstance(content, dict) or set(content) != {"call"} or not isinstance(content["call"], dict):
        raise RejectedError('the reply must be one object with the one field "call", an object')
    return _call(content["call"])


def _call(content: Mapping[str, Any]) -> Call:
    action = content.get("action")
    if action not in get_args(Tool):
        raise RejectedError(f"unknown action {_short(action)}; use search, read or finish")
    tool = cast("Tool", action)
    if set(content) != _FIELDS[tool]:
        raise RejectedError(_fields(tool, set(content)), tool)
    if tool == "search":
        return Call(tool=tool)
    if tool == "read":
        return Call(tool=tool, document=_identifier(content["document"], tool))
    if content["verdict"] not in get_args(Verdict):
        raise RejectedError(f"unknown verdict {_short(content['verdict'])}; use {', '.join(get_args(Verdict))}", tool)
    if not isinstance(content["citations"], list):
        raise RejectedError("citations must be a list", tool)
    return Call(tool=tool, verdict=content["verdict"], citations=tuple(_cited(one) for one in content["citations"]))


def _cited(content: Any) -> Cited:
    if not isinstance(content, dict) or set(content) != {"document", "sentences"}:
        raise RejectedError("a citation must be an object with document and sentences, and nothing else", "finish")
    numbers = content["sentences"]
    if not isinstance(numbers, list) or not numbers:
        raise RejectedError("sentences must be a list of at least one number", "finish")
    for number in numbers:
        if type(number) is not int or not 0 <= number < _SENTENCE_UPPER:
            raise RejectedError(f"{_short(number)} is no sentence number; they are whole numbers from 0", "finish")
    return Cited(document=_identifier(content["document"], "finish"), sentences=tuple(numbers))


def _identifier(value: Any, tool: str) -> str:
    if not isinstance(value, str) or not value:
        raise RejectedError(f"{_short(value)} is no document identifier; they are texts", tool)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise RejectedError("the document identifier is no Unicode", tool)
    return value


def _fields(tool: str, given: set[str]) -> str:
    missing, extra = sorted(_FIELDS[tool] - given), sorted(given - _FIELDS[tool])
    parts = [
        f"{what} {', '.join(map(_short, names))}"
        for what, names in (("lacks", missing), ("has an unknown", extra))
        if names
    ]
    return f"{tool} {' and '.join(parts)}"


def _short(value: Any) -> str:
    """The value as ASCII JSON, at most 60 characters of it."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
