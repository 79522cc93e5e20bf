"""What no checkpoint can hold, and closed files, which it can: `with open(...) as file` leaves one behind each time."""

import io
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

_REFUSED = {
    ("_io", "_IOBase"): "an open file can't be kept; close it, or delete the variable",
    ("_thread", "lock"): "a lock can't be kept",
    ("_thread", "RLock"): "a lock can't be kept",
    ("threading", "Thread"): "a thread can't be kept",
    ("builtins", "generator"): "a generator can't be kept in the middle of its run; make a list of it",
    ("builtins", "coroutine"): "a coroutine can't be kept in the middle of its run",
    ("builtins", "async_generator"): "a generator can't be kept in the middle of its run",
    ("builtins", "memoryview"): "a memoryview would come back as bytes; make bytes of it yourself",
    ("_csv", "reader"): "a csv reader can't be kept in the middle of its file; make a list of it and delete it",
    ("socket", "socket"): "a socket can't be kept; close and delete it",
    ("sqlite3", "Connection"): "a database connection can't be kept; close and delete it",
    ("sqlite3", "Cursor"): "a database cursor can't be kept; fetch its rows and delete it",
    ("subprocess", "Popen"): "a process can't be kept; wait for it and delete it",
    ("mmap", "mmap"): "mapped memory can't be kept; copy it",
    ("numpy", "memmap"): "an array mapped to a file can't be kept; copy it into an array",
}
_KEPT = (io.StringIO, io.BytesIO)
_FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO)


def reason_against(kind: type) -> str:
    """Why no object of this type can be kept; empty when nothing is known against it."""
    if kind in _KEPT:
        return ""
    marks = ((parent.__module__, parent.__qualname__) for parent in kind.__mro__)
    return next((_REFUSED[mark] for mark in marks if mark in _REFUSED), "")


def reduce_refused(value: Any, reason: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How to write those that can be kept after all: the standard streams by name, closed files as closed files.

    Raises: pickle.PicklingError with `reason` for all others.
    """
    for name in ("stdout", "stderr"):
        if value is getattr(sys, name):
            return getattr, (sys, name)
    if type(value) in _FILES and value.closed:
        return _closed_file, (value.name, value.mode, getattr(value, "encoding", None), type(value) is io.FileIO)
    raise pickle.PicklingError(reason)


def _closed_file(name: Any, mode: str, encoding: str | None, unbuffered: bool) -> Any:
    """A closed file that shows the name and mode of the one that was kept."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    file = open(descriptor, mode, buffering=0 if unbuffered else -1, encoding=encoding)  # noqa: PTH123, SIM115
    raw: Any = file
    while not isinstance(raw, io.FileIO):
        raw = raw.raw if hasattr(raw, "raw") else raw.buffer
    raw.name = name
    file.close()
    return file
