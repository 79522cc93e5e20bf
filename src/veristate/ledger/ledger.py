"""The ledger as the other rooms see it: one file, opened, with a journal, records and a gateway."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import select

from veristate.core import Clock, EnvironmentUnusableError, InputError, Record, RefusedError, TamperError, utc_now
from veristate.ledger.database import Database
from veristate.ledger.entries import GENESIS, Entry, FindingKind, JournalFinding, from_row
from veristate.ledger.gateway import Gateway
from veristate.ledger.journal import add, keep, last, read, require_whole
from veristate.ledger.tables import GATEWAY_KINDS, SCHEMA_VERSION, journal, metadata, schema
from veristate.ledger.verify import findings

R = TypeVar("R", bound=Record)
_PAGE = 500


class Ledger:
    """A journal, the records it speaks of, and the gateway, in one SQLite file. Made by `Ledger.open`.

    Any number of processes and threads may use the file at once, each process with a ledger it opened itself. What a
    method has returned from is on the disk.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.path = database.path
        self.gateway = Gateway(database, clock)

    @classmethod
    def open(cls, path: Path, *, clock: Clock = utc_now, patience_s: float = 30.0) -> Self:
        """The ledger in the file `path`, made if there is none; `patience_s` is how long it waits for other writers.

        Raises: EnvironmentUnusableError for a newer version or a place that can't be used; InputError for a database
        of something else; TamperError for what is no database.
        """
        database = Database(path.absolute(), metadata, schema, patience_s=patience_s)
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentUnusableError(f"{path.parent}: {error.strerror}; choose another place") from error
        try:
            database.prepare({"version": SCHEMA_VERSION})
        except BaseException:
            database.close()
            raise
        return cls(database, clock)

    def append(self, kind: str, body: Mapping[str, Any], *, records: Sequence[Record] = ()) -> Entry:
        """The new last entry of the journal, kept together with `records` or not at all.

        Raises: RefusedError for a kind that only the gateway writes; InputError for a body that canonical JSON can't
        hold; TamperError when the journal's end is damaged.
        """
        if kind in GATEWAY_KINDS:
            raise RefusedError(f"only the gateway writes {kind!r} entries; propose through it")
        if not kind or not isinstance(body, Mapping):
            raise InputError(f"an entry needs a kind and a mapping as its body, not {kind!r} and {body!r}")
        with self._database.writing() as connection:
            for record in records:
                keep(connection, record)
            return add(connection, kind=kind, body=body, clock=self._clock)

    def head(self) -> str:
        """The digest of the last entry, `GENESIS` when there is none. Raises: TamperError when the end is damaged."""
        with self._database.reading() as connection:
            return last(connection)[1]

    def entries(self, since: int = 0) -> Iterator[Entry]:
        """The entries after number `since`, in order, each re-hashed and its chain followed as it is read.

        Raises: TamperError at the first that is not what was written.
        """
        seq, previous = since, GENESIS if since <= 0 else None
        while True:
            with self._database.reading() as connection:
                page = select(journal).where(journal.c.seq > seq).order_by(journal.c.seq).limit(_PAGE)
                rows = connection.execute(page).all()
            for row in rows:
                entry = from_row(row)
                require_whole(entry, after=max(seq, 0), previous=entry.previous if previous is None else previous)
                yield entry
                seq, previous = entry.seq, entry.digest
            if len(rows) < _PAGE:
                return

    def record(self, record: Record) -> str:
        """The digest under which the record's canonical bytes are kept now; keeping it again changes nothing."""
        with self._database.writing() as connection:
            return keep(connection, record)

    def read(self, name: str, kind: type[R]) -> R:
        """The record whose digest is `name`. Raises: InputError when there is none; TamperError when it is damaged."""
        with self._database.reading() as connection:
            return read(connection, name, kind)

    def verify(self) -> tuple[JournalFinding, ...]:
        """What is wrong with the ledger: its pages, the chain, the head, the records, and the gateway's tables against
        the journal. Empty when all is well.
        """
        found: list[JournalFinding] = []
        try:
            with self._database.reading() as connection:
                for line in self._database.damage(connection):
                    found.append(JournalFinding(kind=FindingKind.UNREADABLE, seq=None, detail=line))
                found.extend(findings(connection))
        except TamperError as error:
            found.append(JournalFinding(kind=FindingKind.UNREADABLE, seq=None, detail=str(error)))
        return tuple(found)

    def require(self) -> None:
        """Returns when `verify` finds nothing. Raises: TamperError with what it found and where."""
        if found := self.verify():
            first = "; ".join(f"entry {f.seq}, {f.kind}: {f.detail}" for f in found[:3])
            raise TamperError(f"{self.path}: {len(found)} findings: {first}; bring the ledger back from a copy")

    def close(self) -> None:
        """Returns when the file is closed."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
