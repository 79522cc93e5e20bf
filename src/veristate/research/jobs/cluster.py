"""Jobs on a Ray cluster, behind the same protocol. The only place where Ray is imported; it is the extra `ray`.

Each job is an actor that keeps the process tree on its node as the engine does here: paused, watched, ended whole. An
actor dies with the engine that made it, however that dies, and its tree with it. Ray then kills what the actor started
itself, the keeper too, so there is a second one below (`sandbox/guard.py`). The campaign's folder must be on a file
system that every node sees under the same path, with this package and what jobs need installed there.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from veristate.core import EnvironmentUnusableError
from veristate.research.jobs.admission import Free, Offer
from veristate.research.jobs.ground import Ground
from veristate.research.processes import Ended, Launch, Running, start
from veristate.research.sandbox import guard

try:
    import ray
    from ray.exceptions import GetTimeoutError, RayError
except ImportError as error:
    raise EnvironmentUnusableError("jobs on Ray need the extra ray: pip install 'veristate[ray]'") from error

_LOST = (RayError, ConnectionError, RuntimeError)  # what Ray raises where the cluster itself is gone
_DEAD = 9
_START_S, _ANSWER_S = 60.0, 30.0


def connected(address: str = "auto", **options: Any) -> Ground:
    """The cluster at that address as a ground for jobs; `options` are those of `ray.init`.

    Raises: EnvironmentUnusableError when it can't be reached.
    """
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        raise EnvironmentUnusableError(f"Ray at {address}: {error}; is a cluster running there?") from error
    jobs: list[_Job] = []

    def free() -> Free:
        available: Mapping[str, float] = {}
        with suppress(*_LOST):
            available = ray.available_resources()
        return _free(available, [job.offer for job in jobs if not job.over])

    def begin(launch: Launch, offer: Offer) -> _Job:
        job = _Job(launch, offer)
        jobs.append(job)
        return job

    return Ground(free=free, start=begin)


def _free(available: Mapping[str, float], taken: list[Offer]) -> Free:
    """What the cluster has beside the jobs of others."""
    gpus = int(available.get("GPU", 0)) + sum(offer.gpus for offer in taken)
    return Free(
        cores=int(available.get("CPU", 0)) + sum(offer.cores for offer in taken),
        memory_bytes=int(available.get("memory", 0)) + sum(offer.memory_bytes for offer in taken),
        gpus=tuple(range(gpus)),
    )


class _Host:
    """The actor: one process tree on its node."""

    def __init__(self, launch: Launch) -> None:
        devices = ",".join(map(str, ray.get_gpu_ids()))  # a node numbers its own
        environment = dict(launch.environment) | {"CUDA_VISIBLE_DEVICES": devices}
        program = shutil.which(launch.argv[0], path=environment.get("PATH", os.defpath))
        self._running: Running | str = f"{launch.argv[0]} can't be started: there is none; is it installed and on PATH?"
        if program is not None:
            argv = (sys.executable, "-I", "-S", guard.__file__, *launch.argv)
            self._running = start(replace(launch, argv=argv, environment=environment))

    def trouble(self) -> str:
        """Why there is no process; empty when there is one."""
        return self._running if isinstance(self._running, str) else ""

    def call(self, name: str, options: Mapping[str, Any]) -> Any:
        """What that method of the process tree returns."""
        return getattr(self._running, name)(**options)


class _Job:
    """One job's actor, as `Started`. A node that is lost is a job that was killed."""

    def __init__(self, launch: Launch, offer: Offer) -> None:
        self.offer, self.over, self.keeper = offer, False, os.getpid()
        wanted = {"num_cpus": offer.cores, "num_gpus": offer.gpus, "memory": offer.memory_bytes or None}
        self._actor = ray.remote(_Host).options(**wanted).remote(launch)
        try:
            trouble = ray.get(self._actor.trouble.remote(), timeout=_START_S)
        except GetTimeoutError:
            trouble = f"Ray found no room for it in {_START_S:g} s"
        except RayError as error:
            trouble = f"Ray could not start it: {str(error)[:300]}"
        if trouble:
            self._let_go()
            raise EnvironmentUnusableError(trouble)
        self._cpu_s = 0.0

    def poll(self) -> int | None:
        """As `Started.poll`."""
        code = self._asked("poll", -_DEAD)
        return None if code is None else int(code)

    def cpu_s(self) -> float:
        """As `Started.cpu_s`."""
        self._cpu_s = float(self._asked("cpu_s", self._cpu_s))
        return self._cpu_s

    def pause(self) -> None:
        """As `Started.pause`."""
        self._asked("pause", None)

    def go_on(self) -> None:
        """As `Started.go_on`."""
        self._asked("go_on", None)

    def end(self, *, grace_s: float = 0.0) -> Ended:
        """As `Started.end`."""
        ended = self._asked("end", Ended(code=-_DEAD, cpu_s=self._cpu_s), grace_s=grace_s)
        self._let_go()
        assert isinstance(ended, Ended)
        return ended

    def _asked(self, name: str, otherwise: Any, **options: Any) -> Any:
        try:
            return ray.get(self._actor.call.remote(name, options), timeout=_ANSWER_S)
        except _LOST:  # the actor or its node is dead, or does not answer
            return otherwise

    def _let_go(self) -> None:
        self.over = True
        with suppress(*_LOST):  # the engine goes on to end everything else
            ray.kill(self._actor)
