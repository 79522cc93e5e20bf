"""Writing that survives: a file is there whole or not at all, and trouble with the disk says what to do."""

import ctypes
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from veristate.core import EnvironmentUnusableError

_ADVICE = {
    errno.EACCES: "give this user permission there, or choose another place",
    errno.EPERM: "give this user permission there, or choose another place",
    errno.EROFS: "it is mounted read-only; mount it writable, or choose another place",
    errno.ENOSPC: "free some space on that disk and run again",
    errno.EDQUOT: "free some space or raise the quota, and run again",
}


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """A block in which the file system's errors become ours, naming `path`.

    Raises: EnvironmentUnusableError for any OSError.
    """
    try:
        yield
    except OSError as error:
        raise refused(path, error) from error


def refused(path: Path, error: OSError) -> EnvironmentUnusableError:
    """Our error for one of the file system's, naming `path` and what to do."""
    advice = _ADVICE.get(error.errno or 0, "see to the disk and run again")
    return EnvironmentUnusableError(f"{path}: {error.strerror or error}; {advice}")


_LIBC = ctypes.CDLL(None, use_errno=True)
_WAIT_BEFORE, _WRITE = 1, 2


def sync_all(folder: Path) -> None:
    """Returns when everything written on the file system of `folder` is on the disk: one wait for any number of files.

    Source: syncfs(2).
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if getattr(_LIBC, "syncfs", None) is None:
            os.sync()
        elif _LIBC.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def start_writing_back(descriptor: int) -> bool:
    """Whether the dirty pages of this file are on their way to the disk: a write through a mapping, made after this,
    changes the file's time of change, which it need not do while the page is dirty already.

    Source: sync_file_range(2).
    """
    call = getattr(_LIBC, "sync_file_range", None)
    if call is None:
        return False
    zero = ctypes.c_longlong(0)
    return bool(call(descriptor, zero, zero, _WAIT_BEFORE | _WRITE) == 0)


def sync_folder(folder: Path) -> None:
    """Returns when the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Returns when all of `data` is written; the system may take it in parts."""
    done = os.write(descriptor, data)
    while done < len(data):
        done += os.write(descriptor, memoryview(data)[done:])


def write_whole(target: Path, data: bytes, *, temporary: Path) -> None:
    """Returns when `target` holds `data` and would after a power cut; before that `target` is as it was.

    `temporary` is a folder of the same file system. Whoever writes there holds a shared lock on it, so that
    `remove_dead` never takes the file of a living process.

    Raises: EnvironmentUnusableError when the disk refuses.
    """
    with disk(target), writing(temporary):
        draft = temporary / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            draft.rename(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
        sync_folder(target.parent)


def remove_dead(temporary: Path) -> int:
    """How many files of dead writers were removed from `temporary`: none while any process is writing there."""
    try:
        with disk(temporary), _locked(temporary, fcntl.LOCK_EX | fcntl.LOCK_NB):
            drafts = list(temporary.iterdir())
            for draft in drafts:
                draft.unlink(missing_ok=True)
    except EnvironmentUnusableError as error:
        if isinstance(error.__cause__, BlockingIOError):
            return 0
        raise
    return len(drafts)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """A block in which no other `locked_folder` of the same folder runs, in this process or another; it waits."""
    with disk(folder), _locked(folder, fcntl.LOCK_EX):
        yield


@contextmanager
def writing(temporary: Path) -> Iterator[None]:
    """A block in which drafts may lie in `temporary`, and nothing that is in the store is collected."""
    with _locked(temporary, fcntl.LOCK_SH):
        yield


@contextmanager
def no_writer(temporary: Path) -> Iterator[None]:
    """A block in which nobody writes into the store; it waits for those who do."""
    with _locked(temporary, fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """A block under a flock on the folder itself. It dies with the process, so a kill leaves nothing to clear."""
    with disk(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with disk(folder):
            fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
