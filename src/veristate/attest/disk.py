"""Writing files of which a stranger reads only whole ones: drafted beside them, forced to the disk, then renamed."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from veristate.core import EnvironmentUnusableError

_ADVICE = {
    errno.EACCES: "give this user permission there, or choose another place",
    errno.EROFS: "it is mounted read-only; mount it writable, or choose another place",
    errno.ENOSPC: "free some space on that disk and run again",
    errno.EDQUOT: "free some space or raise the quota, and run again",
}

_AT_ONCE = 8


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """A block in which the file system's errors become EnvironmentUnusableError, naming `path`."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "see to the disk and run again")
        raise EnvironmentUnusableError(f"{path}: {error.strerror or error}; {advice}") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A block in which nobody else is in such a block of this folder, in this process or another; it waits.

    The lock dies with its process, so a kill leaves nothing to clear.
    """
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with disk(folder):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_whole(target: Path, data: bytes, *, mode: int = 0o644, drafts: Path | None = None) -> None:
    """Returns when `target` holds `data` and would after a power cut; before that it is as it was.

    A killed writer leaves its draft in `drafts`, a folder of the same file system; beside the target when None.
    """
    with disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _draft(data, mode, drafts or target.parent).rename(target)
        sync_folder(target.parent)


def write_all_whole(files: Sequence[tuple[Path, bytes]], *, drafts: Path) -> None:
    """Returns when every file holds its bytes and would after a power cut; each is there whole or as it was.

    The disk is asked for all of them at once: it answers many requests in about the time of one.
    """
    folders: dict[Path, None] = {}
    for target, _ in files:
        with disk(target):
            for folder in _missing_above(target):
                folders[folder.parent] = None
            target.parent.mkdir(parents=True, exist_ok=True)
            folders[target.parent] = None
    with disk(files[0][0]), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        written = list(pool.map(lambda file: _draft(file[1], 0o644, drafts), files))
        for draft, (target, _) in zip(written, files, strict=True):
            draft.rename(target)
        list(pool.map(sync_folder, folders))


def sync_folder(folder: Path) -> None:
    """Returns when the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _missing_above(target: Path) -> list[Path]:
    """The folders that `target` needs and that are not there yet."""
    missing, folder = [], target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _draft(data: bytes, mode: int, drafts: Path) -> Path:
    """A file in `drafts` that holds `data`, forced to the disk."""
    draft = drafts / f".draft-{os.getpid()}-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    return draft
