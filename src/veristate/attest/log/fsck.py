"""An independent reading of a tiled log: everything from the public format, nothing from the code that writes it.

It parses, hashes and lays out by itself (signatures excepted, which are cryptography's), reads every byte, and says
what is wrong. A finding is data; nothing is repaired.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class LogFindingKind(StrEnum):
    """What can be wrong with a log. Only `UNCLAIMED` is harmless: files beyond the head, of an append that was cut."""

    CHECKPOINT = "checkpoint"
    SIGNATURE = "signature"
    MISSING = "missing"
    ENTRY = "entry differs from its leaf"
    TILE = "tile differs"
    ROOT = "root differs"
    STRAY = "stray"
    UNCLAIMED = "unclaimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding:
    """One thing that is wrong, and at which path."""

    kind: LogFindingKind
    path: str
    detail: str

    @property
    def harmless(self) -> bool:
        """Whether everything that the head claims is untouched by it."""
        return self.kind is LogFindingKind.UNCLAIMED


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """What was read: how many entries the signed head claims, and what is wrong."""

    origin: str
    size: int
    findings: tuple[LogFinding, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing but harmless things was found."""
        return all(finding.harmless for finding in self.findings)


def check_log(
    folder: Path,
    verifier_key: str,
    *,
    each: Callable[[int, bytes], None] = lambda index, entry: None,
) -> LogReport:
    """What the log in `folder` is, read to the last byte; `each` is given every entry with its index.

    `verifier_key` is the log's, `name+hash+base64`; its name is the origin.
    """
    name, _, encoded = verifier_key.strip().split("+", 2)
    public = base64.b64decode(encoded)[1:]
    try:
        size, root = _head((folder / "checkpoint").read_bytes(), name, public)
    except (OSError, ValueError, InvalidSignature) as error:
        kind = LogFindingKind.SIGNATURE if isinstance(error, InvalidSignature) else LogFindingKind.CHECKPOINT
        detail = str(error) or "the log's key did not sign it"
        return LogReport(origin=name, size=0, findings=(LogFinding(kind=kind, path="checkpoint", detail=detail),))
    walk = _Walk(folder, size)
    found = list(walk.findings(each))
    right = walk.root() == root
    found = [_blame(finding, right) for finding in found]
    if not right:
        found.append(LogFinding(kind=LogFindingKind.ROOT, path="checkpoint", detail="the entries give another root"))
    return LogReport(origin=name, size=size, findings=(*found, *walk.strays()))


def _blame(finding: LogFinding, right: bool) -> LogFinding:
    """Where an entry and its leaf differ, the signed root tells which of the two files is the wrong one."""
    if finding.kind is not LogFindingKind.ENTRY or not finding.path.startswith("tile/0/"):
        return finding
    path = finding.path if right else finding.path.replace("tile/0/", "tile/entries/")
    kind = LogFindingKind.TILE if right else LogFindingKind.ENTRY
    return LogFinding(kind=kind, path=path, detail=finding.detail)


def _head(note: bytes, name: str, public: bytes) -> tuple[int, bytes]:
    """Size and root of a checkpoint that the key signed under that name."""
    text, _, below = note.decode("utf-8").rpartition("\n\n")
    signed = (text + "\n").encode()
    mark = hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]
    lines = [re.fullmatch("— (\\S+) (\\S+)", line) for line in below.removesuffix("\n").split("\n")]
    if not below.endswith("\n") or None in lines:
        raise ValueError("not a signed note")
    said = [(line[1], _exact64(line[2])) for line in lines if line]
    ours = [data[4:] for signer, data in said if signer == name and data[:4] == mark]
    if not ours:
        raise InvalidSignature
    for signature in ours:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    origin, size, root = text.split("\n")[:3]
    if origin != name or not re.fullmatch("0|[1-9][0-9]*", size):
        raise ValueError(f"it is of {origin!r}, size {size!r}")
    return int(size), _exact64(root)


def _exact64(text: str) -> bytes:
    """The bytes that base 64 spells, and the spelling is the only one."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base 64 in another spelling")
    return data


class _Walk:
    """One pass over a log: entries to leaves, leaves to tiles, tiles to the root."""

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
            elif len(leaves) != width or sum(2 + n for n in map(len, _entries(data))) != len(data):
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
            match = re.fullmatch(r"tile/(entries|[0-9]{1,2})/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", path)
            if match is None:
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
        return whole.startswith(data) and (level == "entries" or len(data) == 32 * width)

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
    at = 0
    while at + 2 <= len(bundle):
        length = bundle[at] * 256 + bundle[at + 1]
        yield bundle[at + 2 : at + 2 + length]
        at += 2 + length


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
