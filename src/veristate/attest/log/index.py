"""Which leaf stands where: a table beside the log that can be made again from its tiles, and so is never believed.

It makes a retried append idempotent and finds an entry by its bytes.
"""

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from veristate.store import disk

_TABLE = "CREATE TABLE IF NOT EXISTS leaf (hash BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID"
_COUNT = "SELECT count(*), coalesce(max(place), -1) FROM leaf"
_FORGET = "DELETE FROM leaf WHERE place >= ?"
_ADD = "INSERT OR IGNORE INTO leaf VALUES (?, ?)"
_FIND = "SELECT hash, place FROM leaf WHERE hash IN ("
_ASKED_AT_ONCE = 500


class LeafIndex:
    """Leaf hashes by place. Opened where it is used; one process writes, under the log's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def settle(self, size: int, leaf: Callable[[int], bytes]) -> None:
        """Returns when the table holds exactly the first `size` leaves, those that were missing read by `leaf`."""
        try:
            known = self._forget_beyond(size)
        except sqlite3.DatabaseError:
            self._forget_connection()
            with disk(self._path):
                for name in (self._path.name, self._path.name + "-wal", self._path.name + "-shm"):
                    self._path.with_name(name).unlink(missing_ok=True)
            known = self._forget_beyond(size)
        if known < size:
            self.add([leaf(place) for place in range(known, size)], known)

    def add(self, hashes: Sequence[bytes], first: int) -> None:
        """Returns when `hashes` are in the table, at `first` and on."""
        with self._open() as connection:
            connection.executemany(_ADD, zip(hashes, range(first, first + len(hashes)), strict=True))

    def find(self, hashes: Sequence[bytes]) -> list[int | None]:
        """The place of each leaf, None for the unknown."""
        places: dict[bytes, int] = {}
        with self._open() as connection:
            for start in range(0, len(hashes), _ASKED_AT_ONCE):
                part = hashes[start : start + _ASKED_AT_ONCE]
                places |= connection.execute(_FIND + ",".join("?" * len(part)) + ")", part).fetchall()
        return [places.get(name) for name in hashes]

    def _forget_beyond(self, size: int) -> int:
        """How many leaves are known, all of them below `size` and none missing between; 0 when some are."""
        with self._open() as connection:
            connection.execute(_FORGET, (size,))
            count, last = connection.execute(_COUNT).fetchone()
            if count == last + 1:
                return int(count)
            connection.execute(_FORGET, (0,))
            return 0

    def _forget_connection(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The process's connection, in a transaction. Closing one each time would cost a write of all changes."""
        if self._connection is None or self._process != os.getpid():
            with disk(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=30.0, check_same_thread=False)
            self._process = os.getpid()
            weakref.finalize(self, self._connection.close)
            # After a power cut WAL with NORMAL may lack the last rows and is whole otherwise; `settle` adds those.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            # Hashes fall anywhere in the table: its pages are held, and written home seldom and together.
            self._connection.execute("PRAGMA cache_size=-65536")
            self._connection.execute("PRAGMA wal_autocheckpoint=20000")
            self._connection.execute(_TABLE)
        with self._connection:
            yield self._connection
