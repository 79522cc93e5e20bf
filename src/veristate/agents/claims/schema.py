"""The JSON schema that a model's reply must meet: any call of the protocol, or only those that can be accepted now."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from veristate.agents.claims.desk import Situation
from veristate.agents.claims.transcript import Verdict

Allowed = Literal["any", "available"]

_IDENTIFIER = {"type": "string", "pattern": "^[0-9A-Za-z_.:-]{1,40}$"}
_CITATIONS_UPPER, _SENTENCES_UPPER = 6, 6


def reply_schema(situation: Situation, allowed: Allowed) -> Mapping[str, Any]:
    """The schema of {"call": ...}. "any": calls in their right form, whatever their budget and their identifiers.
    "available": only actions that are left, listed documents and delivered sentences, so that a model too small to keep
    to the rules by itself can be studied. When no action is left to take, it is "any" again.
    """
    calls = _any() if allowed == "any" or not situation.available else _available(situation)
    return _object({"call": {"anyOf": calls}})


def _any() -> list[dict[str, Any]]:
    numbers = {"type": "integer", "minimum": 0, "maximum": 999}
    cited = _object({"document": _IDENTIFIER, "sentences": _array(numbers, 1, _SENTENCES_UPPER)})
    return [
        _object({"action": {"enum": ["search"]}}),
        _object({"action": {"enum": ["read"]}, "document": _IDENTIFIER}),
        _finish(get_args(Verdict), _array(cited, 0, _CITATIONS_UPPER)),
    ]


def _available(situation: Situation) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    if "search" in situation.available:
        calls.append(_object({"action": {"enum": ["search"]}}))
    if "read" in situation.available:
        names = list(dict.fromkeys(entry.document for entry in situation.listed))
        calls.append(_object({"action": {"enum": ["read"]}, "document": {"enum": names}}))
    if "finish" in situation.available:
        calls += _finishes(situation)
    return calls


def _finishes(situation: Situation) -> list[dict[str, Any]]:
    lengths = {document.id: len(document.sentences) for document in situation.documents if document.sentences}
    if not lengths:
        return [_finish(["NOT_ENOUGH_INFO"], {"enum": [[]]})]
    cited = [
        _object({"document": {"enum": [name]}, "sentences": _array({"enum": list(range(length))}, 1, _SENTENCES_UPPER)})
        for name, length in lengths.items()
    ]
    return [
        _finish(["SUPPORT", "REFUTE"], _array({"anyOf": cited}, 1, _CITATIONS_UPPER)),
        _finish(["NOT_ENOUGH_INFO"], _array({"anyOf": cited}, 0, _CITATIONS_UPPER)),
    ]


def _finish(verdicts: Sequence[str], citations: Mapping[str, Any]) -> dict[str, Any]:
    return _object({"action": {"enum": ["finish"]}, "verdict": {"enum": list(verdicts)}, "citations": citations})


def _array(items: Mapping[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
