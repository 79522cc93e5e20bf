"""Opening a file where untrusted code writes: in its place may lie a link to anything, a pipe without end, a device.

A folder in which it writes is opened once, before that code runs, and named by its descriptor: a link that is put in
its place later leads nowhere.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def regular_file(path: Path | str, *, folder: int | None = None) -> Iterator[BinaryIO]:
    """The file of that name, in the folder of that descriptor, to read.

    Raises: OSError when there is none, or what is there is no regular file.
    """
    opened = os.open(path, os.O_RDONLY | _SAFE, dir_fd=folder)
    try:
        _must_be_regular(opened, path)
        with os.fdopen(opened, "rb", closefd=False) as source:
            yield source
    finally:
        os.close(opened)


def output_file(path: Path | str, *, append: bool = False, folder: int | None = None) -> int:
    """The descriptor of a regular file of that name, to write; made where there is none, else emptied or appended to.

    Raises: OSError when what is there is no regular file.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)
    opened = os.open(path, flags | _SAFE, 0o644, dir_fd=folder)
    try:
        _must_be_regular(opened, path)
        if not append:
            os.truncate(opened, 0)
    except BaseException:
        os.close(opened)
        raise
    return opened


def write_text(path: Path | str, text: str, *, append: bool = False, folder: int | None = None) -> None:
    """Returns when the regular file of that name holds the text, or ends with it. Raises: OSError as `output_file`."""
    with os.fdopen(output_file(path, append=append, folder=folder), "wb") as target:
        target.write(text.encode("utf-8", "backslashreplace"))


def _must_be_regular(opened: int, path: Path | str) -> None:
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
