"""Building a folder in portions: exact whoever writes them, and nobody writes any more when one has failed."""

import hashlib
import random
import threading

import pytest

import veristate.store.building as building
from veristate.core import TamperError
from veristate.store import Store
from veristate.store.packs import read_index

pytestmark = pytest.mark.usefixtures("unsynced")

FOLDER_MODES = (0o755, 0o500, 0o2750, 0o1777, 0o700)


@pytest.fixture
def fill():
    """Fills a folder with files of many portions, in folders of every kind of mode; one is larger than a portion."""

    def fill(folder):
        draw = random.Random(5)
        for place, mode in enumerate(FOLDER_MODES):
            inner = folder / f"folder-{place}" / "inner"
            inner.mkdir(parents=True)
            for number in range(40):
                for where in (inner, inner.parent):
                    path = where / f"file-{number}"
                    path.write_bytes(draw.randbytes(draw.randrange(20_000)))
                    path.chmod(draw.choice((0o644, 0o400, 0o666, 0o4755)))
            (inner / "large").write_bytes(draw.randbytes(2 * 2**20))
            inner.chmod(mode)
            inner.parent.chmod(mode)

    return fill


def test_folders_of_every_mode_are_filled_by_several(plain_user, child, walk, fill):
    """By somebody whom modes stop: a folder without write permission is closed after its last file."""

    def work():
        plain_user.become()
        store, folder = Store.open(plain_user.folder / "store"), plain_user.folder / "work"
        folder.mkdir()
        fill(folder)
        store.restore(store.snapshot(folder), plain_user.folder / "other")
        assert walk(plain_user.folder / "other") == walk(folder)

    assert child(work) == 0


@pytest.mark.parametrize("helpers", ["free", "busy"])
def test_both_the_walk_and_its_helpers_write(store, tmp_path, walk, fill, monkeypatch, helpers):
    """Portions go to helpers, and to the walk while the helpers have enough to do."""
    folder, writers, caught_up = tmp_path / "work", set(), threading.Event()
    fill(folder)
    real = building._write_files

    def noted(*arguments):
        writers.add(threading.current_thread() is threading.main_thread())
        if helpers == "busy" and threading.current_thread() is not threading.main_thread():
            caught_up.wait(timeout=20)
        elif threading.current_thread() is threading.main_thread():
            caught_up.set()
        return real(*arguments)

    monkeypatch.setattr(building, "_write_files", noted)
    store.restore(store.snapshot(folder), tmp_path / "other")
    assert walk(tmp_path / "other") == walk(folder)
    assert False in writers
    assert helpers == "free" or writers == {True, False}


def test_a_failing_portion_ends_the_build_and_leaves_no_writer(store, tmp_path, fill, monkeypatch):
    """The error is the portion's, no staged folder is left, and no thread either."""
    folder = tmp_path / "work"
    fill(folder)
    tree = store.snapshot(folder)
    real = building._write_content

    def failing(blobs, entry, target):
        if entry.name == b"large":
            raise TamperError("this portion is damaged")
        real(blobs, entry, target)

    monkeypatch.setattr(building, "_write_content", failing)
    before = threading.active_count()
    with pytest.raises(TamperError, match="this portion is damaged"):
        store.restore(tree, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "work"]
    assert threading.active_count() == before


@pytest.mark.parametrize("where", ["pack", "pack, compressed", "files of their own"])
def test_a_large_file_comes_back_from_wherever_its_chunks_lie(store, tmp_path, walk, where):
    """As they are in a pack, as frames in a pack, or each in a file, because the content was put before."""
    folder = tmp_path / "work"
    folder.mkdir()
    content = bytes(5 * 2**20 + 7) if where == "pack, compressed" else random.Random(6).randbytes(5 * 2**20 + 7)
    (folder / "large").write_bytes(content)
    if where == "files of their own":
        store.put(content)
    store.restore(store.snapshot(folder), tmp_path / "other")
    assert walk(tmp_path / "other") == walk(folder)


def test_a_flipped_bit_in_a_chunk_is_found_by_a_restore_and_named(store, tmp_path):
    """The chunk is named, and the folder that was to be restored stays as it was."""
    folder = tmp_path / "work"
    folder.mkdir()
    content = random.Random(8).randbytes(6 * 2**20)
    (folder / "large").write_bytes(content)
    tree = store.snapshot(folder)
    chunk = hashlib.sha256(content[3 * 2**20 : 4 * 2**20]).digest()
    (pack,) = (store.root / "blobs" / "packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[read_index(pack)[chunk][0] + 2**19] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    (folder / "large").write_bytes(b"small now")
    with pytest.raises(TamperError, match=chunk.hex()):
        store.restore(tree, folder, quick=True)
    assert (folder / "large").read_bytes() == b"small now"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "work"]
