"""A study of a task's arrays alone: each execution goes on from the site's state to the lists and labels it decides."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.audit.captures import Capture
from veristate.audit.design import (
    SELECTIVE,
    Condition,
    PlannedGroup,
    Replacement,
    Role,
    Treatment,
    pair_of,
    schedule,
    treat,
)
from veristate.audit.endpoints import Comparison, Component, Endpoint, Path
from veristate.audit.recovery import Blocks, output_displacement, recovery_curve
from veristate.audit.selections import Selection
from veristate.audit.statistics import Attempt, Outcome
from veristate.audit.study.benches.capturing import StudyCapture
from veristate.audit.study.benches.executions import Done, Execution
from veristate.audit.study.spec import ArmSpec
from veristate.audit.tasks import Task, TaskOutcome
from veristate.core import canonical_bytes, decimal_string, digest
from veristate.numerics import array_bytes, storage_bits

ALL = "all"
ENDPOINTS_COMPARED = (
    Endpoint(component=Component.RETRIEVED, comparison=Comparison.MEMBERSHIP),
    Endpoint(component=Component.RETRIEVED, comparison=Comparison.ORDER),
    Endpoint(component=Component.VERDICT, comparison=Comparison.MEMBERSHIP),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayBench:
    """A task whose run goes on from the site's values; deterministic, so repeats of a condition must agree.

    `selections` are what each confirmation capture's selective conditions replace.
    """

    task: Task
    site: str
    captures: tuple[StudyCapture, ...]
    selections: Mapping[str, Selection]

    @classmethod
    def of(cls, task: Task, site: str, captures: Sequence[StudyCapture], arms: Sequence[ArmSpec]) -> "ArrayBench":
        """The bench. Rows are blocks, and the selection of a capture is the first doubling number of them, most
        displaced first, that returns the reference's outcome.

        Source: BioAgent-DF C.1 (current displacement), Algorithm 2.
        """
        selective = any(condition in SELECTIVE for arm in arms for condition in arm.conditions)
        found = {}
        if selective:
            for one in captures:
                if one.role == "confirmation":
                    found[one.name] = _budget_selection(task, site, one.capture)
        return cls(task=task, site=site, captures=tuple(captures), selections=found)

    def executions(self, arm: ArmSpec) -> Iterator[Execution]:
        """One for each condition of each confirmation capture and repeat."""
        confirmed = {one.name: one for one in self.captures if one.role == "confirmation"}
        groups = [
            PlannedGroup(capture=name, task=ALL, role=Role.CHOSEN, conditions=arm.conditions) for name in confirmed
        ]
        for planned in schedule(groups, [str(repeat) for repeat in arm.repeats]):
            one = confirmed[planned.group.capture]
            treatment = self._treatment(one, planned.condition)
            place = [arm.name, one.name, planned.repeat, planned.condition.value]
            key = {
                "format": "veristate.array-execution/1",
                "task": self.task.digest(),
                "site": self.site,
                "state": digest(array_bytes(storage_bits(treatment.state, one.capture.representation))),
                "place": place,
            }
            yield Execution(
                key=digest(canonical_bytes(key)),
                arm=arm.name,
                environment=one.environment,
                role=Role.CHOSEN,
                capture=one.name,
                task=ALL,
                repeat=planned.repeat,
                condition=planned.condition,
            )

    def run(self, execution: Execution) -> Done:
        """The task's run from the condition's state on."""
        one = next(one for one in self.captures if one.name == execution.capture)
        treatment = self._treatment(one, execution.condition)
        outcome = run_from(self.task, self.site, treatment.state)
        made = treatment.intervention
        replacement = None
        if made is not None:
            replacement = Replacement(
                selected=len(made.selection), effective=len(made.effective), differing=one.differing
            )
        return Done(
            attempts=tuple(_attempt(execution, task, path) for task, path in paths_of(outcome)),
            replacement=replacement,
            metrics=tuple((name, decimal_string(value)) for name, value in outcome.metrics),
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Lists by membership and order, labels as verdicts."""
        return ENDPOINTS_COMPARED

    def titles(self) -> dict[str, str]:
        """None: positions have no names."""
        return {}

    def _treatment(self, one: StudyCapture, condition: Condition) -> Treatment:
        return treat(one.capture, condition, self.selections.get(one.name) if condition in SELECTIVE else None)


def run_from(task: Task, site: str, state: NDArray[Any]) -> TaskOutcome:
    """The outcome of a run whose values at a site are replaced by a state."""
    return task.run(lambda name, Y: state.astype(np.float32, copy=False) if name == site else Y)


def paths_of(outcome: TaskOutcome) -> tuple[tuple[str, Path], ...]:
    """What an outcome decides as paths, by name: each list by what it retrieved, each row by its label as verdict."""
    lists = () if outcome.lists is None else outcome.lists.tolist()
    labels = () if outcome.labels is None else outcome.labels.tolist()
    return (
        *((f"list {place}", Path(retrieved=tuple(map(str, items)))) for place, items in enumerate(lists)),
        *((f"row {place}", Path(verdict=str(label))) for place, label in enumerate(labels)),
    )


def _attempt(execution: Execution, task: str, path: Path) -> Attempt:
    return Attempt(
        capture=execution.capture,
        task=task,
        repeat=execution.repeat,
        condition=execution.condition.value,
        outcome=Outcome.COMPLETED,
        exposed=True,
        path=path,
    )


def _budget_selection(task: Task, site: str, capture: Capture) -> Selection:
    def endpoint(values: NDArray[Any]) -> Hashable:
        return paths_of(run_from(task, site, values))

    blocks = Blocks.rows(capture.shape, 1)
    order = output_displacement(pair_of(capture), blocks).order
    curve = recovery_curve(pair_of(capture), blocks, endpoint, order)
    return blocks.selection(order[: curve.first or 0])
