"""A workspace folder into blobs, and back out of them.

Everything goes through descriptors of folders opened without following links, so that no name leads out of the
workspace, whatever an agent puts there. Kept are bytes, permission bits, names and link targets; owners, times,
extended attributes and hard links between files are not.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from veristate.core import InputError, TamperError
from veristate.store.blobs import Blobs
from veristate.store.files import disk, write_all
from veristate.store.trees import FileEntry, FolderEntry, LinkEntry, Tree, TreeEntry

DEPTH_UPPER = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def capture(blobs: Blobs, folder: Path) -> str:
    """The digest of the tree that `folder` holds; all of it is on the disk when this returns.

    Raises: InputError naming what can't be kept: sockets, FIFOs, devices, other file systems, too deep a folder.
    """
    refused: list[str] = []
    with _opened(folder) as descriptor:
        device = os.fstat(descriptor).st_dev
        tree = _capture(blobs, descriptor, folder, device=device, refused=refused, depth=0)
    if refused:
        raise InputError(f"a snapshot can't hold {', '.join(refused)}; remove them from the workspace")
    return tree


def build(blobs: Blobs, tree: str, folder: Path) -> None:
    """Returns when `folder`, which must not exist, holds the tree and is on the disk.

    Raises: InputError when the store lacks the tree; TamperError when a part is damaged, missing or leads outside.
    """
    root = Tree.from_bytes(blobs.get(tree), tree)
    with disk(folder):
        folder.mkdir(0o700)
    with _opened(folder) as descriptor:
        _fill(blobs, root, descriptor, folder, depth=0)


def check(blobs: Blobs, tree: str) -> None:
    """Returns when the tree and all that it names is in the store and whole. Raises: as `build`."""
    _check(blobs, tree, depth=0)


def remove(folder: Path) -> None:
    """Returns when `folder` and all that is in it is gone, write-protected folders too; links are not followed."""
    with disk(folder):
        with _opened(folder) as descriptor:
            _empty(descriptor, folder)
        folder.rmdir()


def _capture(blobs: Blobs, descriptor: int, where: Path, *, device: int, refused: list[str], depth: int) -> str:
    if depth > DEPTH_UPPER:
        raise InputError(f"a snapshot can't hold folders nested deeper than {DEPTH_UPPER}: {where}")
    status = os.fstat(descriptor)
    if status.st_dev != device:
        refused.append(f"{where} (another file system)")
    entries: list[TreeEntry] = []
    for name in sorted(os.fsencode(entry) for entry in os.listdir(descriptor)):
        path = where / os.fsdecode(name)
        with disk(path):
            mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                entries.append(LinkEntry(name=name, target=os.readlink(name, dir_fd=descriptor)))
            elif stat.S_ISREG(mode):
                entries.append(_capture_file(blobs, name, descriptor, path))
            elif stat.S_ISDIR(mode):
                with _opened(path, name, descriptor) as inner:
                    tree = _capture(blobs, inner, path, device=device, refused=refused, depth=depth + 1)
                entries.append(FolderEntry(name=name, tree=tree))
            else:
                refused.append(f"{path} ({_kind(mode)})")
    return blobs.put(Tree(mode=stat.S_IMODE(status.st_mode), entries=tuple(entries)).to_bytes())


def _capture_file(blobs: Blobs, name: bytes, descriptor: int, path: Path) -> FileEntry:
    with open(os.open(name, _READ, dir_fd=descriptor), "rb") as source:  # noqa: PTH123 - of a descriptor
        mode = os.fstat(source.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} changed its kind while it was read; nobody may write during a snapshot")
        blob, size = blobs.put_stream(source)
    return FileEntry(name=name, mode=stat.S_IMODE(mode), size=size, blob=blob)


def _fill(blobs: Blobs, tree: Tree, descriptor: int, where: Path, *, depth: int) -> None:
    if depth > DEPTH_UPPER:
        raise TamperError(f"a tree nested deeper than {DEPTH_UPPER} was not made by a snapshot: {where}")
    for entry in tree.entries:
        path = where / os.fsdecode(entry.name)
        with disk(path):
            match entry:
                case FileEntry():
                    _write_file(blobs, entry, descriptor)
                case LinkEntry():
                    os.symlink(entry.target, entry.name, dir_fd=descriptor)
                case FolderEntry():
                    inner_tree = Tree.from_bytes(_present(blobs, entry.tree), entry.tree)
                    os.mkdir(entry.name, 0o700, dir_fd=descriptor)
                    with _opened(path, entry.name, descriptor) as inner:
                        _fill(blobs, inner_tree, inner, path, depth=depth + 1)
    with disk(where):
        # Last, for a folder without write permission could not have been filled.
        os.fchmod(descriptor, tree.mode)
        os.fsync(descriptor)


def _write_file(blobs: Blobs, entry: FileEntry, descriptor: int) -> None:
    target = os.open(entry.name, _WRITE, 0o600, dir_fd=descriptor)
    try:
        size = 0
        for piece in _pieces(blobs, entry):
            write_all(target, piece)
            size += len(piece)
        if size != entry.size:
            raise TamperError(f"{entry.name!r} has {size} bytes, its tree says {entry.size}")
        os.fchmod(target, entry.mode)
        os.fsync(target)
    finally:
        os.close(target)


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
