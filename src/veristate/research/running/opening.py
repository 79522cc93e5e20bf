"""A campaign's folder: made once, opened by one engine at a time, read by anybody.

In it: `ledger.sqlite` the journal, `objects/` the store, `workers/w0/` with `workspace`, `mailbox` (requests), `home`
(its HOME) and logs, `evaluations/` for scratch, `heartbeat` the engine's last sign of life.
"""

import importlib.util
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from veristate.core import InputError, canonical_bytes, digest
from veristate.ledger import Ledger
from veristate.research.states import Standing
from veristate.research.tasks import Code, Task, read_task
from veristate.research.tasks.data import VARIABLE, require_data
from veristate.store import Store

DeciderName = Literal["policy", "model", "none"]
_SKIPPED = {"__pycache__", ".git"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOptions:
    """How a campaign is run, beside its task: fixed when it is opened and journaled.

    `worker` stands for the task's own worker; `passed` names the environment variables that commands get. Without
    `jobs` every proposal of one is refused.
    """

    workers: int = 1
    seed: int = 0
    decider: DeciderName = "policy"
    worker: Code | None = None
    wall_s: float | None = None
    passed: tuple[str, ...] = field(default=())
    jobs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignHome:
    """The folder of one campaign."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.absolute())  # workers have another working directory

    @property
    def ledger(self) -> Path:
        """The journal's file."""
        return self.folder / "ledger.sqlite"

    @property
    def objects(self) -> Path:
        """The store's folder."""
        return self.folder / "objects"

    @property
    def heartbeat(self) -> Path:
        """The file that the engine touches."""
        return self.folder / "heartbeat"

    def worker(self, name: str) -> Path:
        """A worker's folder."""
        return self.folder / "workers" / name

    def require(self) -> None:
        """Returns when a campaign is here. Raises: InputError otherwise."""
        if not self.ledger.is_file():
            raise InputError(f"{self.folder}: no campaign is there; `veristate research run TASK --home` starts one")


@contextmanager
def open_campaign(home: CampaignHome) -> Iterator[tuple[Ledger, Store]]:
    """The ledger and the store of a campaign, for one engine alone.

    Raises: RefusedError when another engine runs it; InputError for a folder of something else.
    """
    home.folder.mkdir(parents=True, exist_ok=True)
    store = Store.open(home.objects)
    with store.exclusive(), Ledger.open(home.ledger) as ledger:
        yield ledger, store


def read_standing(home: CampaignHome) -> Standing:
    """What is recorded of a campaign, also while an engine runs it. Raises: InputError when there is none."""
    home.require()
    standing = Standing()
    with Ledger.open(home.ledger) as ledger:
        for entry in ledger.entries():
            standing.take(entry)
    if not standing.opened:
        raise InputError(f"{home.folder}: its campaign was never opened; run the task again")
    return standing


def opening_body(task: Task, options: CampaignOptions, store: Store) -> dict[str, Any]:
    """The first entry of a campaign: the task by digest, the options, the state that all workers start from."""
    if task.worker is None and options.worker is None:
        raise InputError(f"task {task.name} brings no worker; give one with --worker")
    require_data_for(task, options)
    worker = options.worker or task.worker
    assert worker is not None
    return {
        "campaign": uuid.uuid4().hex,
        "task": task.name,
        "folder": str(task.folder),
        "task_digest": task_digest(task),
        "metric": task.objective.metric,
        "direction": task.objective.direction,
        "target": task.objective.target,
        "best_known": task.objective.best_known,
        "best_known_source": task.objective.best_known_source,
        "workers": [f"w{number}" for number in range(options.workers)],
        "seed": options.seed,
        "decider": options.decider,
        "worker": {"function": worker.function, "command": list(worker.command)},
        "passed": list(options.passed),
        "wall_s": None if options.wall_s is None else str(options.wall_s),
        "jobs": options.jobs,
        "template": template_tree(task, store),
    }


def require_data_for(task: Task, options: CampaignOptions) -> None:
    """Returns when the data folder is there for who may read it.

    Raises: EnvironmentUnusableError when it is not; InputError when it is passed to a worker that must not see it.
    """
    if VARIABLE in options.passed and task.resources.data != "worker":
        raise InputError(
            f"--pass {VARIABLE}: task {task.name} does not give its worker the data folder ([resources] data = "
            f'"{task.resources.data}"), which may hold what is hidden from it; pass something else'
        )
    if task.resources.data != "none":
        require_data(task.name)


def reopened(body: Any) -> tuple[Task, CampaignOptions]:
    """Task and options of a campaign that was opened before.

    Raises: InputError when the task has changed since: its results could not be compared.
    """
    task = read_task(body["folder"])
    if task_digest(task) != body["task_digest"]:
        raise InputError(f"the task in {task.folder} has changed since the campaign began; start a new campaign")
    said = body["worker"]
    return task, CampaignOptions(
        workers=len(body["workers"]),
        seed=body["seed"],
        decider=body["decider"],
        worker=Code(function=said["function"], command=tuple(said["command"])),
        wall_s=None if body["wall_s"] is None else float(body["wall_s"]),
        passed=tuple(body["passed"]),
        jobs=body.get("jobs", True),  # older campaigns don't say
    )


def task_digest(task: Task) -> str:
    """SHA-256 over the paths and bytes of the task's folder, caches left out, and the files of modules it names.

    What those modules import in turn is not covered.
    """
    listed = _module_digests(task)
    for above, folders, names in os.walk(task.folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = Path(above, name)
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            listed.append([str(path.relative_to(task.folder)), digest(content)])
    return digest(canonical_bytes(listed))


def _module_digests(task: Task) -> list[list[str]]:
    names = [code.function for code in (task.evaluator, task.audit, task.worker) if code and code.function]
    listed = []
    for where in sorted({name.partition(":")[0] for name in names}):
        if where.endswith(".py"):
            continue
        try:
            spec = importlib.util.find_spec(where)
        except ImportError as error:
            raise InputError(f"task {task.name} names the module {where}, which can't be found: {error}") from error
        if spec is None or spec.origin is None:
            raise InputError(f"task {task.name} names the module {where}, which can't be found")
        listed.append([where, digest(Path(spec.origin).read_bytes())])
    return listed


def template_tree(task: Task, store: Store) -> str:
    """The snapshot of the task's workspace template, or of an empty folder."""
    if task.template is not None:
        return store.snapshot(task.folder / task.template)
    with tempfile.TemporaryDirectory() as above:
        empty = Path(above) / "empty"
        empty.mkdir(mode=0o755)
        return store.snapshot(empty)
