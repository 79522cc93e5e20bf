"""Long campaigns that can always go back: tasks, workers, segments, states, re-anchoring, memory, audit.

**A task** is a folder with `task.toml`; `read_task` reads it, and its module says every key. Its code is given as
`module:function`, or `file.py:function` beside `task.toml`, or as a command:

* evaluator `evaluate(candidate: Path, parameters: Mapping) -> Score | Rejection`. `candidate` holds a fresh copy of the
  artifact's files from an immutable snapshot. It runs in a process of its own with a deadline, outside the worker's
  reach, once for each different candidate. `Score(metric=...)` takes text, an integer, a Decimal or a float and is
  recorded as a decimal string; `Rejection(reason=...)` is told to the worker word for word. Anything else (an
  exception, NaN, silence, the deadline) is a failure of the evaluator, and no score.
* audit `audit(candidate: Path, parameters: Mapping) -> Score | Rejection`: the same, in exact or interval arithmetic at
  tolerance 0, at the campaign's end. `Score(metric=..., repaired=True)` says that the candidate was repaired, which may
  only lower its score. Metrics may have as many digits as are known.
* worker `search(bench: Bench) -> str`: works in `bench.workspace` (its working directory), calls `bench.submit(note)`
  whenever the artifact's files are a candidate, and returns when it has nothing more to try: a text-only answer. It is
  called again in each segment, in the restart state's files, so what must outlive a segment lies in the workspace.
  `bench.direction` (extend, redirect), `bench.focus`, `bench.peers`, `bench.seed`, `bench.remaining_s()` steer it.

A worker may be any command too: it submits by running `$VERISTATE_SUBMIT NOTE`, or by writing the task's result file.
Its exit code and its words are never evidence.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from veristate.research.judgement import Rejection, Score

if TYPE_CHECKING:
    from veristate.research.jobs import on_ray
    from veristate.research.running import (
        CampaignHome,
        CampaignOptions,
        CampaignResult,
        CheckLine,
        Said,
        Surroundings,
        Talk,
        best_audited,
        check_task,
        export_campaign,
        objective_of,
        ranked,
        read_standing,
        run_campaign,
        summary,
    )
    from veristate.research.states import Card, Decided, Place, Segment, Standing, WorkerStanding
    from veristate.research.tasks import (
        Budget,
        Code,
        Example,
        Objective,
        SegmentLimits,
        Task,
        bundled_tasks,
        new_task,
        read_task,
    )
    from veristate.research.workers.bench import Bench, Outcome

__all__ = [
    "Bench",
    "Budget",
    "CampaignHome",
    "CampaignOptions",
    "CampaignResult",
    "Card",
    "CheckLine",
    "Code",
    "Decided",
    "Example",
    "Objective",
    "Outcome",
    "Place",
    "Rejection",
    "Said",
    "Score",
    "Segment",
    "SegmentLimits",
    "Standing",
    "Surroundings",
    "Talk",
    "Task",
    "WorkerStanding",
    "best_audited",
    "bundled_tasks",
    "check_task",
    "export_campaign",
    "new_task",
    "objective_of",
    "on_ray",
    "ranked",
    "read_standing",
    "read_task",
    "run_campaign",
    "summary",
]

_STATES = {"Card", "Decided", "Place", "Segment", "Standing", "WorkerStanding"}
_TASKS = {"Budget", "Code", "Example", "Objective", "SegmentLimits", "Task", "bundled_tasks", "new_task", "read_task"}
_BENCH = {"Bench", "Outcome"}


def __getattr__(name: str) -> Any:
    """The rest is imported when it is asked for: an evaluator's process starts with a score and a rejection alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = "states" if name in _STATES else "tasks" if name in _TASKS else "running"
    where = "workers.bench" if name in _BENCH else "jobs" if name == "on_ray" else where
    found = import_module(f"{__name__}.{where}")
    return getattr(found, name)
