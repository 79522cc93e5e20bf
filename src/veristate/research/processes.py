"""Processes that end whole: started in a session of their own, watched, paused, ended with all that they started.

Output goes to a file, so nobody who holds a pipe can keep us waiting. Every process carries the campaign's mark in its
environment; the mark finds those that left the session, also after the engine that started them was killed.
"""

import ctypes
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristate.core import EnvironmentUnusableError

MARK = "VERISTATE_CAMPAIGN"
OUTPUT_UPPER = 16 * 2**20
_TICKS = os.sysconf("SC_CLK_TCK")
_SWEEPS = 200
_NUMBERS = itertools.count(1)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A process to start. `environment` is all it gets, beside the mark; `output` is appended to.

    `writable` and `readable` are the folders it needs, `network` whether it may use one: a sandbox holds it to that.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    output: Path
    mark: str
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    network: bool = False
    memory_bytes: int | None = None


Confine = Callable[[Launch], Launch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: its exit code (negative: the signal), and the processor time of the whole tree."""

    code: int
    cpu_s: float

    def words(self) -> str:
        """The end in words."""
        if self.code >= 0:
            return f"ended with exit status {self.code}"
        with suppress(ValueError):
            return f"ended by {signal.Signals(-self.code).name}"
        return f"ended by signal {-self.code}"


class Running:
    """One started process and its tree. Made by `start`; `end` must be called."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._capture = os.open(launch.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._mark = f"{launch.mark}/{next(_NUMBERS)}"
        environment = dict(launch.environment) | {MARK: self._mark}
        try:
            self._process = subprocess.Popen(
                launch.argv,
                cwd=launch.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._capture,
                stderr=self._capture,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._capture)
            raise EnvironmentUnusableError(
                f"{launch.argv[0]} can't be started: {error.strerror or error}; is it installed and on PATH?"
            ) from error
        self.pid = self._process.pid
        self._born = int((_stat(self.pid) or [b"0"] * 20)[19])
        self._exit: tuple[int, float] | None = None

    def poll(self) -> int | None:
        """The leader's exit code once it ended; its descendants may still run. Output beyond 16 MiB is cut."""
        with suppress(OSError):
            if os.fstat(self._capture).st_size > OUTPUT_UPPER:
                os.ftruncate(self._capture, 0)
        if self._exit is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._process.returncode = code
                self._exit = (code, usage.ru_utime + usage.ru_stime)
        return None if self._exit is None else self._exit[0]

    def cpu_s(self) -> float:
        """The processor time of the tree so far, as far as it can be seen."""
        ended = self._exit[1] if self._exit else 0.0
        return ended + sum(_cpu_s(pid) for pid in self._members())

    def pause(self) -> None:
        """Returns when every process of the tree is stopped: nobody writes in the workspace."""
        for _ in range(3):  # one may be starting another
            for pid in self._members():
                _send(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Returns when they run again."""
        for pid in self._members():
            _send(pid, signal.SIGCONT)

    def end(self, *, grace_s: float = 0.0) -> Ended:
        """How it ended. It is asked (SIGTERM) where there is a grace, then all of it is killed."""
        if self.poll() is None and grace_s > 0:
            for pid in self._members():
                _send(pid, signal.SIGTERM)
            last = time.monotonic() + grace_s
            while self.poll() is None and time.monotonic() < last:
                time.sleep(0.01)
        members = self._members()
        others = sum(_cpu_s(pid) for pid in members if pid != self.pid)
        for pid in members:
            _send(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10.0
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        kill_all(self._members)
        with suppress(OSError):
            os.close(self._capture)
        code, cpu_s = self._exit or (-signal.SIGKILL, 0.0)
        return Ended(code=code, cpu_s=cpu_s + others)

    def _members(self) -> set[int]:
        return set(_tree(self.pid, self._mark, self._born))


def start(launch: Launch) -> Running:
    """The process, running. Raises: EnvironmentUnusableError when there is no such program."""
    return Running(launch)


def die_with_parent() -> None:
    """Returns when this process will be killed as soon as its parent dies. Called by our own hosts as they start."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def reap(mark: str) -> int:
    """How many processes of an earlier engine were found by the beginning of their mark, and killed."""
    return kill_all(lambda: set(_marked(mark)))


def kill_all(members: Callable[[], set[int]]) -> int:
    """How many processes were killed until none of `members` was left."""
    killed: set[int] = set()
    for _ in range(_SWEEPS):
        found = members() - {os.getpid()}
        if not found:
            break
        for pid in found:
            _send(pid, signal.SIGKILL)
        killed |= found
        time.sleep(0.002)
    return len(killed)


def tail(output: Path, characters: int = 1500) -> str:
    """The end of what was printed."""
    try:
        with output.open("rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - 4 * characters))
            return source.read().decode("utf-8", "replace").strip()[-characters:]
    except OSError:
        return ""


def _send(pid: int, which: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, which)


def _tree(leader: int, mark: str, since: int) -> Iterator[int]:
    """The living processes of the session, and those that carry the mark; none of them is older than the leader."""
    for pid, session, born in _living():
        if pid == leader or session == leader or (born >= since and _carries(pid, mark, exactly=True)):
            yield pid


def _marked(mark: str) -> Iterator[int]:
    for pid, _, _ in _living():
        if _carries(pid, mark, exactly=False):
            yield pid


def _living() -> Iterator[tuple[int, int, int]]:
    """Every living process with its session and when it was born, in ticks; zombies don't count."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and there are many
        if not name.isdigit():
            continue
        rest = _stat(name)  # empty when it ended while we looked
        if rest and rest[0] not in (b"Z", b"X"):
            yield int(name), int(rest[3]), int(rest[19])


def _carries(pid: int, mark: str, *, exactly: bool) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as source:  # noqa: PTH123 - many a second
            environment = source.readall()
    except OSError:
        return False
    wanted = f"{MARK}={mark}".encode() + (b"\0" if exactly else b"")
    return wanted in environment


def _cpu_s(pid: int) -> float:
    rest = _stat(pid)
    return (int(rest[11]) + int(rest[12])) / _TICKS if rest else 0.0


def _stat(pid: int | str) -> list[bytes]:
    """The fields of a process after its name: state, parent, group, session, ... Empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:  # noqa: PTH123 - many a second
            return source.readall().rpartition(b")")[2].split()
    except OSError:
        return []
