"""Opening a file where untrusted code writes: in its place may lie a link to anything, a pipe without end, a device."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def regular_file(path: Path) -> Iterator[BinaryIO]:
    """The file of that name, to read. Raises: OSError when there is none, or what is there is no regular file."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(opened, "rb", closefd=False) as source:
            yield source
    finally:
        os.close(opened)
