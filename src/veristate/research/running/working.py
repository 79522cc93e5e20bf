"""What job control and the sandbox are told of a campaign: its folders, its journal, its secrets."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from veristate.research.jobs import Free, Ground, JobController, Leases, Offer, free_now, here
from veristate.research.processes import Confine, Launch
from veristate.research.running.gate import Gate
from veristate.research.running.opening import CampaignHome
from veristate.research.sandbox.confining import Profile, find_sandbox
from veristate.research.tasks import Task
from veristate.research.tasks.data import VARIABLE, data_folder

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_PRIVATE = ("private", "hidden")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignDesk:
    """A campaign as the job controller sees it."""

    home: CampaignHome
    gate: Gate
    gpus: tuple[int, ...] = ()

    def journal(self, body: Mapping[str, Any]) -> None:
        """As `Desk.journal`."""
        self.gate.record.append("job.changed", body)

    def best(self, worker: str) -> str | None:
        """As `Desk.best`."""
        cards = self.gate.record.read(lambda standing: list(standing.workers[worker].cards))
        return self.gate.task.objective.best([str(card.metric) for card in cards if card.counts])

    def over(self) -> str | None:
        """As `Desk.over`."""
        return self.gate.over()

    def launch(self, worker: str, offer: Offer, output: Path, gpus: tuple[int, ...]) -> Launch:
        """As `Desk.launch`: the worker's workspace, its HOME, as many threads as cores, the GPUs it was given."""
        workspace, own = self.home.worker(worker) / "workspace", self.home.worker(worker) / "home"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(offer.cores))
        kept = (*_KEPT, VARIABLE) if self.gate.task.resources.data == "worker" else _KEPT
        environment = {name: os.environ[name] for name in kept if name in os.environ} | threads
        environment |= {"HOME": str(own), "TMPDIR": str(own), "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        return Launch(
            argv=offer.argv,
            cwd=workspace,
            environment=environment,
            output=output,
            mark=self.gate.mark,
            writable=(workspace, own),
            readable=data_folder(environment),
            network=self.gate.task.resources.network,
            memory_bytes=offer.memory_bytes or self.gate.task.resources.memory_bytes,
        )

    def spend(self, job: str, cpu_s: float) -> None:
        """As `Desk.spend`."""
        self.gate.meter.runs(job, cpu_s)


def job_controller(
    home: CampaignHome, gate: Gate, workers: int, seconds: Callable[[], float], ground: Ground | None = None
) -> JobController:
    """The controller of this campaign, its jobs on `ground` or here; leases of a killed engine are reaped."""
    resources = gate.task.resources

    def free() -> Free:
        return free_now(workers, resources.cores, tuple(range(resources.gpus)))

    return JobController(
        desk=CampaignDesk(home=home, gate=gate),
        leases=Leases(home.folder / "leases.sqlite"),
        folder=home.folder / "jobs",
        ground=ground or here(free),
        seconds=seconds,
        now=gate.clock,
        confine=hiding(gate.confine, gate.task),
        first=1 + gate.record.read(lambda standing: len({change["job"] for change in standing.jobs})),
    )


def campaign_sandbox(task: Task) -> Confine | None:
    """What confines the processes of this campaign; None where bubblewrap can't be used."""
    devices = tuple(Path("/dev").glob("nvidia*")) if task.resources.gpus else ()
    return find_sandbox(Profile(devices=devices))


def hiding(confine: Confine, task: Task) -> Confine:
    """The same for a worker's processes: the evaluator and what is private of the task are not to be seen.

    Files of the task are hidden that the evaluator or the audit names and the worker does not, and folders named
    `private` or `hidden`. Code that is part of an installed package is public anyway.
    """
    named = {code.function.partition(":")[0] for code in (task.evaluator, task.audit) if code and code.function}
    named |= {part[len("{task}/") :] for part in task.evaluator.command if part.startswith("{task}/")}
    if task.worker is not None and task.worker.function:
        named.discard(task.worker.function.partition(":")[0])
    hidden = [task.folder / name for name in sorted(named) if (task.folder / name).is_file()]
    hidden += [task.folder / name for name in _PRIVATE if (task.folder / name).is_dir()]
    return lambda launch: confine(replace(launch, hidden=(*launch.hidden, *hidden)))
