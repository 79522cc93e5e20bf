"""Base 64 in which every content has one spelling, and reading JSON in which every name stands once."""

import base64
import binascii
import json
from typing import Any


def encode64(data: bytes) -> str:
    """The standard base 64 of `data`, padded."""
    return base64.b64encode(data).decode("ascii")


def decode64(text: str) -> bytes:
    """The bytes that `text` spells. Raises: ValueError for any spelling but that of `encode64`."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base 64: {text[:60]!r}") from error
    if encode64(data) != text:
        raise ValueError(f"base 64 with another spelling of the same bytes: {text[:60]!r}")
    return data


def read_json(data: bytes) -> Any:
    """What the JSON in `data` says. Raises: ValueError for a name that stands twice, NaN, or no JSON at all."""
    try:
        return json.loads(data, object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("JSON nested too deep") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("JSON in which a name stands twice")
    return content


def _refuse(text: str) -> Any:
    raise ValueError(f"JSON with the number {text}")
