"""Opening a ledger: its version, other people's databases, and disks that refuse."""

import os
import re
import sqlite3
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from veristate.core import EnvironmentUnusableError, InputError, TamperError
from veristate.ledger import Ledger


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_not_touched(ledger, raw, path, version):
    """A ledger of another version is EnvironmentUnusableError naming path, found and supported version."""
    ledger.close()
    raw("update schema set version = ?", version)
    with pytest.raises(EnvironmentUnusableError, match=rf"ledger.sqlite: version \[{version}\].*reads 1"):
        Ledger.open(path)


def test_a_database_of_something_else_is_not_taken(path, raw):
    """A database with foreign tables is refused, and nothing is added to it."""
    raw("create table recipes (name text)")
    with pytest.raises(InputError, match="something else: it has a table 'recipes'"):
        Ledger.open(path)
    assert raw("select name from sqlite_master") == [("recipes",)]


def test_a_file_that_is_no_database_is_tampering(path):
    """Bytes that SQLite can't read are TamperError naming the path."""
    path.write_bytes(b"x" * 5000)
    with pytest.raises(TamperError, match=r"ledger.sqlite: file is not a database"):
        Ledger.open(path)


def test_a_damaged_page_is_a_finding(ledger, path):
    """A ledger with any one of its pages overwritten is found to be damaged, not read as if nothing were."""
    for number in range(200):
        ledger.append("note.made", {"number": number})
    ledger.close()
    whole = path.read_bytes()
    noticed = 0
    for start in range(0, len(whole), 4096):
        path.write_bytes(whole[:start] + bytes(4096) + whole[start + 4096 :])
        try:
            with Ledger.open(path) as again:
                noticed += again.verify() != ()
        except TamperError:
            noticed += 1
    assert noticed == len(whole) // 4096 > 10


def test_a_text_that_is_none_is_tampering_or_not_read(ledger, path):
    """A changed byte that leaves a name or a text no UTF-8 is TamperError wherever it is read, never another error."""
    ledger.append("note.made", {"number": 1})
    ledger.close()
    whole = path.read_bytes()
    noticed = 0
    for found in re.finditer(rb"journal|note\.made|digest|previous", whole):
        path.write_bytes(whole[: found.start()] + b"\xff" + whole[found.start() + 1 :])
        try:
            with Ledger.open(path) as again:
                again.require()
        except TamperError:
            noticed += 1
    assert noticed >= 5
    path.write_bytes(whole)
    with Ledger.open(path) as again:
        again.require()


def test_a_full_disk_is_named(ledger, path):
    """When SQLite finds no space the append is EnvironmentUnusableError, and the journal is as it was before."""
    ledger.append("note.made", {})
    ledger.close()
    event.listen(Engine, "connect", full := lambda connection, record: connection.execute("pragma max_page_count = 20"))
    try:
        with pytest.raises(EnvironmentUnusableError, match=r"ledger.sqlite: database or disk is full; free some space"):
            ledger.append("note.made", {"text": "x" * 90_000})
        assert ledger.verify() == ()
    finally:
        event.remove(Engine, "connect", full)
        ledger.close()
    ledger.append("note.made", {"text": "x" * 90_000})
    assert ledger.verify() == ()


def test_a_ledger_that_somebody_else_holds_is_named(path):
    """After waiting as long as it may, a writer is EnvironmentUnusableError with the path."""
    with Ledger.open(path, patience_s=0.05) as ledger:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        with pytest.raises(EnvironmentUnusableError, match=r"ledger.sqlite: database is locked; another process"):
            ledger.append("note.made", {})
        other.execute("rollback")
        other.close()
        assert ledger.append("note.made", {}).seq == 1


def test_a_place_without_permission_is_named(child):
    """A plain user is told which ledger can't be made or written."""

    def work():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            Ledger.open(folder / "theirs.sqlite").close()
            folder.chmod(0o755)
            if os.geteuid() == 0:
                os.setuid(65534)
            else:
                folder.chmod(0o555)
                (folder / "theirs.sqlite").chmod(0o444)
            for file, trouble in (("mine.sqlite", "unable to open"), ("theirs.sqlite", "readonly|unable to open")):
                with pytest.raises(EnvironmentUnusableError, match=rf"{file}: .*({trouble}).*; give this user"):
                    Ledger.open(folder / file).append("note.made", {})
            with pytest.raises(EnvironmentUnusableError, match="Permission denied"):
                Ledger.open(folder / "sub" / "mine.sqlite")
            os._exit(0)

    process = child(work)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_what_is_written_is_synced(ledger, raw):
    """Every connection runs in WAL mode with synchronous FULL and foreign keys on."""
    with ledger._database.reading() as connection:
        settings = [
            connection.exec_driver_sql(f"pragma {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert settings == ["wal", 2, 1]


def test_processes_opening_a_new_ledger_at_once_share_it(path, child):
    """Four processes that make the ledger and append at the same moment leave one whole journal."""

    def work():
        with Ledger.open(path) as mine:
            for number in range(5):
                mine.append("note.made", {"number": number})

    workers = [child(work) for _ in range(4)]
    assert [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers] == [0] * 4
    with Ledger.open(path) as ledger:
        assert len(list(ledger.entries())) == 20
        assert ledger.verify() == ()


def test_a_reopened_ledger_goes_on(path):
    """Entries, head and the next number are the same after closing and opening."""
    with Ledger.open(path) as ledger:
        first = ledger.append("note.made", {})
    with Ledger.open(path) as ledger:
        assert ledger.head() == first.digest
        assert ledger.append("note.made", {}).previous == first.digest
