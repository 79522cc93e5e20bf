"""Reading a whole ledger and saying what is wrong with it. A finding is data; nothing is repaired here."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from veristate.core import InputError, canonical_bytes, digest
from veristate.ledger.entries import GENESIS, Entry, FindingKind, JournalFinding, check_entry, from_row
from veristate.ledger.tables import FILLED_BY, head, journal, records

Rows = set[tuple[int, str, str]]
_RECORD_IN = {
    "request.opened": "request",
    "view.released": "view",
    "certificate.issued": "certificate",
    "action.committed": "action",
}


def findings(connection: Connection) -> Iterator[JournalFinding]:
    """What is wrong: with each entry and the chain, the head, the records, and the gateway's tables."""
    said: dict[str, Rows] = {kind: set() for kind in FILLED_BY}
    seq, previous = 0, GENESIS
    for row in connection.execute(select(journal).order_by(journal.c.seq)):
        entry = from_row(row)
        wrong = list(check_entry(entry, after=seq, previous=previous))
        yield from wrong
        seq, previous = entry.seq, entry.digest
        if entry.kind in said and not wrong:
            yield from _take(entry, said[entry.kind])
    yield from _head(connection, seq, previous)
    yield from _records(connection)
    for kind, rows in said.items():
        yield from _table(connection, kind, rows)


def _head(connection: Connection, seq: int, previous: str) -> Iterator[JournalFinding]:
    stored = [tuple(row) for row in connection.execute(select(head.c.seq, head.c.digest))]
    if stored != ([(seq, previous)] if seq else []):
        detail = f"the head names {stored}, the last entry is {seq}, {previous}"
        yield JournalFinding(kind=FindingKind.HEAD, seq=seq, detail=detail)


def _records(connection: Connection) -> Iterator[JournalFinding]:
    for name, data in connection.execute(select(records.c.digest, records.c.data)):
        if digest(data) != name:
            detail = f"record {name} holds the bytes of {digest(data)}"
            yield JournalFinding(kind=FindingKind.RECORD, seq=None, detail=detail)


def _take(entry: Entry, rows: Rows) -> Iterator[JournalFinding]:
    """What is wrong with an entry of the gateway, whose row is added to what the journal says."""
    content = entry.content
    try:
        request_id, name, record = content["request_id"], content["digest"], content[_RECORD_IN[entry.kind]]
        right = digest(canonical_bytes(record)) == name and record["request_id"] == request_id
        row = (entry.seq, str(request_id), str(name))
    except (KeyError, TypeError, InputError) as error:
        yield JournalFinding(kind=FindingKind.GATEWAY, seq=entry.seq, detail=f"not an entry of the gateway: {error!r}")
        return
    if not right:
        yield JournalFinding(kind=FindingKind.GATEWAY, seq=entry.seq, detail="its record has another digest or request")
    once = entry.kind in ("request.opened", "action.committed")
    if once and any(other == request_id for _, other, _ in rows):
        detail = f"a second {entry.kind} for request {request_id!r}"
        yield JournalFinding(kind=FindingKind.GATEWAY, seq=entry.seq, detail=detail)
    rows.add(row)


def _table(connection: Connection, kind: str, said: Rows) -> Iterator[JournalFinding]:
    table = FILLED_BY[kind]
    columns = table.c.seq, table.c.request_id, table.c.digest
    stored: set[Any] = {tuple(row) for row in connection.execute(select(*columns))}
    known = set(connection.execute(select(records.c.digest)).scalars())
    for row in sorted(said ^ stored):
        where = "the journal says so, the table does not" if row in said else "the table says so, the journal does not"
        detail = f"{table.name} of request {row[1]!r}, {row[2]}: {where}"
        yield JournalFinding(kind=FindingKind.GATEWAY, seq=row[0], detail=detail)
    for row in sorted(row for row in said if row[2] not in known):
        yield JournalFinding(kind=FindingKind.RECORD, seq=row[0], detail=f"record {row[2]} is missing")
