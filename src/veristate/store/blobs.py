"""Blobs on the disk: a file per content, named by the SHA-256 of the content.

The first byte of the file says how the rest is to be read: `r` the content itself, `z` the content as one zstd frame,
`m` a canonical list of chunks, each a blob of its own. Which of them is used never changes the name.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import zstandard

from veristate.core import InputError, TamperError, canonical_bytes, digest
from veristate.store.files import disk, sync_folder, write_whole

SPLIT_ABOVE = 4 * 2**20
CHUNK = 2**20
CHUNKS_FORMAT = "veristate.chunks/1"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Whether `text` is 64 lower-case hexadecimal digits, and so safe in a path."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class Blobs:
    """The folder of blobs, and the folder of the same file system in which they are drafted."""

    def __init__(self, folder: Path, *, temporary: Path) -> None:
        self.folder = folder
        self._temporary = temporary

    def path(self, name: str) -> Path:
        """Where the blob of digest `name` is, or would be.

        Raises: InputError when `name` is no digest.
        """
        if not is_digest(name):
            raise InputError(f"not a SHA-256 in lower-case hexadecimal: {name!r}")
        return self.folder / name[:2] / name

    def has(self, name: str) -> bool:
        """Whether the store holds a blob of this digest; its bytes are not read."""
        return self.path(name).is_file()

    def put(self, data: bytes) -> str:
        """The SHA-256 of `data`, which is on the disk when this returns.

        Raises: EnvironmentUnusableError when it can't be written; TamperError when the store holds other bytes
        under this digest.
        """
        return self.put_stream(io.BytesIO(data))[0]

    def put_stream(self, source: BinaryIO) -> tuple[str, int]:
        """The SHA-256 and the size of what `source` gives until its end; large content is never held whole."""
        start = source.read(SPLIT_ABOVE + 1)
        if len(start) <= SPLIT_ABOVE:
            name = digest(start)
            self._keep(name, start)
            return name, len(start)
        whole = hashlib.sha256()
        size = 0
        chunks = []
        for chunk in _chunks(start, source):
            whole.update(chunk)
            size += len(chunk)
            chunks.append(digest(chunk))
            self._keep(chunks[-1], chunk)
        self._keep_file(whole.hexdigest(), _chunk_list(size, chunks))
        return whole.hexdigest(), size

    def get(self, name: str) -> bytes:
        """The content of the blob, re-hashed.

        Raises: InputError when there is no such blob; TamperError when its bytes are not those of the digest.
        """
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content in pieces of at most 4 MiB. Each piece is verified before it is given, the whole at the end:
        a caller acts on the content only when the iterator has ended. Raises: as `get`.
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
        if whole.hexdigest() != name or _chunk_list(size, chunks) != stored:
            raise self._tampered(name, "its chunks give other bytes")

    def chunks(self, name: str, stored: bytes | None = None) -> list[str] | None:
        """The digests of the chunks of a large blob; None when the blob holds its content itself."""
        stored = self._read(name) if stored is None else stored
        if stored[:1] != b"m":
            return None
        try:
            listed = json.loads(stored[1:])["chunks"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._tampered(name, f"its list of chunks can't be read: {error!r}") from error
        if not isinstance(listed, list) or not all(is_digest(chunk) for chunk in listed):
            raise self._tampered(name, "its list of chunks holds something that is no digest")
        return listed

    def _read(self, name: str, listed_in: str | None = None) -> bytes:
        """The bytes of the file. A chunk that a list names must be there, a blob that is asked for may not be."""
        path = self.path(name)
        with disk(path), suppress(FileNotFoundError):
            return path.read_bytes()
        if listed_in is None:
            raise InputError(f"no blob {name} in {self.folder}; is this the right store?")
        raise self._tampered(listed_in, f"its chunk {name} is missing")

    def _content(self, name: str, stored: bytes) -> bytes:
        """The content of a blob that holds it itself, verified."""
        kind, rest = stored[:1], stored[1:]
        if kind == b"z":
            try:
                if not 0 <= zstandard.frame_content_size(rest) <= SPLIT_ABOVE:
                    raise self._tampered(name, "its frame claims an impossible size")
                rest = zstandard.ZstdDecompressor().decompress(rest, allow_extra_data=False)
            except zstandard.ZstdError as error:
                raise self._tampered(name, f"its frame can't be read: {error}") from error
        elif kind != b"r":
            raise self._tampered(name, f"it begins with {kind!r}")
        if digest(rest) != name:
            raise self._tampered(name, f"it holds the content {digest(rest)}")
        return rest

    def _tampered(self, name: str, what: str) -> TamperError:
        return TamperError(
            f"blob {name} is damaged, {what}: {self.path(name)}; run fsck, and bring the file back from a copy"
        )

    def _keep(self, name: str, data: bytes) -> None:
        """Returns when `data` is on the disk as the blob `name`.

        What is there already is compared, not trusted: a workspace is deleted on the strength of its snapshot.
        """
        if self.has(name):
            self._content(name, self._read(name))
            self._sync(name)
            return
        packed = zstandard.ZstdCompressor(level=1).compress(data)
        self._write(name, b"z" + packed if len(packed) < len(data) else b"r" + data)

    def _keep_file(self, name: str, stored: bytes) -> None:
        if not self.has(name):
            self._write(name, stored)
        elif self._read(name) == stored:
            self._sync(name)
        else:
            raise self._tampered(name, "it lists other chunks")

    def _write(self, name: str, stored: bytes) -> None:
        path = self.path(name)
        with disk(path):
            path.parent.mkdir(exist_ok=True)
        write_whole(path, stored, temporary=self._temporary)
        self._sync(name)

    def _sync(self, name: str) -> None:
        """Returns when the name is on the disk, also where another writer gave it and has not come that far."""
        path = self.path(name)
        with disk(path):
            sync_folder(path.parent)
            sync_folder(self.folder)

    def files(self) -> Iterator[Path]:
        """Each file in the folder, in order."""
        with disk(self.folder):
            for shelf in sorted(self.folder.iterdir()):
                yield from sorted(shelf.iterdir()) if shelf.is_dir() else [shelf]


def _chunks(start: bytes, source: BinaryIO) -> Iterator[bytes]:
    """The content in chunks of exactly `CHUNK` bytes, the last one shorter."""
    rest = start
    while True:
        while len(rest) < CHUNK and (more := source.read(CHUNK - len(rest))):
            rest += more
        if not rest:
            return
        yield rest[:CHUNK]
        rest = rest[CHUNK:]


def _chunk_list(size: int, chunks: list[str]) -> bytes:
    return b"m" + canonical_bytes({"format": CHUNKS_FORMAT, "size": size, "chunks": chunks})
