"""Processes that end whole: each under a keeper that adopts all they start, watched, paused, ended together.

Output goes to a file, so nobody who holds a pipe can keep us waiting. A process is known by its number and when it was
born, and only descendants of our own keepers are ever signalled. Every process also carries the campaign's mark in its
environment: by it the next engine finds what is left when engine and keeper were both killed.
"""

import ctypes
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristate.core import EnvironmentUnusableError
from veristate.research.sandbox import keeper
from veristate.research.sandbox.keeper import KEEPER, below
from veristate.research.untrusted import output_file, regular_file

MARK = "VERISTATE_CAMPAIGN"
OUTPUT_UPPER = 16 * 2**20
_TICKS = os.sysconf("SC_CLK_TCK")
_SWEEPS = 200
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A process to start. `environment` is all it gets, beside the mark; `output` is appended to.

    `writable` and `readable` are the folders it needs, `hidden` what of them it must not see, `network` whether it may
    use one: a sandbox holds it to that. `memory_bytes` is a limit for the tree: no process of it may ask for more by
    itself, and all of them are ended when they hold more together.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    output: Path
    mark: str
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    memory_bytes: int | None = None


Confine = Callable[[Launch], Launch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: its exit code (negative: the signal), and the processor time of the whole tree.

    `memory_bytes` is what the tree held when it was ended for holding more than its limit, else 0.
    """

    code: int
    cpu_s: float
    memory_bytes: int = 0

    def words(self) -> str:
        """The end in words."""
        if self.memory_bytes:
            return f"was ended: its processes held {self.memory_bytes:,} bytes of memory together, more than allowed"
        if self.code >= 0:
            return f"ended with exit status {self.code}"
        with suppress(ValueError):
            return f"ended by {signal.Signals(-self.code).name}"
        return f"ended by signal {-self.code}"


class Running:
    """One started process and its tree. Made by `start`; `end` must be called."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._mark = f"{launch.mark}/{next(_NUMBERS)}"
        self._capture = output_file(launch.output, append=True)
        self._control, others = socket.socketpair()
        try:
            with others:
                self._keeper = self._start(launch, others)
            self.keeper = self._keeper.pid
            self._heard = b""
            self.pid = self._started(launch)
        except BaseException:
            self._control.close()
            os.close(self._capture)
            raise
        self._born = born(self.keeper)
        self._code: int | None = None
        self._memory_bytes = 0

    def poll(self) -> int | None:
        """The command's exit code once it ended; its descendants may still run. Output beyond 16 MiB is cut."""
        with suppress(OSError):
            if os.fstat(self._capture).st_size > OUTPUT_UPPER:
                os.ftruncate(self._capture, 0)
        if self._code is None and self._control.fileno() >= 0:
            self._listen()
        return self._code

    def wait(self, seconds: float) -> int | None:
        """As `poll`, after the command's end or that time, whichever comes first. Costs nothing meanwhile."""
        code = self.poll()
        if code is None:
            select.select([self._control], [], [], seconds)
            code = self.poll()
        return code

    def cpu_s(self) -> float:
        """The processor time of the tree so far, as far as it can be seen."""
        return sum(_cpu_s(pid) for pid in {self.keeper, *below(self.keeper)})

    def pause(self) -> None:
        """Returns when every process of the tree is stopped: nobody writes in the workspace."""
        for _ in range(3):  # one may be starting another
            for pid in below(self.keeper):
                _send(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Returns when they run again."""
        for pid in below(self.keeper):
            _send(pid, signal.SIGCONT)

    def end(self, *, grace_s: float = 0.0) -> Ended:
        """How it ended. It is asked (SIGTERM) where there is a grace, then all of it is killed."""
        if self.poll() is None and grace_s > 0:
            for pid in below(self.keeper):
                _send(pid, signal.SIGTERM)
            last = time.monotonic() + grace_s
            while self.poll() is None and time.monotonic() < last:
                time.sleep(0.01)
        tree = {pid: born(pid) for pid in below(self.keeper)}
        seen_s = self.cpu_s()  # who dies with a sandbox's namespace is reaped there, and its time is told nobody
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)  # the keeper kills them now, and says how the command ended
        code, cpu_s = self._wait(tree)
        self.poll()
        self._control.close()
        if code != 0:  # the keeper itself was killed, so what it kept may be left
            kill_all(lambda: {pid for pid, when in tree.items() if when and born(pid) == when} | self._marked())
        with suppress(OSError):
            os.close(self._capture)
        code = -signal.SIGKILL if self._code is None else self._code
        return Ended(code=code, cpu_s=max(cpu_s, seen_s), memory_bytes=self._memory_bytes)

    def _start(self, launch: Launch, others: socket.socket) -> "subprocess.Popen[bytes]":
        limits = {"RLIMIT_CORE": 0}
        if launch.memory_bytes:
            limits |= {"RLIMIT_DATA": launch.memory_bytes, "tree_bytes": launch.memory_bytes}
        own = (sys.executable, "-I", "-S", keeper.__file__, str(others.fileno()), json.dumps(limits))
        try:
            return subprocess.Popen(
                (*own, *launch.argv),
                cwd=launch.cwd,
                env=dict(launch.environment) | {MARK: self._mark, KEEPER: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=self._capture,
                stderr=self._capture,
                start_new_session=True,
                pass_fds=(others.fileno(),),
            )
        except OSError as error:
            raise EnvironmentUnusableError(f"{launch.cwd}: {error.strerror or error}; see to the folder") from error

    def _started(self, launch: Launch) -> int:
        """The command's process. Raises: EnvironmentUnusableError when there is none."""
        self._control.settimeout(60.0)
        more = b"?"
        with suppress(OSError):
            while b"\n" not in self._heard and (more := self._control.recv(4096)):
                self._heard += more
        self._control.setblocking(False)
        line, _, self._heard = self._heard.partition(b"\n")
        word, _, number = line.partition(b" ")
        if word == b"pid":
            return int(number)
        self._keeper.kill()
        self._keeper.wait()
        if not more:
            for pid in [pid for pid, _ in _living() if _carries(pid, MARK, self._mark, exactly=True)]:
                _send(pid, signal.SIGKILL)  # it may have begun
            raise _KeeperLostError(f"{launch.argv[0]} can't be started: its keeper ended before it could tell")
        said = os.strerror(int(number)) if word == b"error" else "its keeper did not answer"
        raise EnvironmentUnusableError(f"{launch.argv[0]} can't be started: {said}; is it installed and on PATH?")

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            with suppress(ConnectionError):
                while more := self._control.recv(4096):
                    self._heard += more
            self._code = -signal.SIGKILL  # the keeper is dead; what it said before counts
        for line in self._heard.splitlines():
            word, _, number = line.partition(b" ")
            if word == b"exit":
                self._code = int(number)
            elif word == b"memory":
                self._memory_bytes = int(number)

    def _wait(self, tree: Mapping[int, int]) -> tuple[int, float]:
        """The keeper's own exit code, and the processor time of all that it has seen end."""
        deadline = time.monotonic() + keeper.PATIENCE_S
        while True:
            pid, status, usage = os.wait4(self.keeper, os.WNOHANG)
            if pid:
                self._keeper.returncode = os.waitstatus_to_exitcode(status)
                return self._keeper.returncode, usage.ru_utime + usage.ru_stime
            if time.monotonic() > deadline:  # stopped by somebody, perhaps
                for each, when in tree.items():
                    if when and born(each) == when:
                        _send(each, signal.SIGKILL)
                self._keeper.kill()
                deadline = float("inf")
            time.sleep(0.001)

    def _marked(self) -> set[int]:
        """The processes with our own mark, none older than the keeper."""
        return {pid for pid, when in _living() if when >= self._born and _carries(pid, MARK, self._mark, exactly=True)}


class _KeeperLostError(EnvironmentUnusableError):
    """A keeper was killed as it started: nothing is wrong with the machine for that."""


def start(launch: Launch) -> Running:
    """The process, running; tried once more where its keeper was killed as it started.

    Raises: EnvironmentUnusableError when there is no such program.
    """
    try:
        return Running(launch)
    except _KeeperLostError:
        return Running(launch)


def die_with_parent() -> None:
    """Returns when this process will be killed as soon as its parent dies. Called by our own hosts as they start."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(keeper.PR_SET_PDEATHSIG, signal.SIGKILL)


def reap(mark: str) -> int:
    """How many processes of an earlier engine were found by the beginning of their mark, and are gone. Keepers are let
    finish first: they find what has lost its mark.
    """
    kept = {pid for pid, _ in _living() if _carries(pid, KEEPER, mark, exactly=False)}
    trees = {each: born(each) for pid in kept for each in below(pid)}
    ours = set(below(os.getpid())) & kept  # nobody else will end these
    deadline = time.monotonic() + keeper.PATIENCE_S
    waiting = kept - ours
    while waiting and time.monotonic() < deadline:
        time.sleep(0.002)
        waiting = {pid for pid in waiting if _carries(pid, KEEPER, mark, exactly=False)}
    left = {pid for pid, when in trees.items() if when and born(pid) == when}
    return len(kept - waiting - ours) + kill_all(lambda: _with(mark) | {pid for pid in left if born(pid) == trees[pid]})


def _with(mark: str) -> set[int]:
    return {pid for pid, _ in _living() if _carries(pid, MARK, mark, exactly=False)}


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
    """The end of what was printed; nothing when something else was put in the place of that file."""
    try:
        with regular_file(output) as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - 4 * characters))
            return source.read().decode("utf-8", "replace").strip()[-characters:]
    except OSError:
        return ""


def born(pid: int) -> int:
    """When the living process was born, in ticks since the machine started; 0 when it is gone, or a zombie."""
    rest = _stat(pid)
    return int(rest[19]) if rest and rest[0] not in (b"Z", b"X") else 0


def _send(pid: int, which: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, which)


def _living() -> Iterator[tuple[int, int]]:
    """Every living process with when it was born; zombies don't count."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and there are many
        if name.isdigit() and (when := born(int(name))):
            yield int(name), when


def _carries(pid: int, variable: str, mark: str, *, exactly: bool) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as source:  # noqa: PTH123 - many a second
            environment = source.readall()
    except OSError:
        return False
    wanted = f"{variable}={mark}".encode() + (b"\0" if exactly else b"")
    return wanted in environment


def _cpu_s(pid: int) -> float:
    rest = _stat(pid)
    return sum(int(field) for field in rest[11:15]) / _TICKS if rest else 0.0  # its own, and of children it saw end


def _stat(pid: int | str) -> list[bytes]:
    """The fields of a process after its name: state, parent, group, session, ... Empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:  # noqa: PTH123 - many a second
            return source.readall().rpartition(b")")[2].split()
    except OSError:
        return []
