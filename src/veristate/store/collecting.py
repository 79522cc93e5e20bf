"""Collecting what nothing names: mark from the roots, then sweep. Whatever dies in between leaves orphans.

Roots are what the caller keeps (the journal knows), pins, and the snapshots of the last while, whose digests may not
have reached a journal yet. A pack of which much is dead is written anew, and on the disk, before the old one goes.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristate.core import InputError, TamperError
from veristate.store.blobs import Blobs
from veristate.store.content import is_digest
from veristate.store.files import disk, no_writer, sync_folder, write_whole
from veristate.store.packs import PackDraft, read_index
from veristate.store.trees import FileEntry, FolderEntry, Tree

DEAD_SHARE = 0.25
SMALL_PACK = 16 * 2**20
SMALL_UPPER = 64
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection did. Units: bytes on the disk."""

    blobs: int
    freed_bytes: int
    left_bytes: int


class Roots:
    """Trees that are kept whatever the journal says: named pins, and what was captured lately."""

    def __init__(self, *, pins: Path, recent: Path) -> None:
        self._pins = pins
        self._recent = recent

    def pin(self, name: str, tree: str, *, temporary: Path) -> None:
        """Returns when the pin is on the disk."""
        path = self._path(name)
        with disk(path):
            path.parent.mkdir(exist_ok=True)
            sync_folder(path.parent.parent)
        write_whole(path, f"{tree}\n".encode(), temporary=temporary)

    def unpin(self, name: str) -> None:
        """Returns when the pin is gone."""
        path = self._path(name)
        with disk(path):
            path.unlink(missing_ok=True)

    def pins(self) -> dict[str, str]:
        """The pinned trees by name."""
        with disk(self._pins), suppress(FileNotFoundError):
            return {path.name: path.read_text().strip() for path in sorted(self._pins.iterdir())}
        return {}

    def mark_recent(self, tree: str) -> None:
        """Returns when the tree counts as captured now. Not forced to the disk: a power cut ends who would name it."""
        with disk(self._recent):
            self._recent.mkdir(exist_ok=True)
            (self._recent / tree).touch()

    def recent(self, since: float) -> Iterator[str]:
        """The trees captured since that time; older marks are removed."""
        with suppress(FileNotFoundError):
            for path in self._recent.iterdir():
                if path.stat().st_mtime >= since:
                    yield path.name
                else:
                    path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise InputError(f"a pin's name is letters, digits, dots, - and _: not {name!r}")
        return self._pins / name


def collect(blobs: Blobs, roots: Roots, keep: Iterable[str], *, spare_s: float) -> Collected:
    """What was removed. Raises: as `Store.collect`."""
    since = time.time() - spare_s
    with no_writer(blobs.temporary):
        blobs.packs.forget()
        before = blobs.size_bytes()
        kept = set(_marked(blobs, [*keep, *roots.pins().values()], [*roots.recent(since)]))
        removed = sum(_sweep_loose(blobs, kept, since))
        removed += _sweep_packs(blobs, kept, since)
        blobs.packs.forget()
        after = blobs.size_bytes()
    return Collected(blobs=removed, freed_bytes=before - after, left_bytes=after)


def _marked(blobs: Blobs, required: list[str], recent: list[str]) -> Iterator[str]:
    """Every blob that a root names. A root may be any blob: one that reads as a tree keeps what is below it."""
    done: set[str] = set()
    missing = [name for name in required if not (is_digest(name) and blobs.has(name))]
    if missing:
        raise InputError(f"{blobs.folder}: {missing[0]!r} is to be kept and is not here; nothing was collected")
    found = [name for name in recent if is_digest(name) and blobs.has(name)]
    waiting = [(name, True) for name in (*required, *found)]
    while waiting:
        name, perhaps_tree = waiting.pop()
        if name in done:
            continue
        done.add(name)
        yield name
        yield from _chunks_of(blobs, name)
        if perhaps_tree:
            waiting.extend(_below(blobs, name))


def _chunks_of(blobs: Blobs, name: str) -> list[str]:
    first = blobs.stored(name, 1)
    if first is None:
        raise TamperError(f"blob {name} is to be kept and is missing; run fsck; nothing was collected")
    return (blobs.chunks(name) or []) if first == b"m" else []


def _below(blobs: Blobs, name: str) -> list[tuple[str, bool]]:
    pieces = blobs.pieces(name)
    start = next(pieces, b"")
    if not start.startswith(b'{"entries":'):
        return []
    content = start + b"".join(pieces)
    try:
        tree = Tree.from_bytes(content, name)
    except TamperError:
        return []  # something else that begins alike
    below = []
    for entry in tree.entries:
        if isinstance(entry, FolderEntry):
            below.append((entry.tree, True))
        elif isinstance(entry, FileEntry):
            below.append((entry.blob, False))
    return below


def _sweep_loose(blobs: Blobs, kept: set[str], since: float) -> Iterator[int]:
    for path in blobs.files():
        if is_digest(path.name) and path.name not in kept and path.stat().st_mtime < since:
            path.unlink()
            yield 1


def _sweep_packs(blobs: Blobs, kept: set[str], since: float) -> int:
    """How many blobs went. Packs that are worth it are written anew, together."""
    removed, rewritten = 0, []
    packs = [path for path in blobs.packs.paths() if path.stat().st_mtime < since]
    small = [path for path in packs if path.stat().st_size < SMALL_PACK]
    draft = PackDraft(blobs.packs.folder, temporary=blobs.temporary)
    try:
        for path in packs:
            index = read_index(path)
            live = {key: where for key, where in index.items() if key.hex() in kept}
            size = sum(length for _, length in index.values())
            dead = size - sum(length for _, length in live.values())
            if dead > DEAD_SHARE * size or (len(small) > SMALL_UPPER and path in small):
                rewritten.append(path)
                removed += len(index) - len(live)
                _copy(path, live, draft)
        made = draft.seal()
    finally:
        draft.discard()
    for path in rewritten:
        if path != made:  # the same blobs give the same pack
            path.unlink()
    if rewritten:
        sync_folder(blobs.packs.folder)
    return removed


def _copy(path: Path, live: dict[bytes, tuple[int, int]], draft: PackDraft) -> None:
    with path.open("rb") as source:
        for key, (offset, length) in sorted(live.items(), key=lambda item: item[1]):
            if key in draft.index:
                continue
            stored = os.pread(source.fileno(), length, offset)
            if len(stored) != length:
                raise TamperError(f"pack {path} ends before blob {key.hex()}; run fsck; nothing was collected")
            draft.add(key.hex(), stored)
