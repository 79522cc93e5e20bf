"""What the last snapshot of a workspace saw: which blob a file held, by what the file system says of it.

A file with the same device, inode, size and times is taken to hold what it held. That is quick and it is not proof: it
is used where a caller asks for it, never where something is certified. Three things would deceive it, and are met:

* a write within the clock's grain of the reading: a file whose time of change is that young is not remembered;
* a write through a shared mapping, which moves the times only when the page was clean: writing back is started before a
  file is read, and a file system on which even that shows nothing (found by trying) is not remembered at all;
* a power cut, after which sizes and times can be those of content that never reached the disk: nothing is remembered
  over a restart of the machine.
"""

import hashlib
import mmap
import os
import secrets
import struct
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from veristate.store.files import start_writing_back

Key = tuple[int, int, int, int, int]
GRAIN_NS = 50_000_000
_FORMAT = b"veristate-seen/1\n"
_LINE = struct.Struct("<QQQqq32s")


class Seen:
    """The memory of one workspace. `blob` answers from the last snapshot; `remember` is for the next."""

    def __init__(self, path: Path, *, folder: Path) -> None:
        self._path = path
        self._device = os.stat(folder).st_dev  # noqa: PTH116 - a plain number
        self._last = _load(path)
        # What was remembered on this file system since the machine was started was remembered after it was tried.
        self._works = next(iter(self._last), (None,))[0] == self._device or tells_of_writes(folder)
        self._next: dict[Key, bytes] = {}
        self._new: list[tuple[Key, bytes]] = []

    def blob(self, status: os.stat_result) -> str | None:
        """The blob that a file of this status held; None when it must be read."""
        key = key_of(status)
        name = self._last.get(key)
        if name is None:
            return None
        self._next[key] = name
        return name.hex()

    def reading(self, descriptor: int) -> int:
        """The moment before a file is read, for `remember`."""
        if self._works and not start_writing_back(descriptor):
            return 0
        return time.time_ns()

    def remember(self, status: os.stat_result, name: str, moment: int) -> None:
        """Takes in that a file of this status held that blob when it was read, after `moment`."""
        if self._works and status.st_dev == self._device and status.st_ctime_ns + GRAIN_NS < moment:
            self._next[key_of(status)] = bytes.fromhex(name)

    def expect(self, status: os.stat_result, name: str) -> None:
        """Takes in that a file, just written where nobody else writes, holds that blob."""
        self._new.append((key_of(status), bytes.fromhex(name)))

    def settle(self) -> None:
        """Takes in what was expected, but for files so young that a write could still leave their times as they are."""
        moment = time.time_ns()
        if self._works:
            self._next = {key: name for key, name in self._new if key[4] + GRAIN_NS < moment}
        self._new = []

    def save(self) -> None:
        """Returns when the next snapshot will know. Not forced to the disk: losing it costs time and nothing else."""
        if not self._works or (self._next.keys() == self._last.keys() and self._path.exists()):
            return
        lines = b"".join(_LINE.pack(*key, name) for key, name in self._next.items())
        body = _since_start() + lines
        draft = self._path.with_name(f".{secrets.token_hex(8)}")
        with suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            draft.write_bytes(_FORMAT + hashlib.sha256(body).digest() + body)
            draft.rename(self._path)


def key_of(status: os.stat_result) -> Key:
    """What tells one content of a file from another."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def tells_of_writes(folder: Path) -> bool:
    """Whether the file system of `folder` shows a write through a mapping in the file's time of change.

    Tried out with a file without a name, once for each file system.
    """
    return _tells(os.stat(folder).st_dev, folder)  # noqa: PTH116 - a plain number


_TRIED: dict[int, bool] = {}


def _tells(device: int, folder: Path) -> bool:
    if device not in _TRIED:
        try:
            _TRIED[device] = _try(folder)
        except (OSError, ValueError):
            _TRIED[device] = False
    return _TRIED[device]


def _try(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        os.write(descriptor, bytes(mmap.PAGESIZE))
        with mmap.mmap(descriptor, mmap.PAGESIZE) as pages:
            pages[0] = 1
            before = os.fstat(descriptor).st_ctime_ns
            until = time.monotonic_ns() + GRAIN_NS // 2
            while time.monotonic_ns() < until:
                if not start_writing_back(descriptor):
                    return False
                pages[1] ^= 1
                if os.fstat(descriptor).st_ctime_ns > before:
                    return True
                time.sleep(GRAIN_NS / 50e9)
        return False
    finally:
        os.close(descriptor)


@cache
def _since_start() -> bytes:
    """What is the same until the machine is started again."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip().ljust(36)[:36]
    except OSError:
        return secrets.token_hex(18).encode()


def _load(path: Path) -> dict[Key, bytes]:
    with suppress(OSError):
        data = path.read_bytes()
        head = len(_FORMAT) + 32
        start = _since_start()
        body = memoryview(data)[head:]
        if (
            data.startswith(_FORMAT)
            and hashlib.sha256(body).digest() == data[len(_FORMAT) : head]
            and body[: len(start)] == start
        ):
            return {line[:5]: line[5] for line in _LINE.iter_unpack(body[len(start) :])}
    return {}
