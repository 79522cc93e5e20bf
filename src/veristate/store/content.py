"""How content is laid down in blobs, which never changes a name.

The first byte of a blob's file, or of its part of a pack, says how the rest is to be read: `r` the content itself, `z`
the content as one zstd frame, `m` a canonical list of chunks, each a blob of its own.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import BinaryIO

import zstandard

from veristate.core import canonical_bytes, digest

SPLIT_ABOVE = 4 * 2**20
CHUNK = 2**20
CHUNKS_FORMAT = "veristate.chunks/1"
_PROBE = 2**16
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Whether `text` is 64 lower-case hexadecimal digits, and so safe in a path."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class _Zstd(threading.local):
    """One of each for a thread: making them costs more than a small file."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


@cache
def _zstd() -> _Zstd:
    return _Zstd()


def packed(data: bytes) -> bytes:
    """`data` as a blob's file holds it. A large one is compressed only when its beginning shrinks."""
    compressor = _zstd().compressor
    if len(data) <= _PROBE or len(compressor.compress(data[:_PROBE])) < 0.97 * _PROBE:
        frame = compressor.compress(data)
        if len(frame) < len(data):
            return b"z" + frame
    return b"r" + data


def unpacked(stored: bytes) -> bytes:
    """The content of a blob that holds it itself. Raises: ValueError saying why there is none."""
    kind, rest = stored[:1], stored[1:]
    if kind == b"r":
        return rest
    if kind != b"z":
        raise ValueError(f"it begins with {kind!r}")
    try:
        if not 0 <= zstandard.frame_content_size(rest) <= SPLIT_ABOVE:
            raise ValueError("its frame claims an impossible size")
        return _zstd().decompressor.decompress(rest, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"its frame can't be read: {error}") from error


def split(
    source: BinaryIO, keep: Callable[[str, bytes], None], keep_list: Callable[[str, bytes], None]
) -> tuple[str, int]:
    """The SHA-256 and the size of the content, after it was given to `keep`, whole or in chunks that `keep_list` then
    lists. The hash of the whole is taken beside those of the chunks, in a thread of its own.
    """
    start = source.read(SPLIT_ABOVE + 1)
    if len(start) <= SPLIT_ABOVE:
        name = digest(start)
        keep(name, start)
        return name, len(start)
    whole, size, chunks = hashlib.sha256(), 0, []
    with ThreadPoolExecutor(max_workers=1) as beside:
        last: Future[None] | None = None
        for chunk in _chunks(start, source):
            if last is not None:
                last.result()
            last = beside.submit(whole.update, chunk)
            size += len(chunk)
            chunks.append(digest(chunk))
            keep(chunks[-1], chunk)
    keep_list(whole.hexdigest(), chunk_list(size, chunks))
    return whole.hexdigest(), size


def chunk_list(size: int, chunks: list[str]) -> bytes:
    """The blob that lists the chunks of content of `size` bytes."""
    return b"m" + canonical_bytes({"format": CHUNKS_FORMAT, "size": size, "chunks": chunks})


def listed_chunks(stored: bytes) -> list[str]:
    """The digests that such a blob lists. Raises: ValueError, KeyError, TypeError or RecursionError when it is none."""
    listed = json.loads(stored[1:])["chunks"]
    if not isinstance(listed, list) or not all(is_digest(chunk) for chunk in listed):
        raise ValueError("it holds something that is no digest")
    return listed


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
