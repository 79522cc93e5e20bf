"""Running a study: what is not finished yet, one execution after another, each on the disk before the next."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from veristate.audit.study.benches import Bench, Done, Execution
from veristate.audit.study.committing import Settle, group_of, groups_of, no_commitment
from veristate.audit.study.recorded import Executed, Recorded, opened
from veristate.audit.study.spec import StudySpec
from veristate.core import Clock, InputError

# It is told the phase, how many are done, and of how many.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The executions of a study in their order, and how many of them a run's folder has already."""

    executions: tuple[Execution, ...]
    finished: int

    @property
    def left(self) -> int:
        """How many are to run."""
        return len(self.executions) - self.finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run's folder holds for a study: its finished executions in the plan's order. `unplanned` counts finished
    executions of the folder that this study doesn't ask for; they are in no figure.
    """

    plan: Plan
    executed: Mapping[str, Executed]
    unplanned: int

    @property
    def complete(self) -> bool:
        """Whether every planned execution is finished."""
        return len(self.executed) == len(self.plan.executions)


def plan_of(spec: StudySpec, bench: Bench, finished: Mapping[str, object]) -> Plan:
    """The plan. Raises: InputError for two executions that can't be told apart."""
    executions = tuple(execution for arm in spec.arms for execution in bench.executions(arm))
    if len({execution.key for execution in executions}) < len(executions):
        raise InputError("two executions of the study are one and the same; give its arms and captures other settings")
    return Plan(executions=executions, finished=sum(execution.key in finished for execution in executions))


def run_study(
    spec: StudySpec,
    bench: Bench,
    folder: Path,
    *,
    clock: Clock,
    limit: int | None = None,
    announce: Callable[[Plan], None] = lambda plan: None,
    progress: Progress = lambda phase, done, total: None,
    settle: Settle = no_commitment,
) -> Ran:
    """Runs what the folder lacks, at most `limit` executions, and gives everything that is finished.

    A kill at any moment loses at most the execution in flight; another call goes on after the last finished one.
    `settle` is told what is finished at the start, and of each execution's group when it is finished.
    Raises: RefusedError when another run writes in the folder; whatever an execution raises, with all before it kept.
    """
    with opened(folder) as recorded:
        plan = plan_of(spec, bench, recorded.all)
        announce(plan)
        groups = groups_of(plan.executions)
        settle(plan.executions, recorded.all)
        left = [execution for execution in plan.executions if execution.key not in recorded]
        for number, execution in enumerate(left[:limit]):
            progress("attempts", plan.finished + number, len(plan.executions))
            _execute(bench, recorded, execution, clock)
            settle(groups[group_of(execution)], recorded.all)
        held = recorded.all
        progress("attempts", sum(one.key in held for one in plan.executions), len(plan.executions))
        return finished(plan, held)


def finished(plan: Plan, held: Mapping[str, Executed]) -> Ran:
    """What of a plan is among finished executions."""
    mine = {one.key: held[one.key] for one in plan.executions if one.key in held}
    return Ran(plan=plan, executed=mine, unplanned=len(held) - len(mine))


def _execute(bench: Bench, recorded: Recorded, execution: Execution, clock: Clock) -> None:
    started = time.perf_counter()
    done = bench.run(execution)
    seconds = time.perf_counter() - started
    # The transcript first: a line never names one that isn't there.
    transcript = recorded.keep(done.transcript) if done.transcript else ""
    recorded.add(executed(execution, done, transcript=transcript, seconds=f"{seconds:.3f}", at=clock()))


def executed(execution: Execution, done: Done, *, transcript: str, seconds: str, at: str) -> Executed:
    """What is kept of an execution."""
    return Executed(
        key=execution.key,
        arm=execution.arm,
        environment=execution.environment,
        role=execution.role,
        condition=execution.condition,
        attempts=done.attempts,
        replacement=done.replacement,
        transcript=transcript,
        rejected=done.rejected,
        reply_tokens=done.reply_tokens,
        exchanges=done.exchanges,
        metrics=done.metrics,
        seconds=seconds,
        at=at,
    )
