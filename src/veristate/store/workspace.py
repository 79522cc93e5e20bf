"""A workspace folder into blobs, and back out of them.

Everything goes through descriptors of folders opened without following links, so that no name leads out of the
workspace, whatever an agent puts there. Kept are bytes, permission bits, names and link targets; owners, times,
extended attributes and hard links between files are not.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from veristate.core import InputError, TamperError
from veristate.store.batch import Batch
from veristate.store.blobs import Blobs
from veristate.store.files import disk, refused, write_all
from veristate.store.seen import Seen
from veristate.store.trees import FileEntry, FolderEntry, LinkEntry, Tree, TreeEntry

DEPTH_UPPER = 200
_LARGE = 2**18
_WRITERS = 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One capture on its way: where blobs go, what was seen last, the file system, what can't be kept."""

    batch: Batch
    seen: Seen | None
    device: int
    refused: list[str]


def capture(batch: Batch, folder: Path, seen: Seen | None = None) -> str:
    """The digest of the tree that `folder` holds; all of it is on the disk when the batch has ended.

    Files that `seen` knows by their status are not read again.

    Raises: InputError naming what can't be kept: sockets, FIFOs, devices, other file systems, too deep a folder.
    """
    with _opened(folder) as descriptor:
        walk = _Walk(batch=batch, seen=seen, device=os.fstat(descriptor).st_dev, refused=[])
        tree = _capture(walk, descriptor, folder, depth=0)
    if walk.refused:
        raise InputError(f"a snapshot can't hold {', '.join(walk.refused)}; remove them from the workspace")
    return tree


def build(blobs: Blobs, tree: str, folder: Path, seen: Seen | None = None) -> None:
    """Returns when `folder`, which must not exist, holds the tree. `seen` learns what its files hold.

    Raises: InputError when the store lacks the tree; TamperError when a part is damaged, missing or leads outside.
    """
    root = Tree.from_bytes(blobs.get(tree), tree)
    with disk(folder):
        folder.mkdir(0o700)
    with _opened(folder) as descriptor, ThreadPoolExecutor(max_workers=_WRITERS) as beside:
        _fill(_Building(blobs=blobs, seen=seen, beside=beside), root, descriptor, folder, depth=0)


def check(blobs: Blobs, tree: str) -> None:
    """Returns when the tree and all that it names is in the store and whole. Raises: as `build`."""
    _check(blobs, tree, depth=0)


def remove(folder: Path) -> None:
    """Returns when `folder` and all that is in it is gone, write-protected folders too; links are not followed."""
    with disk(folder):
        with _opened(folder) as descriptor:
            _empty(descriptor, folder)
        folder.rmdir()


def _capture(walk: _Walk, descriptor: int, where: Path, *, depth: int) -> str:
    if depth > DEPTH_UPPER:
        raise InputError(f"a snapshot can't hold folders nested deeper than {DEPTH_UPPER}: {where}")
    status = os.fstat(descriptor)
    if status.st_dev != walk.device:
        walk.refused.append(f"{where} (another file system)")
    entries: list[TreeEntry] = []
    for name in sorted(os.fsencode(entry) for entry in os.listdir(descriptor)):
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            mode = found.st_mode
            if stat.S_ISREG(mode):
                entries.append(_known(walk, name, found) or _capture_file(walk, name, descriptor, where))
            elif stat.S_ISLNK(mode):
                entries.append(LinkEntry(name=name, target=os.readlink(name, dir_fd=descriptor)))
            elif stat.S_ISDIR(mode):
                path = where / os.fsdecode(name)
                with _opened(path, name, descriptor) as inner:
                    entries.append(FolderEntry(name=name, tree=_capture(walk, inner, path, depth=depth + 1)))
            else:
                walk.refused.append(f"{where / os.fsdecode(name)} ({_kind(mode)})")
        except OSError as error:
            raise refused(where / os.fsdecode(name), error) from error
    return walk.batch.put(Tree(mode=stat.S_IMODE(status.st_mode), entries=tuple(entries)).to_bytes())


def _known(walk: _Walk, name: bytes, status: os.stat_result) -> FileEntry | None:
    """The entry of a file that holds what it held; None when it must be read."""
    blob = walk.seen.blob(status) if walk.seen is not None else None
    if blob is None or not walk.batch.has(blob):
        return None
    return FileEntry(name=name, mode=stat.S_IMODE(status.st_mode), size=status.st_size, blob=blob)


def _capture_file(walk: _Walk, name: bytes, descriptor: int, where: Path) -> FileEntry:
    with open(os.open(name, _READ, dir_fd=descriptor), "rb", buffering=0) as source:  # noqa: PTH123 - of a descriptor
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            path = where / os.fsdecode(name)
            raise InputError(f"{path} changed its kind while it was read; nobody may write during a snapshot")
        moment = walk.seen.reading(source.fileno()) if walk.seen is not None else 0
        blob, size = walk.batch.put_stream(source)
        if walk.seen is not None and size == status.st_size:
            walk.seen.remember(status, blob, moment)
    return FileEntry(name=name, mode=stat.S_IMODE(status.st_mode), size=size, blob=blob)


@dataclass(slots=True, kw_only=True)
class _Building:
    """One build on its way. Large files are written `beside` the walk."""

    blobs: Blobs
    seen: Seen | None
    beside: ThreadPoolExecutor


def _fill(building: _Building, tree: Tree, descriptor: int, where: Path, *, depth: int) -> None:
    if depth > DEPTH_UPPER:
        raise TamperError(f"a tree nested deeper than {DEPTH_UPPER} was not made by a snapshot: {where}")
    large = []
    for entry in tree.entries:
        match entry:
            case FileEntry() if entry.size > _LARGE:
                large.append(entry)
            case FileEntry():
                _write_file(building, entry, descriptor, where)
            case LinkEntry():
                with disk(where / os.fsdecode(entry.name)):
                    os.symlink(entry.target, entry.name, dir_fd=descriptor)
            case FolderEntry():
                path = where / os.fsdecode(entry.name)
                inner_tree = Tree.from_bytes(_present(building.blobs, entry.tree), entry.tree)
                with disk(path):
                    os.mkdir(entry.name, 0o700, dir_fd=descriptor)
                    with _opened(path, entry.name, descriptor) as inner:
                        _fill(building, inner_tree, inner, path, depth=depth + 1)
    # All of them have ended when one has failed: nobody writes in a folder that is closed, or taken away.
    for done in wait([building.beside.submit(_write_file, building, each, descriptor, where) for each in large]).done:
        done.result()
    with disk(where):
        # Last, for a folder without write permission could not have been filled.
        os.fchmod(descriptor, tree.mode)


def _write_file(building: _Building, entry: FileEntry, descriptor: int, where: Path) -> None:
    with disk(where / os.fsdecode(entry.name)):
        target = os.open(entry.name, _WRITE, 0o600, dir_fd=descriptor)
        try:
            size, whole = 0, hashlib.sha256()
            for piece in _unverified(building.blobs, entry):
                whole.update(piece)
                write_all(target, piece)
                size += len(piece)
            if whole.hexdigest() != entry.blob:
                for _ in _pieces(building.blobs, entry):
                    pass  # says which part of it is damaged
                raise TamperError(f"{entry.name!r} was read with bytes that are not those of {entry.blob}")
            if size != entry.size:
                raise TamperError(f"{entry.name!r} has {size} bytes, its tree says {entry.size}")
            os.fchmod(target, entry.mode)
            if building.seen is not None:
                building.seen.expect(os.fstat(target), entry.blob)
        finally:
            os.close(target)


def _unverified(blobs: Blobs, entry: FileEntry) -> Iterator[bytes]:
    if not blobs.has(entry.blob):
        raise TamperError(f"{entry.name!r} of a tree needs blob {entry.blob}, which is missing; run fsck")
    return blobs.pieces(entry.blob, verified=False)


def _pieces(blobs: Blobs, entry: FileEntry) -> Iterator[bytes]:
    if not blobs.has(entry.blob):
        raise TamperError(f"{entry.name!r} of a tree needs blob {entry.blob}, which is missing; run fsck")
    return blobs.pieces(entry.blob)


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
        elif isinstance(entry, FileEntry) and sum(len(piece) for piece in _pieces(blobs, entry)) != entry.size:
            raise TamperError(f"{entry.name!r} in tree {tree} has not the size that the tree says")


def _empty(descriptor: int, where: Path) -> None:
    os.fchmod(descriptor, 0o700)
    for name in os.listdir(descriptor):
        if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            path = where / name
            with _opened(path, os.fsencode(name), descriptor) as inner:
                _empty(inner, path)
            os.rmdir(name, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)


@contextmanager
def _opened(path: Path, name: bytes | None = None, parent: int | None = None) -> Iterator[int]:
    """A descriptor of the folder `name` in the folder `parent`, or of `path` when that is all there is."""
    with disk(path):
        if name is None and (path.is_symlink() or not path.is_dir()):
            raise InputError(f"not a folder, or a link to one: {path}")
        descriptor = os.open(path if name is None else name, _FOLDER, dir_fd=parent)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _kind(mode: int) -> str:
    return "FIFO" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
