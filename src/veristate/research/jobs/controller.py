"""The controller: admits, queues, watches, extends, stops. Every change is journaled as `job.changed` before it counts.

A job runs for the time it asked for. At its end it gets as much again while its worker's validated best has improved
since it began, and no other job waits; else it is stopped. The campaign's own end, or its budget's, stops all of them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from veristate.core import EnvironmentUnusableError, InputError
from veristate.research.jobs.admission import Offer, read_offer
from veristate.research.jobs.ground import Ground, Started
from veristate.research.jobs.leases import Lease, Leases
from veristate.research.processes import Confine, Launch, born, tail

QUEUED_UPPER = 100
EXTENSIONS_UPPER = 8


class Desk(Protocol):
    """What the controller needs of a campaign."""

    def journal(self, body: Mapping[str, Any]) -> None:
        """Returns when the change of a job is recorded."""
        ...

    def best(self, worker: str) -> str | None:
        """The worker's best validated metric, as text."""
        ...

    def over(self) -> str | None:
        """Why nothing may work any more."""
        ...

    def launch(self, worker: str, offer: Offer, output: Path, gpus: tuple[int, ...]) -> Launch:
        """The process of a job in a worker's workspace."""
        ...

    def spend(self, job: str, cpu_s: float) -> None:
        """Takes in the processor time that a job has used so far; 0 when it stands in the journal."""
        ...


@dataclass(slots=True, kw_only=True)
class _Job:
    """One job on its way."""

    name: str
    worker: str
    offer: Offer
    running: Started | None = None
    gpus: tuple[int, ...] = ()
    deadline: float = 0.0
    began: float = 0.0
    best: str | None = None
    extensions: int = 0
    state: str = "queued"
    reason: str = ""


class JobController:
    """The jobs of one engine. `propose` is called by workers' threads, `watch` every moment by the engine."""

    def __init__(
        self,
        *,
        desk: Desk,
        leases: Leases,
        folder: Path,
        ground: Ground,
        seconds: Callable[[], float],
        now: Callable[[], str],
        confine: Confine,
        first: int = 1,
    ) -> None:
        self._desk, self._leases, self._folder, self._confine = desk, leases, folder, confine
        self._ground, self._seconds, self._now = ground, seconds, now
        self._number = first
        self._jobs: dict[str, _Job] = {}
        self._queue: deque[_Job] = deque()
        self._lock = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True)
        self.reaped = leases.reap(born)

    def propose(self, worker: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The reply to a worker: admitted, queued or refused with the reason; or what became of `{"status": job}`."""
        with self._lock:
            asked = content.get("status")
            if isinstance(asked, str):
                return self._told(self._jobs.get(asked), worker)
            try:
                offer = read_offer(content)
            except InputError as error:
                return _refused(str(error))
            if reason := self._desk.over():
                return _refused(reason)
            if not self._ground.free().fits(offer):
                return _refused("it asks for more than this machine has beside its workers")
            if len(self._queue) >= QUEUED_UPPER:
                return _refused(f"{QUEUED_UPPER} jobs are waiting already")
            job = _Job(name=f"J{self._number:03d}", worker=worker, offer=offer)
            self._number += 1
            self._change(job, "queued", argv=list(offer.argv))
            self._jobs[job.name] = job
            self._queue.append(job)
            self._admit()
            return self._told(job, worker)

    def watch(self) -> None:
        """Returns when what has ended is recorded, what is due is extended or stopped, and what fits is admitted."""
        with self._lock:
            over = self._desk.over()
            for job in [job for job in self._jobs.values() if job.running is not None]:
                assert job.running is not None
                code = job.running.poll()
                if code is not None:
                    self._end(job, "done" if code == 0 else "failed")
                elif over is not None:
                    self._end(job, "stopped", over)
                elif self._seconds() >= job.deadline:
                    self._due(job)
                else:
                    self._desk.spend(job.name, job.running.cpu_s())
            if over is None:
                self._admit()

    @contextmanager
    def held(self, worker: str) -> Iterator[None]:
        """A block in which no job of the worker writes: its workspace is read."""
        with self._lock:
            running = [job.running for job in self._jobs.values() if job.worker == worker and job.running is not None]
            for each in running:
                each.pause()
            try:
                yield
            finally:
                for each in running:
                    each.go_on()

    def leave(self, worker: str, reason: str) -> None:
        """Returns when no job of the worker runs or waits: its workspace is about to be another."""
        with self._lock:
            for job in [job for job in self._jobs.values() if job.worker == worker]:
                if job.running is not None:
                    self._end(job, "stopped", reason)
                elif job.state == "queued":
                    self._queue.remove(job)
                    self._change(job, "stopped", reason=reason)

    def close(self, reason: str) -> None:
        """Returns when no job runs and none holds a lease."""
        with self._lock:
            for job in list(self._jobs.values()):
                if job.running is not None:
                    self._end(job, "stopped", reason)
                elif job.state == "queued":
                    self._change(job, "stopped", reason=reason)
            self._queue.clear()
            self._leases.close()

    def _admit(self) -> None:
        """First come, first served: a small job doesn't overtake a large one for ever."""
        while self._queue:
            free = self._ground.free().without(self._leases.held())
            job = self._queue[0]
            if not free.fits(job.offer):
                return
            self._queue.popleft()
            self._start(job, free.gpus[: job.offer.gpus])

    def _start(self, job: _Job, gpus: tuple[int, ...]) -> None:
        launch = self._desk.launch(job.worker, job.offer, self._folder / f"{job.name}.log", gpus)
        try:
            job.running = self._ground.start(self._confine(launch), job.offer)
        except EnvironmentUnusableError as error:
            self._change(job, "failed", reason=str(error)[:600])
            return
        lease = Lease(
            job=job.name,
            worker=job.worker,
            pid=job.running.keeper,
            born=born(job.running.keeper),
            cores=job.offer.cores,
            memory_bytes=job.offer.memory_bytes,
            gpus=gpus,
            since=self._now(),
        )
        self._leases.take(lease)
        job.gpus, job.began = gpus, self._seconds()
        job.deadline, job.best = job.began + job.offer.seconds, self._desk.best(job.worker)
        self._change(job, "running", pid=lease.pid, born=lease.born)

    def _due(self, job: _Job) -> None:
        best = self._desk.best(job.worker)
        if self._queue:
            self._end(job, "stopped", f"its {job.offer.seconds:g} s are over and others wait")
        elif best == job.best:
            self._end(job, "stopped", f"its {job.offer.seconds:g} s are over without validated progress")
        elif job.extensions >= EXTENSIONS_UPPER:
            self._end(job, "stopped", f"extended {EXTENSIONS_UPPER} times")
        else:
            job.extensions, job.best = job.extensions + 1, best
            job.deadline = self._seconds() + job.offer.seconds
            self._change(job, "extended", best=best)

    def _end(self, job: _Job, state: str, reason: str = "") -> None:
        assert job.running is not None
        ended = job.running.end(grace_s=0.0)
        job.running = None
        wall_s = self._seconds() - job.began
        spent = {"cpu_ms": round(1000 * ended.cpu_s), "gpu_ms": round(1000 * wall_s) * len(job.gpus)}
        self._change(job, state, reason=reason or ended.words(), code=ended.code, **spent)
        self._desk.spend(job.name, 0.0)
        self._leases.release(job.name)

    def _change(self, job: _Job, state: str, *, reason: str = "", **more: Any) -> None:
        job.state, job.reason = state, reason
        self._desk.journal({"job": job.name, "worker": job.worker, "state": state, "reason": reason} | more)

    def _told(self, job: _Job | None, worker: str) -> Mapping[str, Any]:
        if job is None or job.worker != worker:
            return _refused("you have no such job")
        said = f"{job.name} {job.state}" + (f": {job.reason}" if job.reason else "")
        output = tail(self._folder / f"{job.name}.log", 2000)
        return {"ok": job.state != "failed", "job": job.name, "status": job.state, "text": said, "output": output}


def _refused(reason: str) -> Mapping[str, Any]:
    return {"ok": False, "status": "refused", "text": f"refused: {reason}"}
