"""Quick snapshots: what is unchanged is not read again, and whatever changes is seen, however it is written."""

import hashlib
import mmap
import os
import random
import shutil
import time
from pathlib import Path

import pytest
import rfc8785

import veristate.store.seen as seen
from veristate.store import Store, Tree

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def work(tmp_path):
    """A workspace that is old enough to be remembered."""
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_bytes(b"one")
    (folder / "sub" / "pages").write_bytes(bytes(2 * mmap.PAGESIZE))
    time.sleep(2 * seen.GRAIN_NS / 1e9)
    return folder


def reads(monkeypatch):
    """The names of files that are opened for reading from now on."""
    opened = []
    real = os.open

    def late(path, flags, *rest, dir_fd=None):
        if dir_fd is not None and not flags & os.O_DIRECTORY:
            opened.append(path)
        return real(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", late)
    return opened


def test_what_is_unchanged_is_not_read_again(store, work, monkeypatch):
    """Also by another process later; the digest is the one of a snapshot that reads every byte."""
    tree = store.snapshot(work, quick=True)
    opened = reads(monkeypatch)
    assert Store.open(store.root).snapshot(work, quick=True) == tree
    assert opened == []
    assert store.snapshot(work) == tree
    assert sorted(opened) == [b"one", b"pages"]


def change_bytes(path):
    """In place, the size and the modification time as they were."""
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def change_file(path):
    """Another file of the same size and modification time under the same name."""
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"x" + path.read_bytes()[1:])
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)


@pytest.mark.parametrize("change", [change_bytes, change_file])
def test_a_change_that_keeps_size_and_time_is_seen(store, work, change):
    """The time of change, or the inode, gives it away."""
    before = store.snapshot(work, quick=True)
    change(work / "one")
    after = store.snapshot(work, quick=True)
    assert after != before
    assert after == Store.open(store.root.with_name("fresh")).snapshot(work)


def test_a_write_through_a_mapping_that_stays_open_is_seen(store, work):
    """The page was dirty before the first snapshot and is written again after it, by the same mapping."""
    with (work / "sub" / "pages").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        pages[0] = 1
        time.sleep(2 * seen.GRAIN_NS / 1e9)
        for value in range(2, 6):
            before = store.snapshot(work, quick=True)
            pages[0] = value
            after = store.snapshot(work, quick=True)
            assert after != before
            blob = store.tree(store.tree(after).entries[-1].tree).entries[0].blob
            assert blob == hashlib.sha256((work / "sub" / "pages").read_bytes()).hexdigest()


def test_a_file_system_that_does_not_tell_is_read_whole(tmp_path, monkeypatch):
    """Where a write through a mapping leaves the times as they are, nothing is remembered."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        pytest.skip("no file system in memory here")
    monkeypatch.setattr(seen, "_TRIED", {})
    base = shared / f"veristate-{os.getpid()}"
    (base / "work").mkdir(parents=True)
    try:
        (base / "work" / "pages").write_bytes(bytes(mmap.PAGESIZE))
        time.sleep(2 * seen.GRAIN_NS / 1e9)
        store = Store.open(base / "store")
        with (base / "work" / "pages").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            pages[0] = 1
            before = store.snapshot(base / "work", quick=True)
            pages[0] = 2
            assert store.snapshot(base / "work", quick=True) != before
    finally:
        shutil.rmtree(base)


def test_a_file_system_that_was_tried_is_not_tried_again(store, work, monkeypatch):
    """What is remembered was remembered where writes are told of; another start of the machine forgets that too."""
    monkeypatch.setattr(seen, "_TRIED", {})
    tree = store.snapshot(work, quick=True)
    assert list(seen._TRIED) == [work.stat().st_dev]
    monkeypatch.setattr(seen, "_TRIED", {})
    assert store.snapshot(work, quick=True) == tree
    assert seen._TRIED == {}
    monkeypatch.setattr(seen, "_since_start", lambda: b"0" * 36)
    store.snapshot(work, quick=True)
    assert seen._TRIED


def test_what_was_just_written_is_not_remembered(store, work, monkeypatch):
    """A change within the clock's grain of the reading could not be told from none."""
    (work / "young").write_bytes(b"young")
    store.snapshot(work, quick=True)
    opened = reads(monkeypatch)
    store.snapshot(work, quick=True)
    assert b"young" in opened


@pytest.mark.parametrize("harm", ["cut", "flip", "another start of the machine"])
def test_a_damaged_memory_is_no_memory(store, work, monkeypatch, harm):
    """A memory that is torn, changed or older than the machine's start only costs time."""
    tree = store.snapshot(work, quick=True)
    (path,) = (store.root / "seen").iterdir()
    data = path.read_bytes()
    if harm == "cut":
        path.write_bytes(data[:-20])
    elif harm == "flip":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        monkeypatch.setattr(seen, "_since_start", lambda: b"0" * 36)
    opened = reads(monkeypatch)
    assert store.snapshot(work, quick=True) == tree
    assert sorted(opened) == [b"one", b"pages"]


def test_a_quick_restore_is_exact_and_the_next_snapshot_reads_nothing(store, work, walk, monkeypatch):
    """What a restore wrote is known; what it replaced is kept."""
    was, tree = walk(work), store.snapshot(work, quick=True)
    (work / "one").write_bytes(b"another")
    now = walk(work)
    replaced = store.restore(tree, work, quick=True)
    assert walk(work) == was
    assert store.restore(replaced, work, quick=True)
    assert walk(work) == now
    store.restore(tree, work, quick=True)
    time.sleep(2 * seen.GRAIN_NS / 1e9)
    store.snapshot(work, quick=True)
    opened = reads(monkeypatch)
    assert store.snapshot(work, quick=True) == tree
    assert opened == []


def test_manifests_are_canonical_json(store, tmp_path):
    """The bytes of a manifest are those of RFC 8785, by the library that the records use, for names of every kind."""
    folder = tmp_path / "names"
    folder.mkdir()
    draw = random.Random(3)
    for number in range(0x20, 0x250):
        if chr(number) not in "/\x7f":
            (folder / f"{chr(number)}{draw.randrange(9)}\n\t\x01\x7f\u2028\U0001f600").write_bytes(b"")
    data = store.get(store.snapshot(folder))
    tree = Tree.from_bytes(data, "0")
    entries = [
        {"kind": "file", "mode": f"{e.mode:04o}", "size": e.size, "blob": e.blob, "name": e.name.decode()}
        for e in tree.entries
    ]
    assert len(entries) > 500
    assert data == rfc8785.dumps({"format": "veristate.tree/1", "mode": f"{tree.mode:04o}", "entries": entries})
