"""Entries of the journal: what one is, what its digest covers, and what can be wrong with a row of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row

from veristate.core import InputError, canonical_bytes, digest

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened. `body` is the canonical JSON that was hashed; `digest` covers everything else here."""

    seq: int
    previous: str
    kind: str
    time: str
    body: bytes
    digest: str

    @property
    def content(self) -> dict[str, Any]:
        """The body as a dictionary."""
        content: dict[str, Any] = json.loads(self.body)
        return content


class FindingKind(StrEnum):
    """What can be wrong with a ledger."""

    GAP = "entry missing"
    CHAIN = "chain broken"
    BODY = "body not canonical"
    DIGEST = "digest differs"
    HEAD = "head differs"
    RECORD = "record differs"
    GATEWAY = "gateway differs"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFinding:
    """One thing that is wrong. `seq` is the entry it was found at, None when it belongs to none."""

    kind: FindingKind
    seq: int | None
    detail: str


def sealed(*, seq: int, previous: str, kind: str, time: str, body: bytes) -> Entry:
    """The entry with its digest: SHA-256 of the canonical bytes of seq, previous, kind, time and body.

    Raises: ValueError or InputError when the body is no canonical JSON.
    """
    if canonical_bytes(json.loads(body)) != body:
        raise ValueError("the same content in canonical JSON has other bytes")
    rest = canonical_bytes({"seq": seq, "previous": previous, "kind": kind, "time": time})
    covered = b'{"body":' + body + b"," + rest[1:]  # canonical too: the body's key is the first of them
    return Entry(seq=seq, previous=previous, kind=kind, time=time, body=body, digest=digest(covered))


def from_row(row: Row[Any]) -> Entry:
    """The entry as stored, unverified."""
    return Entry(**row._mapping)


def check_entry(entry: Entry, *, after: int, previous: str) -> Iterator[JournalFinding]:
    """What is wrong with `entry`, which follows the entry `after` whose digest is `previous`."""
    if entry.seq != after + 1:
        missing = f"after entry {after} comes entry {entry.seq}"
        yield JournalFinding(kind=FindingKind.GAP, seq=entry.seq, detail=missing)
    elif entry.previous != previous:
        names = f"names {entry.previous} as the one before, which has {previous}"
        yield JournalFinding(kind=FindingKind.CHAIN, seq=entry.seq, detail=names)
    try:
        right = sealed(seq=entry.seq, previous=entry.previous, kind=entry.kind, time=entry.time, body=entry.body).digest
    except (ValueError, InputError, RecursionError) as error:
        yield JournalFinding(kind=FindingKind.BODY, seq=entry.seq, detail=str(error))
        return
    if right != entry.digest:
        differs = f"stored as {entry.digest}, its content has {right}"
        yield JournalFinding(kind=FindingKind.DIGEST, seq=entry.seq, detail=differs)
