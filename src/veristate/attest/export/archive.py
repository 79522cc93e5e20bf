"""An archive of which every byte is determined by names and contents, and which every zip program opens.

Members are stored, not compressed, in order, with fixed times and rights. Reading takes exactly what writing gives, so
a byte that was changed anywhere, also in a header, is seen. Source: PKWARE APPNOTE 6.3, sections 4.3.7 to 4.3.16.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from veristate.core import InputError, TamperError

MEMBERS_UPPER = 65_534
BYTES_UPPER = 2**32 - 2
_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION, _UTF8, _STORED, _TIME, _DATE, _MODE = 20, 0x800, 0, 0, 0x21, 0o100644 << 16
_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL_HEADER = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END_RECORD = struct.Struct("<4sHHHHIIH")


def write_archive(target: BinaryIO, members: Iterable[tuple[str, bytes]]) -> int:
    """The size of the archive that was written to `target`. Raises: InputError when it would be too large."""
    at, count, central = 0, 0, b""
    for name, data in members:
        if at + len(data) > BYTES_UPPER or count == MEMBERS_UPPER:
            raise InputError("an export of more than 4 GB or 65,534 files; redact artifacts, or export less")
        header = _local(name, data)
        central += _entry(name, data, at)
        target.write(header + data)
        at, count = at + len(header) + len(data), count + 1
    target.write(central + _ending(count, len(central), at))
    return at + len(central) + _END_RECORD.size


def read_archive(source: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """The members, one by one; when the iterator has ended, every byte of `source` was what `write_archive` writes.

    Raises: TamperError at the first member that is not, naming it.
    """
    at, count, central = 0, 0, b""
    while (start := source.read(_LOCAL_HEADER.size))[:4] == _LOCAL:
        name, data = _member(start, source)
        count += 1
        central += _entry(name, data, at)
        at += _LOCAL_HEADER.size + len(name.encode()) + len(data)
        yield name, data
    rest = start + source.read(len(central) + _END_RECORD.size + 1)
    if rest != central + _ending(count, len(central), at):
        raise TamperError("the archive's directory, at its end, is not that of its members")


def _member(start: bytes, source: BinaryIO) -> tuple[str, bytes]:
    if len(start) < _LOCAL_HEADER.size:
        raise TamperError("the archive ends within a member's header")
    size, length = _LOCAL_HEADER.unpack(start)[8:10]
    encoded = source.read(length)
    data = source.read(size)
    try:
        name = encoded.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TamperError(f"the archive has a member whose name is no text: {encoded[:60]!r}") from error
    if start + encoded != _local(name, data):
        raise TamperError(f"the archive's member {name[:120]!r} is not what its header says")
    return name, data


def _local(name: str, data: bytes) -> bytes:
    encoded = name.encode()
    fields = (_VERSION, _UTF8, _STORED, _TIME, _DATE, zlib.crc32(data), len(data), len(data), len(encoded), 0)
    return _LOCAL_HEADER.pack(_LOCAL, *fields) + encoded


def _entry(name: str, data: bytes, at: int) -> bytes:
    encoded = name.encode()
    made_by = 3 << 8 | _VERSION
    fields = (made_by, _VERSION, _UTF8, _STORED, _TIME, _DATE, zlib.crc32(data), len(data), len(data), len(encoded))
    return _CENTRAL_HEADER.pack(_CENTRAL, *fields, 0, 0, 0, 0, _MODE, at) + encoded


def _ending(count: int, size: int, at: int) -> bytes:
    return _END_RECORD.pack(_END, 0, 0, count, count, size, at, 0)
