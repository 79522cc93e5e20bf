"""The right edge of a log: what is needed to append, and nothing else. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from veristate.attest.log.layout import WIDTH, bundle_path, pack, tile_path, width_at
from veristate.attest.log.reader import LogReader
from veristate.attest.log.tree import EMPTY_ROOT, complete_root, node_hash


@dataclass(slots=True, kw_only=True)
class Edge:
    """Size, the hashes of the partial tile at each level, and the entries of the partial bundle."""

    size: int = 0
    levels: list[list[bytes]] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)

    @classmethod
    def read(cls, reader: LogReader) -> "Edge":
        """The edge of the log at the reader's head."""
        size, levels, level = reader.head.size, [], 0
        while size >> 8 * level:
            tile = (size >> 8 * level) // WIDTH
            width = width_at(level, tile, size)
            levels.append([reader.node(8 * level, tile * WIDTH + i) for i in range(width)])
            level += 1
        return cls(size=size, levels=levels, entries=list(reader.entries(size - size % WIDTH)))

    def root(self) -> bytes:
        """The root of the log, from the complete subtrees that end at its edge."""
        nodes: list[bytes] = []
        for hashes in reversed(self.levels):
            at = 0
            while at < len(hashes):
                width = 1 << (len(hashes) - at).bit_length() - 1
                nodes.append(complete_root(hashes[at : at + width]))
                at += width
        if not nodes:
            return EMPTY_ROOT
        root = nodes.pop()
        while nodes:
            root = node_hash(nodes.pop(), root)
        return root

    def extend(self, leaves: Mapping[bytes, bytes]) -> dict[str, bytes]:
        """The files that the longer log needs, by path. `leaves` are the new entries by their leaf hashes."""
        files: dict[str, bytes] = {}
        touched: set[int] = set()
        for leaf, entry in leaves.items():
            self.entries.append(entry)
            if len(self.entries) == WIDTH:
                files[bundle_path(self.size // WIDTH)] = pack(self.entries)
                self.entries.clear()
            self._push(leaf, files, touched)
            self.size += 1
        if self.entries and leaves:
            files[bundle_path(self.size // WIDTH, len(self.entries))] = pack(self.entries)
        for level in touched:
            if hashes := self.levels[level]:
                files[tile_path(level, self._tile(level), len(hashes))] = b"".join(hashes)
        return files

    def _push(self, leaf: bytes, files: dict[str, bytes], touched: set[int]) -> None:
        """Adds a leaf, and above every tile that it fills the root of that tile."""
        level, value, size = 0, leaf, self.size + 1
        while True:
            if level == len(self.levels):
                self.levels.append([])
            hashes = self.levels[level]
            hashes.append(value)
            touched.add(level)
            if len(hashes) < WIDTH:
                return
            files[tile_path(level, (size >> 8 * level) // WIDTH - 1)] = b"".join(hashes)
            value = complete_root(hashes)
            hashes.clear()
            level += 1

    def _tile(self, level: int) -> int:
        return (self.size >> 8 * level) // WIDTH


def replaced_by(files: Sequence[str]) -> list[str]:
    """The folders of partial files that full ones among `files` replace."""
    return [f"{path}.p" for path in files if ".p/" not in path]
