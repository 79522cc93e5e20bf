"""Two stores open on one folder: what one of them collects, the other doesn't count on."""

import hashlib
import os
import random
import threading
import time

import pytest

from veristate.core import InputError, TamperError
from veristate.store import Store
from veristate.store.content import CHUNK
from veristate.store.seen import GRAIN_NS, Seen

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def work(tmp_path):
    """A workspace that is old enough to be remembered."""
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_bytes(random.Random(1).randbytes(20_000))
    (folder / "sub" / "two").write_bytes(random.Random(2).randbytes(20_000))
    time.sleep(2 * GRAIN_NS / 1e9)
    return folder


@pytest.fixture(params=["this process", "another process"])
def collected(request, store, child):
    """Collects at once all that is not to be kept, by another opening of the store."""

    def collect(*keep):
        if request.param == "this process":
            Store.open(store.root).collect(keep, spare_s=0)
        else:
            assert child(lambda: Store.open(store.root).collect(keep, spare_s=0)) == 0

    return collect


@pytest.mark.parametrize("quick", [False, True])
def test_a_snapshot_writes_again_what_was_collected(store, work, collected, tmp_path, walk, quick):
    """It was here and unchanged, and its pack is gone: the digest has everything behind it all the same."""
    tree = store.snapshot(work, quick=quick)
    assert store.snapshot(work, quick=quick) == tree
    collected()
    assert list((store.root / "blobs" / "packs").iterdir()) == []
    assert store.snapshot(work, quick=quick) == tree
    again = Store.open(store.root)
    assert again.fsck([tree]) == ()
    again.restore(tree, tmp_path / "again")
    assert walk(tmp_path / "again") == walk(work)


@pytest.mark.parametrize("quick", [False, True])
def test_a_restore_keeps_what_it_replaces_after_a_collection(store, work, collected, walk, quick):
    """What the folder held was in a snapshot before, which is gone."""
    goal = store.snapshot(work, quick=quick)
    for name in ("one", "sub/two"):
        (work / name).write_bytes(random.Random(name).randbytes(20_000))
    time.sleep(2 * GRAIN_NS / 1e9)
    held = walk(work)
    for _ in range(2):
        store.snapshot(work, quick=quick)
    collected(goal)
    replaced = store.restore(goal, work, quick=quick)
    again = Store.open(store.root)
    assert again.fsck([goal, replaced]) == ()
    again.restore(replaced, work)
    assert walk(work) == held


def test_a_memory_saved_after_a_collection_is_not_counted_on(store, tmp_path, monkeypatch):
    """A large file's list of chunks stays in a pack that is mostly alive, its chunks were in another that goes, and
    the snapshot that was on its way remembers the file by that list.
    """
    work, draw = tmp_path / "work", random.Random(3)
    work.mkdir()
    chunks = draw.randbytes(5 * CHUNK)
    (work / "large").write_bytes(chunks)
    store.snapshot(work, quick=True)
    (work / "large").write_bytes(chunks + chunks[:CHUNK])
    (work / "own").write_bytes(draw.randbytes(50_000))
    time.sleep(2 * GRAIN_NS / 1e9)
    other, save = Store.open(store.root), Seen.save
    own = hashlib.sha256((work / "own").read_bytes()).hexdigest()

    def late(seen):
        other.collect([own], spare_s=0)
        save(seen)

    with monkeypatch.context() as patched:
        patched.setattr(Seen, "save", late)
        tree = store.snapshot(work, quick=True)
    assert list((store.root / "seen").iterdir())
    assert store.has(store.tree(tree).entries[0].blob)
    assert not store.has(hashlib.sha256(chunks[:CHUNK]).hexdigest())
    assert store.snapshot(work, quick=True) == tree
    assert Store.open(store.root).fsck([tree]) == ()
    assert store.tree(tree).entries[0].size == 6 * CHUNK


def test_a_certifying_snapshot_compares_with_the_pack_that_is_there(store, work):
    """A pack that went and was made anew under its name is not read through what was open before."""
    tree = store.snapshot(work)
    store.snapshot(work)
    other = Store.open(store.root)
    (was,) = (store.root / "blobs" / "packs").iterdir()
    other.collect([], spare_s=0)
    assert other.snapshot(work) == tree
    (pack,) = (store.root / "blobs" / "packs").iterdir()
    assert pack == was
    stored = bytearray(pack.read_bytes())
    stored[1000] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(stored)
    with pytest.raises(TamperError):
        store.snapshot(work)


def test_what_was_collected_is_not_here_and_can_not_be_pinned(store, work, collected):
    """Also for who knew where it lay."""
    tree = store.snapshot(work)
    assert store.has(tree)
    collected()
    assert not store.has(tree)
    with pytest.raises(InputError, match="only what is there can be pinned"):
        store.pin("best", tree)
    assert store.pins() == {}


def test_a_blob_that_is_put_again_is_not_collected_meanwhile(store, monkeypatch):
    """It was old and nothing named it: a collection that begins while it is put finds it new."""
    name = store.put(b"old")
    path = store.root / "blobs" / name[:2] / name
    os.utime(path, (time.time() - 7200,) * 2)
    collector = threading.Thread(target=lambda: Store.open(store.root).collect([]))
    real = os.utime

    def late(target):
        collector.start()
        collector.join(0.2)
        real(target)

    monkeypatch.setattr(os, "utime", late)
    assert store.put(b"old") == name
    collector.join(10)
    assert not collector.is_alive()
    assert Store.open(store.root).get(name) == b"old"
