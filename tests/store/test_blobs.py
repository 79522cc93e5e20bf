"""Blobs: named by their content, verified as they are read, written whole or not at all."""

import errno
import hashlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import EnvironmentUnusableError, InputError, TamperError
from veristate.store import Store

MIB = 2**20


def blob_files(store):
    """The files of all blobs, in order."""
    return sorted(path for path in (store.root / "blobs").rglob("*") if path.is_file())


def size_on_disk(store):
    """What they take together, in bytes."""
    return sum(path.stat().st_size for path in blob_files(store))


@pytest.mark.parametrize("name", ["", "ab", "../../etc/passwd", "A" * 64, "g" * 64, "a" * 65, "a" * 63 + "\n"])
def test_what_is_no_digest_is_refused(store, name):
    """A name that is not 64 lower-case hexadecimal digits never becomes a path."""
    with pytest.raises(InputError, match="not a SHA-256"):
        store.get(name)
    with pytest.raises(InputError):
        store.has(name)


def test_an_absent_blob_is_named(store):
    """Asking for what was never put says which digest and which store."""
    with pytest.raises(InputError, match="no blob " + "0" * 64):
        store.get("0" * 64)
    assert not store.has("0" * 64)


@pytest.mark.parametrize("content", [b"short", b"a" * 5000, random.Random(1).randbytes(3000)])
def test_no_byte_of_a_blob_can_be_changed_unseen(store, content):
    """Flipping any byte of a stored file gives TamperError with digest and path, or the very same content."""
    name = store.put(content)
    path = blob_files(store)[0]
    stored = path.read_bytes()
    path.chmod(0o644)
    named = 0
    for at in range(len(stored)):
        path.write_bytes(stored[:at] + bytes([stored[at] ^ 0x41]) + stored[at + 1 :])
        try:
            assert store.get(name) == content
        except TamperError as error:
            named += name in str(error) and str(path) in str(error)
    assert named >= len(stored) - 2, "only bits of a zstd header may be without meaning"


@pytest.mark.parametrize(
    "stored", [b"", b"r", b"z", b"x", b"m", b"m{}", b'm{"chunks":["../x"]}', b"m[]", b'm{"chunks":[]}']
)
def test_a_blob_file_that_is_nonsense_is_tampering(store, stored):
    """A file whose first byte, frame or list of chunks can't be is TamperError, never content and never a traceback."""
    name = store.put(b"something")
    path = blob_files(store)[0]
    path.chmod(0o644)
    path.write_bytes(stored)
    with pytest.raises(TamperError, match=name):
        store.get(name)
    with pytest.raises(TamperError, match=name):
        store.put(b"something")


def test_a_missing_or_exchanged_chunk_is_tampering(store):
    """A large blob whose chunk is gone, or holds another chunk's bytes, is not read."""
    name = store.put(random.Random(2).randbytes(5 * MIB))
    chunk = next(path for path in blob_files(store) if path.stat().st_size > MIB / 2)
    kept = chunk.read_bytes()
    chunk.unlink()
    with pytest.raises(TamperError, match=f"{name}.*chunk {chunk.name} is missing"):
        store.get(name)
    chunk.write_bytes(kept[:-1] + b"?")
    with pytest.raises(TamperError, match=chunk.name):
        store.get(name)


def test_a_list_of_other_chunks_is_tampering(store):
    """A list of chunks that are all whole but give another content is refused at its end."""
    name, other = (store.put(random.Random(seed).randbytes(5 * MIB)) for seed in (3, 4))
    paths = {path.name: path for path in blob_files(store)}
    paths[name].chmod(0o644)
    paths[name].write_bytes(paths[other].read_bytes())
    with pytest.raises(TamperError, match=name):
        store.get(name)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir"])
def test_a_disk_that_refuses_leaves_nothing_half_written(store, monkeypatch, call, code):
    """No space or permission at any step is EnvironmentUnusableError with path and advice; no file is left behind."""
    real = os.write

    def refuses(*arguments, **options):
        if call == "write":
            real(arguments[0], bytes(arguments[1])[:3])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuses)
        with pytest.raises(
            EnvironmentUnusableError, match=rf"{store.root}/blobs.*{os.strerror(code)}; .*(give|free|it is)"
        ):
            store.put(b"content that doesn't fit")
    assert blob_files(store) == []
    assert list((store.root / "drafts").iterdir()) == []
    assert store.get(store.put(b"content that doesn't fit")) == b"content that doesn't fit"


def test_a_blob_is_durable_before_its_digest_is_given(store, monkeypatch):
    """The file is synced before it gets its name, and the folder of the name after."""
    calls = []
    real_sync, real_rename = os.fsync, os.rename

    def fsync(descriptor):
        calls.append(("fsync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        real_sync(descriptor)

    def rename(source, target):
        calls.append(("rename", str(source), str(target)))
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    name = store.put(b"kept")
    moved = next(call for call in calls if call[0] == "rename")
    at = calls.index(moved)
    assert ("fsync", moved[1]) in calls[:at]
    assert ("fsync", str(store.root / "blobs" / name[:2])) in calls[at:]
    assert ("fsync", str(store.root / "blobs")) in calls[at:]


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=5000))
def test_get_undoes_put_under_the_hash_of_the_content(tmp_path_factory, data):
    """For any bytes: the name is their SHA-256, they come back, and putting them again adds no file."""
    store = Store.open(tmp_path_factory.mktemp("law") / "store")
    name = store.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert store.get(name) == data
    before = blob_files(store)
    assert store.put(data) == name
    assert blob_files(store) == before


@pytest.mark.parametrize("size", [0, 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 5 * MIB, 6 * MIB + 17])
def test_content_of_any_size_comes_back(store, size):
    """Around the size where content is split, name and bytes are those of the whole."""
    data = random.Random(size).randbytes(size)
    name = store.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert store.get(name) == data


def test_a_small_change_of_a_large_content_is_small_on_the_disk(store):
    """Changing one byte of 16 MiB adds about one chunk of 1 MiB."""
    data = bytearray(random.Random(5).randbytes(16 * MIB))
    store.put(bytes(data))
    before = size_on_disk(store)
    data[7 * MIB + 5] ^= 1
    store.put(bytes(data))
    assert size_on_disk(store) - before < 1.1 * MIB


def test_what_shrinks_is_stored_smaller_and_what_does_not_costs_one_byte(store):
    """Text is compressed; random bytes are kept as they are."""
    store.put(b"the same line again\n" * 1000)
    assert size_on_disk(store) < 500
    before = size_on_disk(store)
    store.put(random.Random(6).randbytes(1000))
    assert size_on_disk(store) - before == 1001


def test_writers_at_once_do_not_disturb_each_other(store):
    """Four processes putting the same contents in different orders all succeed, and the store is clean."""
    contents = [random.Random(seed).randbytes(200) for seed in range(40)]
    writers = []
    for seed in range(4):
        writers.append(os.fork())
        if writers[-1] == 0:
            code = 1
            try:
                mine = Store.open(store.root)
                for content in random.Random(seed).sample(contents, len(contents)):
                    mine.put(content)
                code = 0
            finally:
                os._exit(code)
    assert [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers] == [0] * 4
    assert store.fsck() == ()
    assert sorted(path.name for path in blob_files(store)) == sorted(hashlib.sha256(c).hexdigest() for c in contents)
