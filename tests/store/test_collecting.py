"""Collecting, pins and the quota: what something names is kept whatever happens, what nothing names goes."""

import itertools
import os
import random
import time

import pytest

from veristate.core import InputError, RefusedError, TamperError
from veristate.store import Store, collecting
from veristate.store.packs import read_index

pytestmark = pytest.mark.usefixtures("unsynced")


def filled(folder, seed, size=50_000):
    """A workspace of two files, one the same for every seed."""
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "same").write_bytes(random.Random(0).randbytes(size))
    (folder / "sub" / "own").write_bytes(random.Random(seed).randbytes(size))
    return folder


def aged(store, seconds=7200):
    """Makes everything in the store that old."""
    for path in store.root.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - seconds,) * 2)


def names(store):
    """Every blob that the files of the store hold."""
    found = set()
    for path in (store.root / "blobs").rglob("*"):
        if path.suffix == ".pack":
            found |= {key.hex() for key in read_index(path)}
        elif path.is_file():
            found.add(path.name)
    return found


def test_what_nothing_names_goes_and_what_is_named_stays(store, tmp_path, walk):
    """Of three snapshots the caller keeps one and a pin another; both come back, the third's bytes are gone."""
    trees, seen = [], []
    for seed in (1, 2, 3):
        trees.append(store.snapshot(filled(tmp_path / "work", seed)))
        seen.append(walk(tmp_path / "work"))
    orphan = store.put(b"nobody's")
    kept = store.put(b"somebody's")
    store.pin("best", trees[1])
    before = names(store)
    aged(store)
    done = store.collect([trees[0], kept])
    assert before - names(store) >= {trees[2], orphan}
    assert done.blobs == len(before - names(store))
    assert done.freed_bytes > 50_000
    assert done.left_bytes == store.size_bytes()
    assert store.fsck([trees[0], trees[1]]) == ()
    assert store.get(kept) == b"somebody's"
    for tree, was in zip(trees[:2], seen[:2], strict=True):
        store.restore(tree, tmp_path / "again")
        assert walk(tmp_path / "again") == was
    with pytest.raises(InputError):
        store.restore(trees[2], tmp_path / "again")
    store.unpin("best")
    assert store.pins() == {}
    aged(store)
    store.collect([trees[0]])
    assert not store.has(trees[1])


def test_what_was_captured_just_now_is_spared(store, tmp_path):
    """A snapshot whose digest is still on its way into a journal is kept, also when all its content is old."""
    work = filled(tmp_path / "work", 1)
    tree = store.snapshot(work)
    aged(store)
    assert store.snapshot(work) == tree
    old = store.put(b"put again")
    aged(store, 3000)
    store.collect([])
    assert store.fsck([tree]) == ()
    assert store.get(old) == b"put again"


def test_nothing_is_removed_when_a_root_is_missing_or_damaged(store, tmp_path):
    """A wrong store, or one that has lost something, is no reason to delete the rest."""
    tree = store.snapshot(filled(tmp_path / "work", 1))
    store.put(b"orphan")
    aged(store)
    before = names(store)
    with pytest.raises(InputError, match="nothing was collected"):
        store.collect([tree, "0" * 64])
    (pack,) = (store.root / "blobs" / "packs").iterdir()
    offset, length = read_index(pack)[bytes.fromhex(tree)]
    stored = bytearray(pack.read_bytes())
    stored[offset + length - 1] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(stored)
    aged(store)
    with pytest.raises(TamperError):
        Store.open(store.root).collect([tree])
    assert names(store) == before


def test_many_small_packs_become_one(store, tmp_path, walk, monkeypatch):
    """Snapshots in a row make packs in a row; collecting them keeps every tree in one pack."""
    monkeypatch.setattr(collecting, "SMALL_UPPER", 4)
    trees = [store.snapshot(filled(tmp_path / "work", seed, 500)) for seed in range(8)]
    aged(store)
    store.collect(trees)
    assert len(list((store.root / "blobs" / "packs").iterdir())) == 1
    assert store.fsck(trees) == ()


def test_a_byte_appended_to_a_large_file_costs_little(store, tmp_path):
    """One byte at the end of 200 MB adds under 5 MB."""
    work = tmp_path / "work"
    work.mkdir()
    draw = random.Random(5)
    with (work / "large").open("wb") as large:
        for _ in range(200):
            large.write(draw.randbytes(10**6))
    first = store.snapshot(work, quick=True)
    before = store.size_bytes()
    with (work / "large").open("ab") as large:
        large.write(b"x")
    assert store.snapshot(work, quick=True) != first
    assert 0 < store.size_bytes() - before < 5_000_000


def test_a_large_file_keeps_its_chunks(store, tmp_path):
    """Chunks are named by a list, and the list by a tree: all of them stay."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "large").write_bytes(random.Random(6).randbytes(5 * 2**20))
    tree = store.snapshot(work)
    aged(store)
    store.collect([tree])
    assert store.fsck([tree]) == ()
    assert store.size_bytes() > 5 * 2**20


def test_a_snapshot_beyond_the_quota_adds_nothing(tmp_path, walk):
    """RefusedError before the store grows, and a restore that could not keep what it replaces changes nothing."""
    store = Store.open(tmp_path / "store", bytes_upper=150_000)
    work = filled(tmp_path / "work", 1)
    tree = store.snapshot(work)
    filled(work, 2, 120_000)
    seen, size = walk(work), store.size_bytes()
    with pytest.raises(RefusedError, match="would not fit"):
        store.snapshot(work)
    with pytest.raises(RefusedError):
        store.restore(tree, work)
    assert walk(work) == seen
    assert store.size_bytes() == size
    assert list((store.root / "drafts").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "work"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 101, "a b"])
def test_a_pin_has_a_plain_name(store, name):
    """Nothing that could lead out of the folder of pins."""
    with pytest.raises(InputError, match="pin's name"):
        store.pin(name, store.put(b"x"))


def test_a_kill_while_collecting(tmp_path, killed_at, monkeypatch):
    """Killed at any step, what is kept is whole, and collecting again comes to the same end."""
    monkeypatch.setattr(collecting, "DEAD_SHARE", 0.1)
    for step in itertools.count(1):
        store = Store.open(tmp_path / str(step) / "store")
        trees = [store.snapshot(filled(tmp_path / str(step) / "work", seed, 2000)) for seed in (1, 2, 3)]
        loose = store.put(b"kept")
        store.put(b"orphan")
        aged(store)
        killed = killed_at(step, lambda store=store, t=trees[0], k=loose: Store.open(store.root).collect([t, k]))
        again = Store.open(store.root)
        assert all(finding.harmless for finding in again.fsck([trees[0]]))
        with again.exclusive():
            aged(again)
            again.collect([trees[0], loose])
        assert again.fsck([trees[0]]) == ()
        assert again.get(loose) == b"kept"
        assert not again.has(trees[2])
        if not killed:
            break
    assert step > 5
