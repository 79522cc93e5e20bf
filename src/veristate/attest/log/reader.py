"""Reading a tiled log at one head: entries, and proofs that verify before they are handed out."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from veristate.attest.log.layout import HASH, WIDTH, bundle_path, tile_path, unpack, width_at
from veristate.attest.log.tree import (
    EMPTY_ROOT,
    consistency_proof,
    extends,
    includes,
    inclusion_proof,
    leaf_hash,
    node_hash,
    range_root,
)
from veristate.attest.signing import Head
from veristate.core import InputError, TamperError

Fetch = Callable[[str], bytes | None]
_TILES_HELD = 256


def fetch_from(folder: Path) -> Fetch:
    """Gives the file at a path of the log in `folder`, or None when there is none."""

    def fetch(path: str) -> bytes | None:
        try:
            return (folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    return fetch


class LogReader:
    """A log as its `head` says it is. What `fetch` gives is believed only as far as it leads to the head's root."""

    def __init__(self, fetch: Fetch, head: Head) -> None:
        self.head = head
        self._fetch = fetch
        self._pyramid = lru_cache(maxsize=_TILES_HELD)(self._read_tile)
        self._bundle = lru_cache(maxsize=4)(self._read_bundle)

    def entry(self, index: int) -> bytes:
        """The entry at `index`, which is the one under the head's root. Raises: as `inclusion`."""
        entry = self._entry(index)
        self._prove(index, leaf_hash(entry))
        return entry

    def entries(self, start: int = 0) -> Iterator[bytes]:
        """The entries from `start` on, each compared with its leaf; that the leaves are the head's, `root` says."""
        for index in range(start, self.head.size):
            entry = self._entry(index)
            if leaf_hash(entry) != self.node(0, index):
                raise TamperError(f"entry {index} of {self.head.origin} is not what its tile says; run log fsck")
            yield entry

    def inclusion(self, index: int) -> tuple[bytes, ...]:
        """The proof that the leaf at `index` is in the log, at the head's size and no other.

        Raises: InputError when there is no such entry; TamperError when the tiles don't give the root.
        """
        self._require(index)
        return self._prove(index, self.node(0, index))

    def consistency(self, old: int) -> tuple[bytes, ...]:
        """The proof that the log of `old` entries is the beginning of this one; empty for an empty log.

        Raises: InputError when `old` is beyond the head; TamperError when what the log holds doesn't give the root.
        """
        size = self.head.size
        if not 0 <= old <= size:
            raise InputError(f"{self.head.origin} has {size} entries at this head, not {old}; take a later head")
        if old == 0:
            return ()
        proof = tuple(consistency_proof(self.node, old, size))
        if not extends(old, range_root(self.node, 0, old), size, self.head.root, proof):
            raise self._damaged("its tiles do not give the root of its head")
        return proof

    def root(self, size: int | None = None) -> bytes:
        """The root that the tiles give at `size`, the head's when None."""
        size = self.head.size if size is None else size
        return range_root(self.node, 0, size) if size else EMPTY_ROOT

    def node(self, level: int, index: int) -> bytes:
        """The root of the complete subtree of 2^level leaves that begins at leaf index * 2^level, unverified."""
        tile_level, height = divmod(level, 8)
        tile, place = divmod(index << height, WIDTH)
        levels = self._pyramid(tile_level, tile)
        place >>= height
        if height >= len(levels) or place >= len(levels[height]):
            raise self._damaged(f"tile {tile_level}/{tile} lacks a hash")
        return levels[height][place]

    def _prove(self, index: int, leaf: bytes) -> tuple[bytes, ...]:
        proof = tuple(inclusion_proof(self.node, index, self.head.size))
        if not includes(leaf, index, self.head.size, proof, self.head.root):
            raise self._damaged(f"entry {index} does not lead to the root of its head")
        return proof

    def _entry(self, index: int) -> bytes:
        self._require(index)
        return self._bundle(index // WIDTH)[index % WIDTH]

    def _require(self, index: int) -> None:
        if not 0 <= index < self.head.size:
            raise InputError(f"{self.head.origin} has {self.head.size} entries at this head, none at {index}")

    def _read_tile(self, level: int, index: int) -> list[list[bytes]]:
        """The hashes of a tile, and above them those of its complete subtrees, level by level."""
        width = width_at(level, index, self.head.size)
        data = self._get(tile_path(level, index, width), tile_path(level, index)) if width else b""
        if len(data) < width * HASH:
            raise self._damaged(f"tile {level}/{index} is shorter than {width} hashes")
        hashes = [data[i : i + HASH] for i in range(0, width * HASH, HASH)]
        levels = [hashes]
        while len(levels[-1]) > 1:
            below = levels[-1]
            levels.append([node_hash(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)])
        return levels

    def _read_bundle(self, index: int) -> list[bytes]:
        width = width_at(0, index, self.head.size)
        try:
            entries = unpack(self._get(bundle_path(index, width), bundle_path(index)))
        except ValueError as error:
            raise self._damaged(f"entry bundle {index}: {error}") from error
        if len(entries) < width:
            raise self._damaged(f"entry bundle {index} has {len(entries)} entries, not {width}")
        return entries[:width]

    def _get(self, path: str, full: str) -> bytes:
        """The file at `path`, or the full one that replaced it."""
        data = self._fetch(path)
        data = self._fetch(full) if data is None else data
        if data is None:
            raise self._damaged(f"{path} is missing")
        return data

    def _damaged(self, what: str) -> TamperError:
        return TamperError(f"the log {self.head.origin} at size {self.head.size}: {what}; run log fsck")
