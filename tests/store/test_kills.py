"""Kills: whenever the process dies, the store opens, nothing dangles, and a workspace is old or new, never between."""

import itertools
import random

import pytest

import veristate.store.content as content
import veristate.store.swap as swap
from veristate.core import TamperError
from veristate.store import Store, Tree
from veristate.store.packs import read_index

pytestmark = pytest.mark.usefixtures("unsynced")


def trees_in(store):
    """Every blob that reads as a tree manifest: after a kill each must be complete, for it was written last."""
    for name in names_in(store):
        try:
            Tree.from_bytes(store.get(name), name)
        except TamperError:
            continue
        yield name


def names_in(store):
    """The names of all blobs, of those in packs too."""
    for path in (store.root / "blobs").rglob("*"):
        if path.suffix == ".pack":
            yield from (key.hex() for key in read_index(path))
        elif path.is_file():
            yield path.name


def clean(root):
    """The store at `root`, after asserting that it opens and holds at worst orphans."""
    store = Store.open(root)
    found = store.fsck(trees_in(store))
    assert all(finding.harmless for finding in found), found
    with store.exclusive():
        assert store.fsck(trees_in(store)) == ()
    return store


def test_a_kill_while_a_store_is_made(tmp_path, killed_at):
    """A creation killed at any step is completed by the next one."""
    for step in itertools.count(1):
        root = tmp_path / str(step) / "store"
        if not killed_at(step, lambda root=root: Store.open(root)):
            break
        assert clean(root).get(clean(root).put(b"works")) == b"works"
    assert step > 5


@pytest.mark.parametrize("size", [100, 4100])
def test_a_kill_while_a_blob_is_put(tmp_path, killed_at, monkeypatch, size):
    """After a put killed at any step the blob is there whole or not at all, and putting it again succeeds.

    Content is split above 4000 bytes here, so that the second one has chunks.
    """
    monkeypatch.setattr(content, "SPLIT_ABOVE", 4000)
    monkeypatch.setattr(content, "CHUNK", 1000)
    data = random.Random(size).randbytes(size)
    for step in itertools.count(1):
        root = tmp_path / str(step)
        Store.open(root)
        if not killed_at(step, lambda root=root: Store.open(root).put(data)):
            break
        store = clean(root)
        assert store.get(store.put(data)) == data
    assert step > 8


def fill(folder, seed):
    """A small workspace that differs from seed to seed in content, names, links and modes."""
    (folder / "sub" / f"only-{seed}").mkdir(parents=True)
    (folder / "same").write_text("the same in both")
    (folder / "sub" / "file").write_text(f"content {seed}")
    (folder / "sub" / "file").chmod(0o600 + seed)
    (folder / "link").symlink_to(f"target-{seed}")
    (folder / "sub").chmod(0o710 + seed)


def test_a_kill_while_a_snapshot_is_taken(tmp_path, killed_at, walk):
    """A snapshot killed at any step changes nothing in the workspace, and one taken again is complete."""
    work = tmp_path / "work"
    fill(work, 1)
    before = walk(work)
    for step in itertools.count(1):
        root = tmp_path / str(step)
        Store.open(root)
        if not killed_at(step, lambda root=root: Store.open(root).snapshot(work)):
            break
        store = clean(root)
        assert walk(work) == before
        store.restore(store.snapshot(work), work)
        assert walk(work) == before
    assert step > 8


@pytest.mark.parametrize("atomic", [True, False])
def test_a_kill_while_a_workspace_is_restored(tmp_path, killed_at, walk, monkeypatch, atomic):
    """A restore killed at any step leaves the old workspace or the new one, and the old content is in the store.

    Where the kernel can't exchange two folders, the workspace may be nowhere until the next snapshot or restore of
    it; it is fully the old one then.
    """
    if not atomic:
        monkeypatch.setattr(swap, "exchange", lambda one, other: False)
    fill(tmp_path / "new", 1)
    wanted = walk(tmp_path / "new")
    outcomes = set()
    for step in itertools.count(1):
        base = tmp_path / str(step)
        work = base / "work"
        fill(work, 2)
        old = walk(work)
        old_tree = Store.open(tmp_path / "elsewhere").snapshot(work)
        tree = Store.open(base / "store").snapshot(tmp_path / "new")
        killed = killed_at(step, lambda: Store.open(base / "store").restore(tree, work))  # noqa: B023 - called at once
        if atomic:
            assert walk(work) in (old, wanted)
        store = clean(base / "store")
        store.snapshot(work)
        outcomes.add((killed, walk(work) == wanted))
        assert walk(work) in (old, wanted)
        assert walk(work) == old or store.fsck([old_tree]) == ()
        assert sorted(path.name for path in base.iterdir()) == ["store", "work"]
        store.restore(tree, work)
        assert walk(work) == wanted
        if not killed:
            break
    assert outcomes == {(True, False), (True, True), (False, True)}
    assert step > 40
