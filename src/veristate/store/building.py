"""Blobs back into a folder: what a snapshot kept, staged where nobody else writes.

Files are written by a few threads, in portions: creating, hashing and writing one leaves the interpreter free for the
others. The walk writes portions too when its helpers have enough to do, so that little is open or waiting at any time.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from veristate.core import InputError, TamperError
from veristate.store.blobs import Blobs
from veristate.store.files import disk, refused, write_all
from veristate.store.seen import Seen
from veristate.store.trees import FileEntry, FolderEntry, LinkEntry, Tree
from veristate.store.workspace import DEPTH_UPPER, opened

_HELPERS = 2
_PORTION = 2**18
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def build(blobs: Blobs, tree: str, folder: Path, seen: Seen | None = None) -> None:
    """Returns when `folder`, which must not exist, holds the tree. `seen` learns what its files hold.

    Raises: InputError when the store lacks the tree; TamperError when a part is damaged, missing or leads outside.
    """
    root = Tree.from_bytes(blobs.get(tree), tree)
    with disk(folder):
        folder.mkdir(0o700)
    # The helpers have ended when this block has, also by an error: nobody writes in a folder that is taken away.
    with opened(folder) as descriptor, ThreadPoolExecutor(max_workers=_HELPERS) as helpers:
        _fill(_Building(blobs=blobs, seen=seen, helpers=helpers), root, descriptor, folder, depth=0)


def check(blobs: Blobs, tree: str) -> None:
    """Returns when the tree and all that it names is in the store and whole. Raises: as `build`."""
    _check(blobs, tree, depth=0)


@dataclass(slots=True, kw_only=True)
class _Building:
    """One build on its way, and the portions that helpers have not been seen to end."""

    blobs: Blobs
    seen: Seen | None
    helpers: ThreadPoolExecutor
    given: list[Future[None]] = field(default_factory=list)

    def write(self, entries: Sequence[FileEntry], descriptor: int, where: Path) -> None:
        """Returns when the files are written, or given to a helper with a descriptor of its own."""
        for portion in [each for each in self.given if each.done()]:
            self.given.remove(portion)
            portion.result()
        if len(self.given) > _HELPERS:
            _write_files(self, entries, descriptor, where)
        else:
            self.given.append(self.helpers.submit(_write_beside, self, entries, os.dup(descriptor), where))

    def wait(self) -> None:
        """Returns when all that was given is written. Raises: what went wrong in it."""
        while self.given:
            self.given.pop().result()


def _fill(building: _Building, tree: Tree, descriptor: int, where: Path, *, depth: int) -> None:
    if depth > DEPTH_UPPER:
        raise TamperError(f"a tree nested deeper than {DEPTH_UPPER} was not made by a snapshot: {where}")
    for portion in _portions(tree):
        building.write(portion, descriptor, where)
    for entry in tree.entries:
        if isinstance(entry, LinkEntry):
            with disk(where / os.fsdecode(entry.name)):
                os.symlink(entry.target, entry.name, dir_fd=descriptor)
        elif isinstance(entry, FolderEntry):
            path = where / os.fsdecode(entry.name)
            inner_tree = Tree.from_bytes(_present(building.blobs, entry.tree), entry.tree)
            with disk(path):
                os.mkdir(entry.name, 0o700, dir_fd=descriptor)
                with opened(path, entry.name, descriptor) as inner:
                    _fill(building, inner_tree, inner, path, depth=depth + 1)
    if depth == 0 or tree.mode & ~0o077 != 0o700:
        # The first folder keeps everybody else out until all is there. One without write permission can't be filled,
        # and one that hands on its group is not to yet.
        building.wait()
    with disk(where):
        os.fchmod(descriptor, tree.mode)


def _portions(tree: Tree) -> Iterator[list[FileEntry]]:
    """The files of one folder, those that make up `_PORTION` bytes together; a file counts as no less than a page."""
    before = 0

    def number(entry: FileEntry) -> int:
        nonlocal before
        before += max(entry.size, 2**12)
        return before // _PORTION

    files = [entry for entry in tree.entries if isinstance(entry, FileEntry)]
    return (list(portion) for _, portion in groupby(files, number))


def _write_beside(building: _Building, entries: Sequence[FileEntry], descriptor: int, where: Path) -> None:
    try:
        _write_files(building, entries, descriptor, where)
    finally:
        os.close(descriptor)


def _write_files(building: _Building, entries: Sequence[FileEntry], descriptor: int, where: Path) -> None:
    for entry in entries:
        try:
            target = os.open(entry.name, _WRITE, entry.mode & 0o777, dir_fd=descriptor)
            try:
                _write_content(building.blobs, entry, target)
                status = os.fstat(target)
                if stat.S_IMODE(status.st_mode) != entry.mode:
                    os.fchmod(target, entry.mode)
                    status = os.fstat(target)
                if building.seen is not None:
                    building.seen.expect(status, entry.blob)
            finally:
                os.close(target)
        except OSError as error:
            raise refused(where / os.fsdecode(entry.name), error) from error


def _write_content(blobs: Blobs, entry: FileEntry, target: int) -> None:
    """Returns when the file holds the blob, verified by the hash of the whole."""
    size, whole = 0, hashlib.sha256()
    try:
        for piece in blobs.unverified(entry.blob):
            whole.update(piece)
            write_all(target, piece)
            size += len(piece)
    except InputError as error:
        raise _missing(entry) from error
    if whole.hexdigest() != entry.blob:
        _verified_size(blobs, entry.blob)  # says which part of it is damaged
        raise TamperError(f"{entry.name!r} was read with bytes that are not those of {entry.blob}")
    if size != entry.size:
        raise TamperError(f"{entry.name!r} has {size} bytes, its tree says {entry.size}")


def _missing(entry: FileEntry) -> TamperError:
    return TamperError(f"{entry.name!r} of a tree needs blob {entry.blob}, which is missing; run fsck")


def _present(blobs: Blobs, tree: str) -> bytes:
    if not blobs.has(tree):
        raise TamperError(f"a tree needs tree {tree}, which is missing; run fsck")
    return blobs.get(tree)


def _check(blobs: Blobs, tree: str, *, depth: int) -> None:
    if depth > DEPTH_UPPER:
        raise TamperError(f"tree {tree} is nested deeper than {DEPTH_UPPER}")
    for entry in Tree.from_bytes(_present(blobs, tree), tree).entries:
        if isinstance(entry, FolderEntry):
            _check(blobs, entry.tree, depth=depth + 1)
        elif isinstance(entry, FileEntry):
            if not blobs.has(entry.blob):
                raise _missing(entry)
            if _verified_size(blobs, entry.blob) != entry.size:
                raise TamperError(f"{entry.name!r} in tree {tree} has not the size that the tree says")


def _verified_size(blobs: Blobs, name: str) -> int:
    """Bytes of the content. Raises: as `Blobs.get`, naming the part that is damaged."""
    return sum(len(piece) for piece in blobs.pieces(name))
