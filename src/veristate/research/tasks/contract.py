"""The task contract as values. `reading` fills them from `task.toml`; nothing here touches the disk."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from veristate.research.judgement import number

T = TypeVar("T")
Direction = Literal["maximise", "minimise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is sought. `target` ends the campaign when `stop_at_target`; `best_known` is reported and never shown to a
    worker.
    """

    metric: str
    direction: Direction
    target: str | None = None
    stop_at_target: bool = False
    best_known: str | None = None
    best_known_source: str = ""

    def better(self, one: str, other: str | None) -> bool:
        """Whether metric `one` is strictly better than `other`; anything is better than None."""
        if other is None:
            return True
        a, b = number(one), number(other)
        return a > b if self.direction == "maximise" else a < b

    def best(self, metrics: Iterable[str]) -> str | None:
        """The best of the metrics, the first of equal ones; None when there are none."""
        found: str | None = None
        for metric in metrics:
            if self.better(metric, found):
                found = metric
        return found

    def ordered(self, items: Iterable[T], metric: Callable[[T], str]) -> list[T]:
        """The items by their metrics, the best first, equal ones in the order given."""
        return sorted(items, key=lambda item: number(metric(item)), reverse=self.direction == "maximise")

    def reached(self, metric: str | None) -> bool:
        """Whether the target is reached by this metric."""
        return metric is not None and self.target is not None and not self.better(self.target, metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Something to run: a Python function `module:name` or `file.py:name`, or a command. Exactly one of them is set.

    A command is an argv template; `{python}`, `{task}`, `{workspace}`, `{candidate}`, `{reply}`, `{brief}` stand for
    paths. An evaluator's command writes its reply to `{reply}` as JSON: {"metric": "1.5"} or {"rejected": "why"}.
    """

    function: str | None = None
    command: tuple[str, ...] = ()
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a candidate is made of: files or folders relative to the workspace."""

    files: tuple[str, ...]
    description: str = ""
    bytes_upper: int = 100 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Hard limits of a whole campaign; None: not limited. `money` is in the currency of the user's price table.

    `split_queries`: each worker has an equal part of the queries for itself, the first ones what is left over.
    """

    wall_s: float | None = None
    cpu_s: float | None = None
    gpu_s: float | None = None
    tokens: int | None = None
    money: Decimal | None = None
    queries: int | None = None
    disk_bytes: int | None = None
    split_queries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """When a segment ends at the latest: after `wall_s`, `stages` result signals, or `context_chars` of history."""

    wall_s: float = 600.0
    stages: int = 1000
    context_chars: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one worker may use. `data`: who reads the data folder; with "evaluator" the worker must not see it."""

    cores: int = 1
    memory_bytes: int | None = None
    gpus: int = 0
    network: bool = False
    data: Literal["none", "evaluator", "worker"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A folder with a candidate whose judgement is known: `check` runs the evaluator on it."""

    folder: str
    expect: Literal["valid", "rejected"]
    metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as read from `folder`. `checked`: the evaluator's arithmetic runs under `veristate.checked`.

    `worker` is None when the task brings no worker of its own. `result_file`, when it changes, is a result signal of a
    worker that can't submit. `audit_candidates` is how many of the best candidates the final audit reads.
    """

    name: str
    folder: Path
    description: str
    objective: Objective
    artifact: Artifact
    evaluator: Code
    budget: Budget
    guidance: str = ""
    audit: Code | None = None
    audit_candidates: int = 20
    checked: bool = False
    worker: Code | None = None
    result_file: str | None = None
    template: str | None = None
    segment: SegmentLimits = field(default_factory=SegmentLimits)
    resources: Resources = field(default_factory=Resources)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


def filled(part: str, places: Mapping[str, object]) -> str:
    """`part` of an argv template with each `{name}` of `places` put in; other braces stay as they are."""
    for name, value in places.items():
        part = part.replace("{" + name + "}", str(value))
    return part
