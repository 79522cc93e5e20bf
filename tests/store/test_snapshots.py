"""Snapshots: a workspace comes back exactly, and nothing that was in it is lost."""

import hashlib
import os
import random
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veristate.store.swap as swap
from veristate.core import EnvironmentUnusableError, InputError, TamperError
from veristate.store import Store
from veristate.store.packs import read_index

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture(params=["exchange", "two renames"])
def either_swap(request, monkeypatch):
    """Both ways of swapping: the kernel's exchange, and two renames where it has none."""
    if request.param == "two renames":
        monkeypatch.setattr(swap, "exchange", lambda one, other: False)


@pytest.fixture
def work(tmp_path):
    """A workspace with one of everything."""
    folder = tmp_path / "work"
    (folder / "empty").mkdir(parents=True)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "script").write_bytes(b"#!/bin/sh\n")
    (folder / "deep" / "er" / "script").chmod(0o4755)
    (folder / "nothing").write_bytes(b"")
    (folder / "large").write_bytes(random.Random(7).randbytes(5 * 2**20))
    (folder / "up").symlink_to("../outside")
    (folder / "away").symlink_to("/etc")
    (folder / "lost").symlink_to("nowhere")
    (folder / os.fsdecode(b"\xff\xfe name")).write_bytes(b"not UTF-8")
    (folder / os.fsdecode(b"\xfelink")).symlink_to(os.fsdecode(b"\xff"))
    (folder / "deep").chmod(0o1711)
    return folder


def test_special_files_are_named(store, tmp_path):
    """A workspace with a socket and a FIFO is refused, naming both."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    os.mkfifo(work / "sub" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(work, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/ear")
        os.close(here)
    with pytest.raises(InputError, match=r"work/ear \(socket\), .*work/sub/pipe \(FIFO\)"):
        store.snapshot(work)


def test_a_restore_over_what_cannot_be_kept_changes_nothing(store, work, walk):
    """When the present content has a FIFO it can't be kept, so it is not replaced, and nothing is left beside it."""
    tree = store.snapshot(work)
    (work / "nothing").write_bytes(b"changed")
    os.mkfifo(work / "pipe")
    with pytest.raises(InputError, match="pipe"):
        store.restore(tree, work)
    assert (work / "nothing").read_bytes() == b"changed"
    assert sorted(path.name for path in work.parent.iterdir()) == ["store", "work"]


def test_a_link_in_place_of_the_workspace_is_refused(store, tmp_path):
    """A workspace path that is itself a link, a file, or missing is InputError or says what the disk said."""
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").write_text("x")
    (tmp_path / "link").symlink_to("target")
    empty = store.restore(store.snapshot(tmp_path / "target"), tmp_path / "new")
    for call in (lambda: store.snapshot(tmp_path / "link"), lambda: store.restore(empty, tmp_path / "link")):
        with pytest.raises(InputError, match="not a folder, or a link"):
            call()
    with pytest.raises(InputError):
        store.snapshot(tmp_path / "target" / "precious")
    with pytest.raises(InputError):
        store.snapshot(tmp_path / "nowhere")
    with pytest.raises(InputError, match="can be swapped"):
        store.restore(empty, tmp_path / "target" / "..")
    with pytest.raises(EnvironmentUnusableError):
        store.restore(empty, tmp_path / "no" / "parent")
    assert (tmp_path / "target" / "precious").exists()


def test_workspace_and_store_may_not_lie_in_one_another(store, tmp_path):
    """Neither a workspace around the store nor one inside it is taken, also through a link above it."""
    (tmp_path / "alias").symlink_to(tmp_path)
    (store.root / "blobs" / "work").mkdir()
    for folder in (tmp_path, store.root, store.root / "blobs" / "work", tmp_path / "alias" / "store"):
        with pytest.raises(InputError, match="lie in one another"):
            store.snapshot(folder)


def test_an_unknown_tree_changes_nothing(store, work, walk):
    """Restoring a digest that is not in the store, or is no tree, leaves the workspace and its parent as they were."""
    before = walk(work.parent)
    blob = store.put(b"not a tree")
    for tree, error in (("0" * 64, InputError), (blob, TamperError)):
        with pytest.raises(error):
            store.restore(tree, work)
    after = {name: found for name, found in walk(work.parent).items() if not name.startswith(b"store/")}
    assert after == {name: found for name, found in before.items() if not name.startswith(b"store/")}


@pytest.mark.parametrize("harm", ["flip", "remove"])
def test_a_damaged_part_changes_nothing(store, work, walk, harm):
    """Whichever file of a snapshot is damaged or missing, the restore is TamperError and the workspace untouched."""
    tree = store.snapshot(work)
    other = work.parent / "other"
    other.mkdir()
    (other / "mine").write_text("still here")
    before = walk(other)
    (pack,) = (store.root / "blobs" / "packs").iterdir()
    stored = pack.read_bytes()
    pack.chmod(0o644)
    index = read_index(pack)
    assert len(index) > 5
    for offset, length in index.values() if harm == "flip" else [(0, 1)]:
        end = offset + length - 1
        pack.unlink() if harm == "remove" else pack.write_bytes(
            stored[:end] + bytes([stored[end] ^ 1]) + stored[end + 1 :]
        )
        with pytest.raises(TamperError if harm == "flip" else InputError):
            Store.open(store.root).restore(tree, other)
        assert walk(other) == before
        pack.write_bytes(stored)
    assert store.fsck([tree]) == ()
    assert sorted(path.name for path in work.parent.iterdir()) == ["other", "store", "work"]


def test_too_deep_a_folder_is_named(store, tmp_path):
    """A folder nested deeper than 200 is InputError, not a recursion error; 200 is restored."""
    work = tmp_path / "work"
    deep = work.joinpath(*["d"] * 200)
    deep.mkdir(parents=True)
    tree = store.snapshot(work)
    (deep / "d").mkdir()
    with pytest.raises(InputError, match="deeper than 200"):
        store.snapshot(work)
    store.restore(tree, tmp_path / "again")
    assert (tmp_path / "again").joinpath(*["d"] * 200).is_dir()


def test_links_are_kept_and_never_followed(store, work, tmp_path):
    """What links point to outside the workspace is neither read nor written nor removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    outside.chmod(0o711)
    tree = store.snapshot(work)
    assert not store.has(hashlib.sha256(b"outside").hexdigest())
    empty = store.restore(tree, tmp_path / "new")
    store.restore(empty, work)
    store.restore(tree, work)
    assert (work / "up").readlink() == Path("../outside")
    assert (outside / "file").read_text() == "outside"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o711


@pytest.mark.parametrize("trick", ["link to a file", "link to a folder", "FIFO"])
def test_a_file_exchanged_while_it_is_read_leads_nowhere(store, work, tmp_path, monkeypatch, trick):
    """A file or folder that becomes a link or a FIFO between being looked at and being opened is refused."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("outside")
    victim = work / ("empty" if trick == "link to a folder" else "nothing")
    real = os.open

    def late(path, flags, *rest, dir_fd=None):
        if path == os.fsencode(victim.name) and dir_fd is not None:
            victim.rmdir() if victim.is_dir() else victim.unlink()
            if trick == "FIFO":
                os.mkfifo(victim)
            else:
                victim.symlink_to(tmp_path / "outside" / ("" if trick == "link to a folder" else "secret"))
        return real(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises((InputError, EnvironmentUnusableError), match=str(victim)):
        store.snapshot(work)
    assert not store.has(hashlib.sha256(b"outside").hexdigest())


def test_a_restore_gives_back_everything(store, work, walk, either_swap):
    """Bytes, modes, names that are not UTF-8, empty folders and links are as they were, and it can be undone."""
    first = walk(work)
    tree = store.snapshot(work)
    (work / "nothing").write_bytes(b"something")
    (work / "large").unlink()
    (work / "deep").chmod(0o700)
    (work / "deep" / "new").mkdir()
    work.chmod(0o750)
    second = walk(work)
    replaced = store.restore(tree, work)
    assert walk(work) == first
    assert store.restore(replaced, work) == tree
    assert walk(work) == second
    assert sorted(path.name for path in work.parent.iterdir()) == ["store", "work"]


def test_what_is_written_during_a_restore_is_kept_too(store, work, walk, monkeypatch):
    """A file that appears after the present content was read and before the swap is in the snapshot returned."""
    tree = store.snapshot(work)
    real = swap.exchange

    def late(one, other):
        (work / "late").write_text("just now")
        return real(one, other)

    monkeypatch.setattr(swap, "exchange", late)
    replaced = store.restore(tree, work)
    assert not (work / "late").exists()
    monkeypatch.undo()
    store.restore(replaced, work)
    assert (work / "late").read_text() == "just now"


def test_a_large_file_changed_a_little_costs_a_little(store, work):
    """Snapshots after a small change add about a chunk; after none, nothing."""
    store.snapshot(work)
    files = {path: path.stat().st_size for path in (store.root / "blobs").rglob("*") if path.is_file()}
    store.snapshot(work)
    assert {path for path in (store.root / "blobs").rglob("*") if path.is_file()} == set(files)
    with (work / "large").open("r+b") as large:
        large.seek(2**20)
        large.write(b"changed")
    store.snapshot(work)
    grown = sum(path.stat().st_size for path in (store.root / "blobs").rglob("*") if path.is_file())
    assert grown - sum(files.values()) < 1.1 * 2**20


def test_restores_of_one_workspace_at_once_come_one_after_another(store, work, walk):
    """Four processes restoring two trees in turn leave one of the two, whole, and nothing beside it."""
    one, seen = store.snapshot(work), walk(work)
    (work / "nothing").write_bytes(b"other")
    two, other = store.snapshot(work), walk(work)
    helpers = []
    for _ in range(4):
        helpers.append(os.fork())
        if helpers[-1] == 0:
            code = 1
            try:
                for tree in (one, two) * 2:
                    Store.open(store.root).restore(tree, work)
                code = 0
            finally:
                os._exit(code)
    assert [os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1]) for helper in helpers] == [0] * 4
    assert walk(work) in (seen, other)
    assert sorted(path.name for path in work.parent.iterdir()) == ["store", "work"]


names = st.binary(min_size=1, max_size=8).filter(lambda n: n not in (b".", b"..") and not set(n) & set(b"/\0"))
leaves = st.one_of(
    st.tuples(st.just("file"), st.integers(0, 0o7777).map(lambda m: m | 0o400), st.binary(max_size=40)),
    st.tuples(st.just("link"), st.binary(min_size=1, max_size=20).filter(lambda t: b"\0" not in t)),
)
folders = st.recursive(
    st.tuples(st.just("folder"), st.just(0o755), st.dictionaries(names, leaves, max_size=4)),
    lambda inner: st.tuples(
        st.just("folder"),
        st.integers(0, 0o7777).map(lambda m: m | 0o700),
        st.dictionaries(names, leaves | inner, max_size=4),
    ),
    max_leaves=6,
)


def make(path, thing):
    """The described thing at `path`, by plain calls."""
    kind, *rest = thing
    if kind == "link":
        os.symlink(rest[0], os.fsencode(path))  # noqa: PTH211 - Path tidies the target
        return
    if kind == "file":
        path.write_bytes(rest[1])
    else:
        path.mkdir()
        for name, inner in rest[1].items():
            make(path / os.fsdecode(name), inner)
    path.chmod(rest[0])


@settings(max_examples=40, deadline=None)
@given(one=folders, two=folders)
def test_any_workspace_comes_back_exactly(tmp_path_factory, walk, one, two):
    """For any two workspaces, restoring the one over the other gives the one, and the digest given gives the other."""
    base = tmp_path_factory.mktemp("law")
    store = Store.open(base / "store")
    make(base / "one", one)
    make(base / "two", two)
    seen, other = walk(base / "one"), walk(base / "two")
    tree = store.snapshot(base / "one")
    replaced = store.restore(tree, base / "two")
    assert walk(base / "two") == seen
    assert (replaced == tree) == (seen == other)
    store.restore(replaced, base / "one")
    assert walk(base / "one") == other
