"""A workspace folder into blobs; `building` is the way back.

Everything goes through descriptors of folders opened without following links, so that no name leads out of the
workspace, whatever an agent puts there. Kept are bytes, permission bits, names and link targets; owners, times,
extended attributes and hard links between files are not.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from veristate.core import InputError
from veristate.store.batch import Batch
from veristate.store.files import disk, refused
from veristate.store.seen import Seen
from veristate.store.trees import FileEntry, FolderEntry, LinkEntry, Tree, TreeEntry

DEPTH_UPPER = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


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
    with opened(folder) as descriptor:
        walk = _Walk(batch=batch, seen=seen, device=os.fstat(descriptor).st_dev, refused=[])
        tree = _capture(walk, descriptor, folder, depth=0)
    if walk.refused:
        raise InputError(f"a snapshot can't hold {', '.join(walk.refused)}; remove them from the workspace")
    return tree


def remove(folder: Path) -> None:
    """Returns when `folder` and all that is in it is gone, write-protected folders too; links are not followed."""
    with disk(folder):
        with opened(folder) as descriptor:
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
                with opened(path, name, descriptor) as inner:
                    entries.append(FolderEntry(name=name, tree=_capture(walk, inner, path, depth=depth + 1)))
            else:
                walk.refused.append(f"{where / os.fsdecode(name)} ({_kind(mode)})")
        except OSError as error:
            raise refused(where / os.fsdecode(name), error) from error
    return walk.batch.put(Tree(mode=stat.S_IMODE(status.st_mode), entries=tuple(entries)).to_bytes())


def _known(walk: _Walk, name: bytes, status: os.stat_result) -> FileEntry | None:
    """The entry of a file that holds what it held; None when it must be read."""
    blob = walk.seen.blob(status) if walk.seen is not None else None
    if blob is None or not walk.batch.has_content(blob, status.st_size):
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


def _empty(descriptor: int, where: Path) -> None:
    os.fchmod(descriptor, 0o700)
    for name in os.listdir(descriptor):
        if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            path = where / name
            with opened(path, os.fsencode(name), descriptor) as inner:
                _empty(inner, path)
            os.rmdir(name, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)


@contextmanager
def opened(path: Path, name: bytes | None = None, parent: int | None = None) -> Iterator[int]:
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
