"""Records out of bytes that a stranger gave: typed, canonical, nothing added, nothing left out."""

from typing import Annotated, Any, TypeVar

from pydantic import StringConstraints, TypeAdapter, ValidationError

from veristate.attest.signing import read_json
from veristate.core import InputError, Record, TamperError, canonical_bytes

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
R = TypeVar("R", bound=Record)
_adapters: dict[type[Record], TypeAdapter[Any]] = {}


def read_record(kind: type[R], data: bytes) -> R:
    """The record of this kind in `data`. Raises: TamperError when it is none, in its canonical bytes."""
    try:
        read_json(data)  # a name that stands twice would pass the next line, which takes the last
        record = _adapter(kind).validate_json(data, strict=True)
        found = record.to_bytes()
    except (ValueError, ValidationError, InputError) as error:
        raise TamperError(f"not a {kind.FORMAT} record: {_short(error)}") from error
    if found != data:
        raise TamperError(f"not a {kind.FORMAT} record in canonical bytes, or of another format")
    return record


def read_value(kind: type[R], content: Any) -> R:
    """The record of this kind that a part of a larger JSON says. Raises: as `read_record`."""
    try:
        return read_record(kind, canonical_bytes(content))
    except InputError as error:
        raise TamperError(f"not a {kind.FORMAT} record: {error}") from error


def _adapter(kind: type[R]) -> TypeAdapter[R]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
    return str(error)
