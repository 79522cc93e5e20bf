"""Opening a store: its version, its lock, and folders that are none."""

import fcntl
import os
import signal

import pytest

from veristate.core import EnvironmentUnusableError, InputError, RefusedError
from veristate.store import Store


@pytest.mark.parametrize("line", ["veristate-store/2\n", "veristate-store/10\n", "veristate-store/1", "", "restic\n"])
def test_another_version_is_not_touched(tmp_path, line):
    """A store of a newer or unknown version is EnvironmentUnusableError naming path, found and supported version."""
    Store.open(tmp_path / "store")
    (tmp_path / "store" / "format").chmod(0o644)
    (tmp_path / "store" / "format").write_text(line)
    with pytest.raises(EnvironmentUnusableError, match=r"store/format: .*veristate-store/1") as caught:
        Store.open(tmp_path / "store")
    assert line.strip() in str(caught.value)


def test_a_folder_that_holds_something_else_is_not_taken(tmp_path):
    """A folder with foreign files and no version line is refused, and nothing is added to it."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is no store and holds 'thesis.tex'"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_store(tmp_path):
    """A path that is a file is refused in words."""
    (tmp_path / "store").write_text("")
    with pytest.raises(EnvironmentUnusableError, match="store"):
        Store.open(tmp_path / "store")


def test_a_busy_store_names_the_process_that_has_it(store, tmp_path):
    """While a process is exclusive, another is refused with its pid; killing it frees the store at once."""
    ready, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        with Store.open(store.root).exclusive():
            os.write(tell, b"!")
            signal.pause()
        os._exit(0)
    os.read(ready, 1)
    try:
        with pytest.raises(RefusedError, match=f"{store.root} is in use by process {holder}"), store.exclusive():
            pass
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
    with store.exclusive():
        assert (store.root / "lock").read_text() == f"{os.getpid()}\n"


def test_a_second_exclusive_block_in_one_process_is_refused(store):
    """The lock is not shared within a process either; when the block ends it is free."""
    with store.exclusive(), pytest.raises(RefusedError), store.exclusive():
        pass
    with store.exclusive() as same:
        assert same is store


def test_drafts_of_the_dead_go_and_those_of_the_living_stay(store, child):
    """Becoming exclusive removes what killed writers left, but nothing while some process is writing."""
    drafts = store.root / "drafts"
    (drafts / "1-dead").write_bytes(b"half")
    writing = os.open(drafts, os.O_RDONLY)
    fcntl.flock(writing, fcntl.LOCK_SH)
    with store.exclusive():
        assert (drafts / "1-dead").exists()
    os.close(writing)
    with store.exclusive():
        assert list(drafts.iterdir()) == []


def test_a_folder_without_permission_is_named(plain_user, child):
    """A plain user opening a store where it may not write is told where and what to do."""

    def work():
        plain_user.become()
        plain_user.folder.chmod(0o555)
        with pytest.raises(EnvironmentUnusableError, match=rf"{plain_user.folder}/store: Permission denied; give"):
            Store.open(plain_user.folder / "store")

    assert child(work) == 0


def test_a_write_protected_workspace_is_restored_by_a_plain_user(plain_user, child, walk):
    """Folders and files without write permission are captured, replaced and given back as they were."""

    def work():
        plain_user.become()
        store = Store.open(plain_user.folder / "store")
        folder = plain_user.folder / "work"
        (folder / "sealed" / "inner").mkdir(parents=True)
        (folder / "sealed" / "inner" / "file").write_text("x")
        (folder / "sealed" / "inner" / "file").chmod(0o400)
        (folder / "sealed" / "inner").chmod(0o500)
        (folder / "sealed").chmod(0o555)
        folder.chmod(0o555)
        before = walk(folder)
        tree = store.snapshot(folder)
        empty = store.restore(tree, plain_user.folder / "other")
        store.restore(empty, folder)
        assert list(folder.iterdir()) == []
        store.restore(tree, folder)
        assert walk(folder) == before == walk(plain_user.folder / "other")

    assert child(work) == 0


def test_an_unreadable_file_is_named(plain_user, child):
    """A snapshot by a user who may not read a file says which, and a restore leaves all as it was."""

    def work():
        plain_user.become()
        store = Store.open(plain_user.folder / "store")
        folder = plain_user.folder / "work"
        folder.mkdir()
        tree = store.snapshot(folder)
        (folder / "secret").write_text("x")
        (folder / "secret").chmod(0)
        with pytest.raises(EnvironmentUnusableError, match="work/secret: Permission denied"):
            store.restore(tree, folder)
        assert (folder / "secret").exists()
        assert sorted(path.name for path in plain_user.folder.iterdir()) == ["store", "work"]

    assert child(work) == 0
