"""Packs: many blobs in one file, written by one snapshot, on the disk after one wait for it.

A pack is a line that names the format, the blobs as a blob's own file would hold them, an index, and a trailer that
says where the index begins, how many entries it has and its SHA-256, which is also the pack's name. An entry of the
index is a digest, an offset and a length, all big-endian, sorted by digest. Blobs are verified by their own digests.
"""

import hashlib
import os
import re
import secrets
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from veristate.core import TamperError
from veristate.store.files import disk, sync_folder, write_all

FIRST = b"veristate-pack/1\n"
BUFFER = 2**20
_ENTRY = struct.Struct(">32sQQ")
_TRAILER = struct.Struct(">QQ32s")
_NAME = re.compile(r"[0-9a-f]{64}\.pack")
_OPEN_UPPER = 16


class _Reader:
    """A descriptor that closes itself when nobody reads through it any more, in whichever thread."""

    def __init__(self, path: Path) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Packs:
    """The packs in one folder. A pack that others add is noticed when a blob is not found, one that they remove when it
    is opened: a writer, who leaves out what is here, calls `notice_removals` first.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._where: dict[bytes, tuple[str, int, int]] = {}
        self._loaded: set[str] = set()
        self._open: dict[str, _Reader] = {}
        self._lock = threading.Lock()
        self._looked = -1

    def has(self, name: str) -> bool:
        """Whether some pack holds the blob."""
        return self._find(name) is not None

    def read(self, name: str, size: int | None = None, *, look: bool = False) -> bytes | None:
        """The bytes that the blob's own file would hold, or the first `size` of them; None when no pack holds it.

        `look`: the folder is read anew, whatever its time says.
        """
        if look:
            self._looked = -1
        for _ in range(2):
            found = self._find(name)
            if found is None:
                return None
            pack, offset, length = found
            try:
                reader = self._open.get(pack) or self._reader(pack)
                return os.pread(reader.descriptor, length if size is None else min(length, size), offset)
            except FileNotFoundError:
                self.forget()  # collected or repacked by another process
        return None

    def windows(self, name: str, window: memoryview) -> Iterator[memoryview]:
        """What `read` gives, in parts laid one after another into `window`; nothing when no pack holds it."""
        found = self._find(name)
        with suppress(FileNotFoundError):
            if found is not None:
                pack, offset, length = found
                reader, end = self._reader(pack), offset + length
                while offset < end and (got := os.preadv(reader.descriptor, [window[: end - offset]], offset)):
                    offset += got
                    yield window[:got]

    def path_of(self, name: str) -> Path | None:
        """The pack that holds the blob; None when there is none."""
        found = self._find(name)
        return None if found is None else self.folder / found[0]

    def paths(self) -> list[Path]:
        """The packs, in order of name."""
        with suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        return []

    def notice_removals(self) -> None:
        """Returns when no blob is found in a pack that is gone by now, or read from one that was made anew since."""
        there: set[str] = set()
        with suppress(FileNotFoundError):
            there.update(os.listdir(self.folder))  # noqa: PTH208 - names alone, for each snapshot
        with self._lock:
            self._open = {}
            gone = not self._loaded <= there
        if gone:
            self.forget()

    def forget(self) -> None:
        """Returns when the folder will be read anew."""
        with self._lock:
            self._where, self._loaded, self._looked, self._open = {}, set(), -1, {}

    def _find(self, name: str) -> tuple[str, int, int] | None:
        key = bytes.fromhex(name)
        found = self._where.get(key)
        if found is None:
            self._load()
            found = self._where.get(key)
        return found

    def _load(self) -> None:
        """Returns when the packs that had not been read are, by this thread or another."""
        with self._lock:
            try:
                changed = os.stat(self.folder).st_mtime_ns  # noqa: PTH116 - for each blob that is new
            except FileNotFoundError:
                return
            if changed == self._looked:
                return
            new = [path for path in self.paths() if path.name not in self._loaded]
            where = dict(self._where)  # readers do without the lock
            for path in new:
                with suppress(FileNotFoundError):
                    name = path.name
                    where |= {key: (name, *place) for key, place in read_index(path).items()}
                    self._loaded.add(name)
            self._where = where
            self._looked = changed

    def _reader(self, pack: str) -> _Reader:
        with self._lock:
            reader = self._open.get(pack)
            if reader is None:
                reader = _Reader(self.folder / pack)
                if len(self._open) >= _OPEN_UPPER:
                    self._open.pop(next(iter(self._open)))
                self._open[pack] = reader
            return reader


class PackDraft:
    """A pack that is being written: nothing of it is in the store before `seal`."""

    def __init__(self, folder: Path, *, temporary: Path) -> None:
        self._folder = folder
        self._path = temporary / f"{os.getpid()}-{secrets.token_hex(8)}"
        self._descriptor: int | None = None
        self._buffer = bytearray(FIRST)
        self._written = 0
        self.index: dict[bytes, tuple[int, int]] = {}

    def add(self, name: str, stored: bytes) -> None:
        """Returns when the blob is a part of the draft."""
        self.index[bytes.fromhex(name)] = (self._written + len(self._buffer), len(stored))
        self._buffer += stored
        if len(self._buffer) >= BUFFER:
            self._flush()

    def size(self) -> int:
        """Bytes so far, the index left out."""
        return self._written + len(self._buffer)

    def seal(self) -> Path | None:
        """The pack, on the disk under its name; None when nothing was added."""
        if not self.index:
            return None
        entries = sorted(self.index.items())
        index = b"".join(_ENTRY.pack(key, offset, length) for key, (offset, length) in entries)
        name = hashlib.sha256(index)
        start = self.size()
        self._buffer += index + _TRAILER.pack(start, len(entries), name.digest())
        self._flush()
        assert self._descriptor is not None
        target = self._folder / f"{name.hexdigest()}.pack"
        with disk(target):
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
            if not self._folder.is_dir():
                os.mkdir(self._folder)  # noqa: PTH102 - as the other steps
                sync_folder(self._folder.parent)
            os.rename(self._path, target)  # noqa: PTH104 - as the other steps
            sync_folder(self._folder)
        return target

    def discard(self) -> None:
        """Returns when the draft is gone; a sealed one stays."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108 - as the other steps

    def _flush(self) -> None:
        with disk(self._path):
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            write_all(self._descriptor, bytes(self._buffer))
        self._written += len(self._buffer)
        self._buffer = bytearray()


def read_index(path: Path) -> Mapping[bytes, tuple[int, int]]:
    """Offset and length of each blob in a pack, by the digest as bytes.

    Raises: FileNotFoundError when it is gone; TamperError when it is no pack, or not the one that its name says.
    """
    with path.open("rb") as source:
        first = source.read(len(FIRST))
        size = source.seek(0, os.SEEK_END)
        source.seek(max(0, size - _TRAILER.size))
        trailer = source.read()
        if first != FIRST or len(trailer) != _TRAILER.size:
            raise damaged(path, "it is no pack")
        start, count, checksum = _TRAILER.unpack(trailer)
        if start + count * _ENTRY.size + _TRAILER.size != size:
            raise damaged(path, "its trailer doesn't fit its size")
        source.seek(start)
        index = source.read(count * _ENTRY.size)
    if hashlib.sha256(index).digest() != checksum or checksum.hex() != path.stem:
        raise damaged(path, "its index is not the one of its name")
    return dict(_placed(path, index, start))


def damaged(path: Path, what: str) -> TamperError:
    """The error for a pack that can't be read."""
    return TamperError(f"pack {path} is damaged, {what}; run fsck, and bring the file back from a copy")


def _placed(path: Path, index: bytes, start: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
    for key, offset, length in _ENTRY.iter_unpack(index):
        if offset < len(FIRST) or offset + length > start or length < 1:
            raise damaged(path, f"blob {key.hex()} would lie outside")
        yield key, (offset, length)
