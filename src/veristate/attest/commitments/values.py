"""What a function took and gave, as bytes that are the same wherever it is the same."""

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from veristate.core import InputError, Record, canonical_bytes


def to_artifact(value: Any) -> bytes:
    """The bytes that stand for `value`: bytes and text as they are, records as theirs, the rest as canonical JSON.

    Lists and tuples are the same; a float is {"float": its shortest decimal}, so that 1 and 1.0 differ and NaN can't
    pass for null. Raises: InputError for what has no such form: give `stage` an `encode` of your own.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, Record):
        return value.to_bytes()
    return canonical_bytes(_tagged(value))


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"text that is no Unicode can't be committed to: {error}") from error


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": repr(float(value)) if math.isfinite(value) else str(float(value))}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InputError(
                "a mapping whose keys are not text can't be committed to; give stage an encode of your own"
            )
        return {"map": {key: _tagged(item) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_tagged(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if is_dataclass(value) and not isinstance(value, type):
        return _tagged(asdict(value))
    raise InputError(f"a {type(value).__qualname__} can't be committed to; give stage an encode of your own")
