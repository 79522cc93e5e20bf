"""Workers that are processes: a Python function in our host, or any command."""

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from veristate.research.processes import Launch, Running, start, tail
from veristate.research.tasks import Code, filled
from veristate.research.tasks.data import VARIABLE, data_folder
from veristate.research.untrusted import write_text
from veristate.research.workers.seat import Departure, Seat

_POLL_S, _POLL_MOST_S = 0.004, 0.05
_SETTLED_S = 0.5
_GRACE_S = 2.0
_SERVED_UPPER = 64  # requests between two looks at whether the segment is over
_COUNT_CPU_S = 5.0
RESULTS_FILE = "RESULTS.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDriver:
    """A worker's code as a process. `result_file`: a change of this file of the workspace is a result signal too.

    `passed` are the variables of the engine's environment that the worker gets; an agent's key is among them only when
    the user names it.
    """

    code: Code
    result_file: str | None = None
    passed: tuple[str, ...] = ()

    @property
    def name(self) -> Mapping[str, str]:
        """The code and how it signals."""
        what = {"function": self.code.function} if self.code.function else {"command": "\0".join(self.code.command)}
        return what | ({"result_file": self.result_file} if self.result_file else {})

    def drive(self, seat: Seat) -> Departure:
        """As `Driver.drive`."""
        running = start(seat.confine(self._launch(seat)))
        signal = _Signal(seat.workspace / self.result_file) if self.result_file else None
        reason, pause, counted, grace = "", _POLL_S, time.monotonic(), 0.0
        try:
            while not reason:
                served = self._serve(seat, running, signal)
                pause = _POLL_S if served else min(pause * 1.5, _POLL_MOST_S)
                code, over = running.poll(), seat.over()
                if code is not None:
                    self._serve(seat, running, signal, ended=True)
                    # One that was told that the segment is over, and left, did not end by itself.
                    reason = "the worker failed" if code else over or "text-only answer"
                elif over is not None:
                    grace = grace or time.monotonic() + _GRACE_S
                    if time.monotonic() > (grace if served or over.startswith("stages") else 0.0):
                        reason = over
                if time.monotonic() - counted > _COUNT_CPU_S:
                    counted = time.monotonic()
                    seat.spend(running.cpu_s())
                if not reason and not served:
                    time.sleep(pause)
        finally:
            # Past a budget nothing works on; at a segment's end it is asked first.
            ended = running.end(grace_s=0.0 if not reason or reason.startswith("budget") else _GRACE_S)
        if reason == "the worker failed":
            last = tail(seat.log, 200).rpartition("\n")[2]
            reason = f"the worker {ended.words()}: {last}"
        return Departure(reason=reason, cpu_s=ended.cpu_s, words=tail(seat.log))

    def _serve(self, seat: Seat, running: Running, signal: "_Signal | None", *, ended: bool = False) -> bool:
        """Whether anything was asked, or signalled by the result file."""
        served = False
        for asked in islice(seat.mailbox.pending(), _SERVED_UPPER):
            seat.mailbox.answer(asked, seat.serve(asked.content))
            served = True
        if signal is not None and signal.given(settled_s=0.0 if ended else _SETTLED_S):
            running.pause()  # nobody writes while the snapshot is taken
            try:
                reply = seat.serve({"kind": "submit", "note": f"{self.result_file} changed"})
                with suppress(OSError):  # the worker's own file: what it put in its place is left alone
                    write_text(seat.workspace / RESULTS_FILE, f"- {reply.get('text', reply)}\n", append=True)
            finally:
                running.go_on()
            served = True
        return served

    def _launch(self, seat: Seat) -> Launch:
        environment = self._environment(seat)
        task = (seat.task_folder,) if self.code.function or "{task}" in "".join(self.code.command) else ()
        return Launch(
            argv=self._argv(seat),
            cwd=seat.workspace,
            environment=environment,
            output=seat.log,
            mark=seat.mark,
            writable=(seat.workspace, seat.mailbox.folder, seat.home),
            readable=(*task, *data_folder(environment)),
            network=seat.resources.network,
            memory_bytes=seat.resources.memory_bytes,
        )

    def _argv(self, seat: Seat) -> tuple[str, ...]:
        if self.code.function is not None:
            host = (sys.executable, "-P", "-m", "veristate.research.hosts.worker")
            return (*host, self.code.function, str(seat.task_folder))
        places = {
            "python": sys.executable,
            "task": seat.task_folder,
            "workspace": seat.workspace,
            "brief": seat.brief,
            "worker": seat.worker,
            "segment": seat.segment,
        }
        return tuple(filled(part, places) for part in self.code.command)

    def _environment(self, seat: Seat) -> dict[str, str]:
        kept = ["PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "TERM", *self.passed]
        kept += [VARIABLE] if seat.resources.data == "worker" else []
        found = {name: os.environ[name] for name in kept if name in os.environ}
        threads = str(seat.resources.cores)
        return {
            "HOME": str(seat.home),
            "TMPDIR": str(seat.home),
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "VERISTATE_MAILBOX": str(seat.mailbox.folder),
            "VERISTATE_SUBMIT": str(seat.mailbox.submit),
            "VERISTATE_WORKSPACE": str(seat.workspace),
        } | found


class _Signal:
    """A result file: `given` once for each change, when it has been still for a while."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._now()
        self._changed: tuple[tuple[int, int, int] | None, float] | None = None

    def given(self, *, settled_s: float) -> bool:
        now = self._now()
        if now is None or now == self._seen:
            self._changed = None
            return False
        if self._changed is None or self._changed[0] != now:
            self._changed = (now, time.monotonic())
        if time.monotonic() - self._changed[1] < settled_s:
            return False
        self._seen, self._changed = now, None
        return True

    def _now(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.lstat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
