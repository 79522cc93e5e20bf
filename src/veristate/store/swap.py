"""Swapping two folders, so that one name is fully the old content or fully the new one at every moment."""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}


def exchange(one: Path, other: Path) -> bool:
    """Whether the two names were exchanged in one step; False when this kernel or file system has no such step.

    Source: renameat2(2), RENAME_EXCHANGE.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))


def swap_in(staged: Path, folder: Path, *, aside: Path) -> Path:
    """Where the old content of `folder` is, once `folder` is what `staged` was.

    Without an exchange there is a moment in which `folder` is nowhere: the old one stands `aside`, whole, and
    `put_back` returns it after a kill.
    """
    if exchange(staged, folder):
        return staged
    folder.rename(aside)
    staged.rename(folder)
    return aside


def put_back(folder: Path, *, aside: Path) -> None:
    """Returns when a `folder` that a killed `swap_in` left aside is in its place again."""
    if not folder.exists() and not folder.is_symlink() and aside.exists():
        aside.rename(folder)
