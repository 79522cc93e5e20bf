"""Canonical bytes and digests: what two people must compute alike to agree on a record.

Records are RFC 8785 JSON. Numbers that matter travel as decimal strings, so no float ever enters the hashed bytes and
NaN can't become null on the way.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import rfc8785

from veristate.core.errors import InputError


def digest(data: bytes | bytearray | memoryview) -> str:
    """The SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def decimal_string(value: float) -> str:
    """The shortest decimal string that reads back as exactly this float64.

    Raises: InputError for NaN and infinities, which no record may hold as a number.
    """
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"a record can't hold the number {number!r}; say it in a verdict instead")
    return repr(number)


def plain(value: Any) -> Any:
    """`value` as the dictionaries, lists, strings, integers, booleans and nulls that canonical JSON is made of.

    Raises: InputError for a float (use `decimal_string`) or any other type, naming it.
    """
    if value is None or (isinstance(value, str | bool | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    if isinstance(value, float):
        raise InputError(f"a record can't hold the float {value!r}; write it with decimal_string")
    raise InputError(f"a record can't hold a {type(value).__name__}: {value!r}")


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 bytes of `value`: the same for equal values whatever the order of their keys.

    Raises: InputError as `plain` does, and for integers beyond 2^53 and text that is no Unicode.
    """
    try:
        return rfc8785.dumps(plain(value))
    except ValueError as error:
        raise InputError(f"a record can't hold this value: {error}") from error
