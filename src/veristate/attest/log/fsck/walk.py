"""One pass over a log's files: entries to leaves, leaves to tiles, tiles to the root. Source: C2SP tlog-tiles."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from veristate.attest.log.fsck.findings import LogFinding, LogFindingKind


class Walk:
    """A log of `size` entries, read once. First `findings` to its end, then `root` and `strays`."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._claimed: set[str] = {"checkpoint"}
        self._tops: list[bytes] = []

    def findings(self, each: Callable[[int, bytes], None]) -> Iterator[LogFinding]:
        """What is wrong with bundles and tiles, level by level."""
        above: list[bytes] = []
        for index in range(-(-self._size // 256)):
            width = min(256, self._size - 256 * index)
            path, data = self._read(f"tile/entries/{_digits(index)}", width)
            leaves = []
            for place, entry in enumerate(_entries(data or b"")):
                if place < width:
                    each(256 * index + place, entry)
                    leaves.append(hashlib.sha256(b"\0" + entry).digest())
            if data is None:
                yield LogFinding(kind=LogFindingKind.MISSING, path=path, detail=f"{width} entries")
            elif not _holds(data, width) and not _holds(data, 256):  # a full bundle may stand for the beginning of one
                yield LogFinding(kind=LogFindingKind.ENTRY, path=path, detail=f"not {width} whole entries")
            yield from self._tile(0, index, width, leaves, LogFindingKind.ENTRY, above)
        level = 1
        while above:
            hashes, above = above, []
            for index in range(-(-len(hashes) // 256)):
                part = hashes[256 * index : 256 * index + 256]
                yield from self._tile(level, index, len(part), part, LogFindingKind.TILE, above)
            level += 1

    def _tile(
        self, level: int, index: int, width: int, right: list[bytes], kind: LogFindingKind, above: list[bytes]
    ) -> Iterator[LogFinding]:
        """Compares a tile with what its hashes should be, and hands its root up when it is full."""
        path, data = self._read(f"tile/{level}/{_digits(index)}", width)
        stored = [data[i : i + 32] for i in range(0, len(data), 32)] if data is not None else []
        if data is None:
            yield LogFinding(kind=LogFindingKind.MISSING, path=path, detail=f"{width} hashes")
        elif stored[:width] != right or len(data) % 32 or len(stored) not in (width, 256):
            wrong = [i for i in range(width) if stored[i : i + 1] != right[i : i + 1]]
            yield LogFinding(kind=kind, path=path, detail=f"hashes {wrong[:5]} are not what is below them")
        if width == 256:
            above.append(_root(right) if len(right) == 256 else b"\0" * 32)
        else:
            self._tops.append(b"".join(right))

    def root(self) -> bytes:
        """The root over what was read: the partial tiles' hashes from the top level down are the frontier."""
        frontier: list[bytes] = []
        for joined in reversed(self._tops):
            hashes = [joined[i : i + 32] for i in range(0, len(joined), 32)]
            while hashes:
                width = 1
                while 2 * width <= len(hashes):
                    width *= 2
                frontier.append(_root(hashes[:width]))
                hashes = hashes[width:]
        if not frontier:
            return hashlib.sha256(b"").digest()
        while len(frontier) > 1:
            right = frontier.pop()
            frontier[-1] = hashlib.sha256(b"\1" + frontier[-1] + right).digest()
        return frontier[0]

    def strays(self) -> Iterator[LogFinding]:
        """Files that the head does not claim. Older partial files are kept for older heads, and are compared too."""
        for file in sorted((self._folder / "tile").rglob("*")):
            path = file.relative_to(self._folder).as_posix()
            if file.is_dir() or path in self._claimed:
                continue
            match = re.fullmatch(
                r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", path
            )
            if match is None or _digits(_place(match[2])) != match[2]:
                detail = "no path of a tiled log"
                yield LogFinding(kind=LogFindingKind.STRAY, path=path, detail=detail)
            elif not self._begins_full(match[1], match[2], int(match[3] or 256), file.read_bytes()):
                yield LogFinding(kind=LogFindingKind.TILE, path=path, detail="not the beginning of the later tile")
            elif self._beyond(match[1], match[2], int(match[3] or 256)):
                yield LogFinding(kind=LogFindingKind.UNCLAIMED, path=path, detail="beyond the signed head")

    def _beyond(self, level: str, number: str, width: int) -> bool:
        """Whether the file reaches beyond what the head claims."""
        return 256 * _place(number) + width > self._count(level)

    def _begins_full(self, level: str, number: str, width: int, data: bytes) -> bool:
        """Whether an older partial file is the beginning of the one that the head claims."""
        if self._beyond(level, number, width):
            return True
        now = min(256, self._count(level) - 256 * _place(number))
        whole = self._read(f"tile/{level}/{number}", now)[1] or b""
        return whole.startswith(data) and (_holds(data, width) if level == "entries" else len(data) == 32 * width)

    def _count(self, level: str) -> int:
        """How many entries, or hashes of that level, the head claims."""
        return self._size if level == "entries" else self._size // 256 ** int(level)

    def _read(self, path: str, width: int) -> tuple[str, bytes | None]:
        """The file at that width, or the full one in its place."""
        partial = path if width == 256 else f"{path}.p/{width}"
        for candidate in (partial, path):
            file = self._folder / candidate
            if file.is_file():
                self._claimed.add(candidate)
                return candidate, file.read_bytes()
        return partial, None


def _entries(bundle: bytes) -> Iterator[bytes]:
    """The whole entries of a bundle: one whose length reaches beyond the bundle's end is none."""
    at = 0
    while at + 2 <= len(bundle):
        end = at + 2 + bundle[at] * 256 + bundle[at + 1]
        if end <= len(bundle):
            yield bundle[at + 2 : end]
        at = end


def _holds(bundle: bytes, width: int) -> bool:
    """Whether the bundle is `width` whole entries and nothing else."""
    sizes = [2 + len(entry) for entry in _entries(bundle)]
    return len(sizes) == width and sum(sizes) == len(bundle)


def _root(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [hashlib.sha256(b"\1" + hashes[i] + hashes[i + 1]).digest() for i in range(0, len(hashes), 2)]
    return hashes[0]


def _place(number: str) -> int:
    return int(number.replace("x", "").replace("/", ""))


def _digits(index: int) -> str:
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03d}")
    return "/".join(groups)
