"""The journal and the records, inside a transaction that somebody else has begun."""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, insert, select, update

from veristate.core import Clock, InputError, Record, TamperError, canonical_bytes, digest
from veristate.ledger.entries import GENESIS, Entry, check_entry, from_row, sealed
from veristate.ledger.tables import head, journal, records

R = TypeVar("R", bound=Record)

# Built once: building a statement costs more than running it.
_HEAD = select(head.c.seq, head.c.digest)
_LAST = select(journal).order_by(journal.c.seq.desc()).limit(1)
_AT = select(journal).where(journal.c.seq == bindparam("wanted"))
_ADD = insert(journal)
_FIRST_HEAD, _NEXT_HEAD = insert(head), update(head)
_KEPT = select(records.c.digest).where(records.c.digest == bindparam("wanted"))
_KEEP = insert(records)
_RECORD = select(records.c.data).where(records.c.digest == bindparam("wanted"))


def add(connection: Connection, *, kind: str, body: Mapping[str, Any], clock: Clock) -> Entry:
    """The new last entry, and the head that names it.

    Raises: InputError when the body is nothing that canonical JSON can hold; TamperError when the last entry is not
    what the head says, for nothing is built on a broken chain.
    """
    try:
        data = canonical_bytes(body)
    except ValueError as error:
        raise InputError(f"the journal can't hold this {kind}: {error}") from error
    seq, previous = last(connection)
    entry = sealed(seq=seq + 1, previous=previous, kind=kind, time=clock(), body=data)
    connection.execute(_ADD, {name: getattr(entry, name) for name in Entry.__slots__})
    now = {"seq": entry.seq, "digest": entry.digest}
    if seq:
        connection.execute(_NEXT_HEAD, now)
    else:
        connection.execute(_FIRST_HEAD, now | {"id": 1})
    return entry


def last(connection: Connection) -> tuple[int, str]:
    """The number and digest of the last entry: 0 and `GENESIS` when there is none.

    Raises: TamperError when the head names another entry, or that entry's content is not what was hashed.
    """
    stored = connection.execute(_HEAD).first()
    row = connection.execute(_LAST).first()
    if stored is None and row is None:
        return 0, GENESIS
    if stored is None or row is None or (row.seq, row.digest) != tuple(stored):
        raise TamperError("the journal's last entry is not the one its head names; run verify")
    entry = from_row(row)
    require_whole(entry, after=entry.seq - 1, previous=entry.previous)
    return entry.seq, entry.digest


def at(connection: Connection, seq: int) -> Entry:
    """The entry with this number. Raises: TamperError when it is gone, or is not what was hashed."""
    row = connection.execute(_AT, {"wanted": seq}).first()
    if row is None:
        raise TamperError(f"entry {seq} of the journal is missing; run verify")
    entry = from_row(row)
    require_whole(entry, after=seq - 1, previous=entry.previous)
    return entry


def require_whole(entry: Entry, *, after: int, previous: str) -> None:
    """Returns when nothing is wrong with the entry. Raises: TamperError with the first thing that is."""
    for finding in check_entry(entry, after=after, previous=previous):
        raise TamperError(f"entry {finding.seq} of the journal, {finding.kind}: {finding.detail}; run verify")


def keep(connection: Connection, record: Record) -> str:
    """The digest under which the record's canonical bytes are kept; keeping it again changes nothing.

    Raises: InputError when it holds what canonical JSON can't.
    """
    try:
        data = record.to_bytes()
    except ValueError as error:
        raise InputError(f"this {record.FORMAT} record can't be kept: {error}") from error
    name = digest(data)
    if not connection.execute(_KEPT, {"wanted": name}).first():
        connection.execute(_KEEP, {"digest": name, "data": data})
    return name


def read(connection: Connection, name: str, kind: type[R]) -> R:
    """The record with this digest. Raises: InputError when there is none; TamperError when it is not what was kept."""
    data = connection.execute(_RECORD, {"wanted": name}).scalar()
    if data is None:
        raise InputError(f"no record {name} in this ledger")
    if digest(data) != name:
        raise TamperError(f"record {name} holds the bytes of {digest(data)}; bring the ledger back from a copy")
    return kind.from_bytes(data)
