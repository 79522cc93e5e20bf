"""Blobs on the disk, named by the SHA-256 of their content: a file for each that was put, packs for those of snapshots.

What `content` lays down there, whole or in chunks, is read back here and verified.
"""

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from veristate.core import InputError, TamperError, digest
from veristate.store.content import chunk_list, is_digest, listed_chunks, packed, split, unpacked
from veristate.store.files import disk, sync_folder, write_whole, writing
from veristate.store.packs import Packs

PACKS = "packs"
_WINDOW = 2**18  # stays in a core's cache while it is read, hashed and written


class Blobs:
    """The folder of blobs, and the folder of the same file system in which they are drafted."""

    def __init__(self, folder: Path, *, temporary: Path) -> None:
        self.folder = folder
        self.temporary = temporary
        self.packs = Packs(folder / PACKS)

    def path(self, name: str) -> Path:
        """Where the blob of digest `name` is, or would be, when it has a file of its own.

        Raises: InputError when `name` is no digest.
        """
        return self.folder / _checked(name)[:2] / name

    def has(self, name: str) -> bool:
        """Whether the store holds a blob of this digest; its bytes are not read."""
        return self.packs.has(_checked(name)) or self.path(name).is_file()

    def put(self, data: bytes) -> str:
        """The SHA-256 of `data`, which is on the disk when this returns.

        Raises: EnvironmentUnusableError when it can't be written; TamperError when the store holds other bytes
        under this digest.
        """
        return self.put_stream(io.BytesIO(data))[0]

    def put_stream(self, source: BinaryIO) -> tuple[str, int]:
        """The SHA-256 and the size of what `source` gives until its end; large content is never held whole."""
        with writing(self.temporary):  # what is found here is not collected before it counts as new again
            return split(source, self._keep, self._keep_list)

    def get(self, name: str) -> bytes:
        """The content of the blob, re-hashed.

        Raises: InputError when there is no such blob; TamperError when its bytes are not those of the digest.
        """
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content in pieces of at most 4 MiB. Each piece is verified before it is given, the whole at the end:
        a caller acts on the content only when the iterator has ended.

        Raises: as `get`.
        """
        stored = self._read(name)
        chunks = self.chunks(name, stored)
        if chunks is None:
            yield self._content(name, stored)
            return
        whole = hashlib.sha256()
        size = 0
        for chunk in chunks:
            piece = self._content(chunk, self._read(chunk, listed_in=name))
            whole.update(piece)
            size += len(piece)
            yield piece
        if whole.hexdigest() != name or chunk_list(size, chunks) != stored:
            raise self.tampered(name, "its chunks give other bytes")

    def unverified(self, name: str) -> Iterator[bytes | memoryview]:
        """The content in pieces of which each holds until the next is asked for; the caller hashes the whole.

        Raises: as `get`, but not for bytes that can be read and are others.
        """
        stored = self._read(name)
        chunks = self.chunks(name, stored)
        if chunks is None:
            yield self._content(name, stored, verified=False)
            return
        size, window = 0, memoryview(bytearray(_WINDOW))
        for chunk in chunks:
            for piece in self._windows(chunk, window, listed_in=name):
                size += len(piece)
                yield piece
        if chunk_list(size, chunks) != stored:
            raise self.tampered(name, "its chunks give other bytes")

    def _windows(self, name: str, window: memoryview, *, listed_in: str) -> Iterator[bytes | memoryview]:
        """A chunk's content: through the window where it lies in a pack as it is, so that it is copied once."""
        parts = self.packs.windows(name, window)
        first = next(parts, None)
        if first is None or bytes(first[:1]) != b"r":
            yield self._content(name, self._read(name, listed_in), verified=False)
            return
        yield first[1:]
        yield from parts

    def chunks(self, name: str, stored: bytes | None = None) -> list[str] | None:
        """The digests of the chunks of a large blob; None when the blob holds its content itself."""
        stored = self._read(name) if stored is None else stored
        if stored[:1] != b"m":
            return None
        try:
            return listed_chunks(stored)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.tampered(name, f"its list of chunks can't be read: {error!r}") from error

    def verify(self, name: str) -> None:
        """Returns when the blob, which holds its content itself, is what its name says. Raises: as `get`."""
        self._content(name, self._read(name))

    def stored(self, name: str, size: int | None = None) -> bytes | None:
        """The bytes as they are stored, or the first `size` of them; None when there is no such blob."""
        found = self.packs.read(_checked(name), size)
        if found is not None:
            return found
        path = self.path(name)
        with disk(path), suppress(FileNotFoundError), path.open("rb", buffering=0) as source:
            return source.read() if size is None else source.read(size)
        return self.packs.read(name, size, look=True)

    def _read(self, name: str, listed_in: str | None = None) -> bytes:
        """The stored bytes. A chunk that a list names must be there, a blob that is asked for may not be."""
        stored = self.stored(name)
        if stored is not None:
            return stored
        if listed_in is None:
            raise InputError(f"no blob {name} in {self.folder}; is this the right store?")
        raise self.tampered(listed_in, f"its chunk {name} is missing")

    def _content(self, name: str, stored: bytes, *, verified: bool = True) -> bytes:
        """The content of a blob that holds it itself."""
        try:
            content = unpacked(stored)
        except ValueError as error:
            raise self.tampered(name, str(error)) from error
        if verified and digest(content) != name:
            raise self.tampered(name, f"it holds the content {digest(content)}")
        return content

    def tampered(self, name: str, what: str) -> TamperError:
        """The error for a blob whose bytes are not those of its name."""
        return TamperError(
            f"blob {name} is damaged, {what}: {self.where(name)}; run fsck, and bring the file back from a copy"
        )

    def where(self, name: str) -> Path:
        """The file that holds the blob, a pack or its own."""
        return self.packs.path_of(name) or self.path(name)

    def _keep(self, name: str, data: bytes) -> None:
        """Returns when `data` is on the disk as the blob `name`, in a file of its own.

        What is there already is compared, not trusted: a workspace is deleted on the strength of its snapshot.
        """
        if self.path(name).is_file():
            self._content(name, self._own(name))
            self._renew(name)
            return
        self._write(name, packed(data))

    def _keep_list(self, name: str, stored: bytes) -> None:
        if not self.path(name).is_file():
            self._write(name, stored)
        elif self._own(name) == stored:
            self._renew(name)
        else:
            raise self.tampered(name, "it lists other chunks")

    def _own(self, name: str) -> bytes:
        path = self.path(name)
        with disk(path):
            return path.read_bytes()

    def _renew(self, name: str) -> None:
        """Returns when the blob counts as new again, and is not collected before anybody has named it."""
        with disk(self.path(name)):
            os.utime(self.path(name))
        self._sync(name)

    def _write(self, name: str, stored: bytes) -> None:
        path = self.path(name)
        with disk(path):
            path.parent.mkdir(exist_ok=True)
        write_whole(path, stored, temporary=self.temporary)
        self._sync(name)

    def _sync(self, name: str) -> None:
        """Returns when the name is on the disk, also where another writer gave it and has not come that far."""
        path = self.path(name)
        with disk(path):
            sync_folder(path.parent)
            sync_folder(self.folder)

    def size_bytes(self) -> int:
        """The size of all that is stored."""
        return sum(path.stat().st_size for path in (*self.files(), *self.packs.paths()))

    def files(self) -> Iterator[Path]:
        """Each file in the folder that is in no pack, in order."""
        with disk(self.folder):
            for shelf in sorted(self.folder.iterdir()):
                if shelf.name == PACKS and shelf.is_dir():
                    continue
                yield from sorted(shelf.iterdir()) if shelf.is_dir() else [shelf]


def _checked(name: str) -> str:
    if not is_digest(name):
        raise InputError(f"not a SHA-256 in lower-case hexadecimal: {name!r}")
    return name
