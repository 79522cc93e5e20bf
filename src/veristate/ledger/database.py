"""Transactions on one SQLite file, and its troubles in our words. What another database would do otherwise is here.

WAL, synchronous FULL: when a transaction returns it is on the disk. Writing transactions begin IMMEDIATE, so that what
they read can't change before they write.
"""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, MetaData, Row, Table, create_engine, event, inspect, select
from sqlalchemy.exc import DBAPIError

from veristate.core import EnvironmentUnusableError, InputError, TamperError
from veristate.store import sync_folder

_ADVICE = {
    "SQLITE_FULL": "free some space on that disk and run again",
    "SQLITE_READONLY": "give this user write permission on the file and its folder",
    "SQLITE_CANTOPEN": "give this user permission on the file and its folder, or choose another place",
    "SQLITE_PERM": "give this user permission on the file and its folder, or choose another place",
    "SQLITE_BUSY": "another process is writing there; wait for it and run again",
    "SQLITE_LOCKED": "another connection is writing there; wait for it and run again",
    "SQLITE_IOERR": "see to the disk and run again",
    "SQLITE_NOLFS": "see to the disk and run again",
}
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_MISMATCH", "SQLITE_FORMAT")
# What the driver says, without a code, of a header, a schema or a text that was changed.
_ALTERED = ("no such", "Could not decode", "unsupported file format")


class Database:
    """One SQLite file with our tables. Opened in the process that uses it: a connection doesn't survive a fork.

    `mark` is the table whose one row says whose file it is, and `version` a column of it.
    """

    def __init__(self, path: Path, metadata: MetaData, mark: Table, *, patience_s: float) -> None:
        self.path = path
        self._metadata = metadata
        self._mark = mark
        self._patience_s = patience_s
        url = URL.create("sqlite+pysqlite", database=str(path))
        self._engine = create_engine(url, connect_args={"timeout": patience_s})
        event.listen(self._engine, "connect", _configure)
        event.listen(self._engine, "begin", _begin)

    def prepare(self, row: Mapping[str, Any]) -> Row[Any]:
        """The row of the mark, which is `row` in a new file: it is there, in WAL mode, with the tables of this version.

        Raises: EnvironmentUnusableError for another version or a file that can't be used; InputError when it is a
        database of something else; TamperError when it is no database.
        """
        new = not self.path.exists()
        self._use_wal()
        with self.writing() as connection:
            names = inspect(connection).get_table_names()
            if not names:
                self._metadata.create_all(connection, checkfirst=False)
                connection.execute(self._mark.insert().values(row))
            elif self._mark.name not in names:
                raise InputError(f"{self.path} is a database of something else: it has a table {names[0]!r}")
            found = connection.execute(select(self._mark)).all()
        versions = [one.version for one in found]
        if versions != [row["version"]]:
            raise EnvironmentUnusableError(
                f"{self.path}: version {versions}, but this veristate reads {row['version']}; use the other one"
            )
        if new:
            with self._troubles():
                sync_folder(self.path.parent)
        return found[0]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database throughout."""
        with self._troubles(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that nobody else writes beside: all of the block is kept, or none."""
        with self._troubles(), self._engine.connect() as connection:
            connection.execution_options(veristate_writes=True)
            with connection.begin():
                yield connection

    def damage(self, connection: Connection) -> list[str]:
        """What SQLite itself finds wrong with its pages and indexes, and what is defined otherwise than it was made: a
        broken or missing UNIQUE index would not refuse a second commitment.
        """
        said = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        made = create_engine("sqlite://")
        with made.connect() as fresh:
            self._metadata.create_all(fresh)
            right = _definitions(fresh)
        made.dispose()
        stored = _definitions(connection)
        altered = [name for name in sorted(right | stored, key=repr) if right.get(name) != stored.get(name)]
        return [
            *(str(line) for line in said if line != "ok"),
            *(f"{kind} {name!r} is not defined as it was made" for kind, name, _ in altered),
        ]

    def close(self) -> None:
        """Returns when the connections are closed; the next use opens new ones."""
        self._engine.dispose()

    def _use_wal(self) -> None:
        """Returns when the file is in WAL mode, which lasts. SQLite doesn't wait for its lock here, so we do."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                with self._troubles():
                    raw = self._engine.raw_connection()
                    try:
                        mode = raw.cursor().execute("PRAGMA journal_mode=WAL").fetchone()[0]
                    finally:
                        raw.close()
            except EnvironmentUnusableError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                break
        if mode != "wal":
            raise EnvironmentUnusableError(f"{self.path}: its file system can't share a ledger; choose a local disk")

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """A block whose database errors become ours, naming the file."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            name = str(getattr(cause, "sqlite_errorname", ""))
            for prefix, advice in _ADVICE.items():
                if name.startswith(prefix):
                    raise EnvironmentUnusableError(f"{self.path}: {cause}; {advice}") from error
            if name.startswith(_DAMAGED) or str(cause).startswith(_ALTERED):
                raise TamperError(f"{self.path}: {cause}; bring it back from a copy") from error
            raise
        except UnicodeDecodeError as error:
            raise TamperError(f"{self.path}: it holds a text that is none; bring it back from a copy") from error
        except OSError as error:
            raise EnvironmentUnusableError(f"{self.path}: {error.strerror}; see to the disk and run again") from error


def _definitions(connection: Connection) -> dict[tuple[Any, Any, Any], Any]:
    """How each table and index is defined, by kind, name and table, blanks apart."""
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master")
    # What SQLite keeps for its planner (after ANALYZE, which database browsers run) is nobody's definition.
    own = (row for row in rows if not str(row[1]).startswith("sqlite_stat"))
    return {(kind, name, table): " ".join(str(sql).split()) for kind, name, table, sql in own}


def _configure(connection: Any, _record: Any) -> None:
    # None: the driver begins nothing by itself, `_begin` does (SQLAlchemy documents this for pysqlite).
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("veristate_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
