"""What a study found: every figure beside what it was counted over, series by series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veristate.audit.design import (
    CELLS,
    FACTORIAL,
    TARGETS,
    Across,
    Condition,
    GroupKey,
    Partings,
    Reached,
    Replacement,
    Role,
    across,
    key_of,
    partings,
    reaching,
)
from veristate.audit.endpoints import Endpoint, Exchange
from veristate.audit.statistics import (
    CORE,
    PAIRED,
    Attempt,
    Effects,
    Group,
    Standing,
    Strict,
    Summary,
    factorial_effects,
    grouped,
    jointly_completed,
    strict_repeatability,
    summarise,
)
from veristate.audit.study.recorded import Executed
from veristate.audit.study.running import Ran
from veristate.audit.study.spec import ArmSpec, StudySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The mean of an evaluator's metric under one condition, over the executions that have it and whose attempts all
    count.
    """

    name: str
    condition: Condition
    executions: int
    mean: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Factorial:
    """List x values: how often each cell matches H1's endpoint. `left_out` counts groups that lack a cell or H1."""

    endpoint: Endpoint
    effects: Effects
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SameRequests:
    """Pairs of conditions of one group whose agent was shown the same row: C and a selected restoration that replaced
    nothing there. What differs between them is the agent's own variation.

    Source: BioAgent-DF H.6.
    """

    endpoint: Endpoint
    pairs: int
    complete: int
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All groups of one arm in one environment that are in the study for one reason."""

    arm: str
    environment: str
    role: Role
    attempts: tuple[Attempt, ...]
    groups: tuple[Group, ...]
    summaries: tuple[Summary, ...]
    reached: tuple[Reached, ...]
    partings: tuple[Partings, ...]
    same_requests: tuple[SameRequests, ...]
    strict: tuple[tuple[Endpoint, tuple[tuple[str, str, Strict], ...]], ...]
    factorial: tuple[Factorial, ...]
    metrics: tuple[Metric, ...]
    replacements: Mapping[tuple[GroupKey, Condition], Replacement]
    executed: Mapping[tuple[GroupKey, str], Executed]

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.arm}@{self.environment}" if self.environment else self.arm

    @property
    def joint(self) -> int:
        """The jointly complete, exposed groups that its comparisons are over."""
        return len(self.summaries[0].joint.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResults:
    """A study's figures; `failures` says why it is a failed study, empty when it is none."""

    series: tuple[Series, ...]
    across: tuple[tuple[str, str, Across], ...]
    failures: tuple[str, ...]
    unplanned: int


def results_of(spec: StudySpec, ran: Ran, endpoints: Sequence[Endpoint]) -> StudyResults:
    """The figures of what is finished. Source: BioAgent-DF 2.3, F.2, H.6, H.7, H.12, H.13, J.1."""
    series = tuple(
        one
        for arm in spec.arms
        for environment in ("", *(other.name for other in spec.environments))
        for role in Role
        for one in _series(spec, arm, environment, role, tuple(ran.executed.values()), endpoints)
    )
    return StudyResults(
        series=series,
        across=_across(spec, series, endpoints),
        failures=failures_of(spec, series),
        unplanned=ran.unplanned,
    )


def failures_of(spec: StudySpec, series: Sequence[Series]) -> tuple[str, ...]:
    """Why a study failed: arms with fewer jointly complete, exposed chosen groups than it asks for."""
    found = []
    for arm in spec.arms:
        joint = sum(one.joint for one in series if one.arm == arm.name and one.role is Role.CHOSEN)
        if joint < spec.least_groups:
            least = spec.least_groups
            found.append(f"arm {arm.name}: {joint} jointly complete, exposed groups, fewer than the {least} asked for")
    return tuple(found)


def _series(
    spec: StudySpec,
    arm: ArmSpec,
    environment: str,
    role: Role,
    executed: tuple[Executed, ...],
    endpoints: Sequence[Endpoint],
) -> list[Series]:
    mine = [one for one in executed if (one.arm, one.environment, one.role) == (arm.name, environment, role)]
    if not mine:
        return []
    attempts = tuple(attempt for one in mine for attempt in one.attempts)
    groups = grouped(attempts)
    by_group = {
        ((attempt.capture, attempt.task, attempt.repeat), one.condition): one
        for one in mine
        for attempt in one.attempts
    }
    replacements = {key: one.replacement for key, one in by_group.items() if one.replacement is not None}
    exchanges = {(key[0], str(key[1])): one.exchanges for key, one in by_group.items()}
    compared = CORE if Condition.FULL in arm.conditions else PAIRED
    has_exchanges = any(exchanges.values())
    return [
        Series(
            arm=arm.name,
            environment=environment,
            role=role,
            attempts=attempts,
            groups=groups,
            summaries=tuple(
                summarise(attempts, endpoint, seed=spec.seed, conditions=compared, resamples=spec.resamples)
                for endpoint in endpoints
            ),
            reached=tuple(
                reaching(groups, condition, endpoint, replacements)
                for condition in TARGETS
                if condition in arm.conditions
                for endpoint in endpoints
            ),
            partings=_partings(groups, exchanges, arm) if has_exchanges else (),
            same_requests=tuple(_same_requests(groups, endpoint, replacements) for endpoint in endpoints)
            if Condition.SELECTED in arm.conditions and has_exchanges
            else (),
            strict=_strict(groups, endpoints, len(arm.repeats)) if len(arm.repeats) > 1 and has_exchanges else (),
            factorial=_factorial(groups, endpoints) if CELLS[0] in arm.conditions else (),
            metrics=_metrics(mine, arm),
            replacements=replacements,
            executed={(key[0], str(key[1])): one for key, one in by_group.items()},
        )
    ]


def _partings(
    groups: Sequence[Group], exchanges: Mapping[tuple[GroupKey, str], Sequence[Exchange]], arm: ArmSpec
) -> tuple[Partings, ...]:
    others = [name for name in (Condition.H2, Condition.C, Condition.FULL, Condition.ZERO) if name in arm.conditions]
    return tuple(partings(groups, exchanges, name) for name in others)


def _same_requests(
    groups: Sequence[Group], endpoint: Endpoint, replacements: Mapping[tuple[GroupKey, Condition], Replacement]
) -> SameRequests:
    same = []
    for group in groups:
        replaced = replacements.get((key_of(group), Condition.SELECTED))
        if replaced is not None and not replaced.effective:
            same.append(group)
    complete = [
        group
        for group in same
        if all(group.standing(name) is Standing.COUNTED for name in (Condition.C, Condition.SELECTED))
    ]
    return SameRequests(
        endpoint=endpoint,
        pairs=len(same),
        complete=len(complete),
        differing=sum(endpoint(g.path(Condition.C)) != endpoint(g.path(Condition.SELECTED)) for g in complete),
    )


def _strict(
    groups: Sequence[Group], endpoints: Sequence[Endpoint], batches: int
) -> tuple[tuple[Endpoint, tuple[tuple[str, str, Strict], ...]], ...]:
    together: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        together.setdefault((group.capture, group.task), []).append(group)
    return tuple(
        (
            endpoint,
            tuple((*key, strict_repeatability(mine, endpoint, batches=batches)) for key, mine in together.items()),
        )
        for endpoint in endpoints
    )


def _factorial(groups: Sequence[Group], endpoints: Sequence[Endpoint]) -> tuple[Factorial, ...]:
    joint = jointly_completed(groups, (Condition.H1, *CELLS)).groups
    if not joint:
        return ()
    found = []
    for endpoint in endpoints:
        matches = [
            [[[endpoint(g.path(cell)) == endpoint(g.path(Condition.H1))] for cell in row] for row in FACTORIAL]
            for g in joint
        ]
        left_out = len(groups) - len(joint)
        found.append(Factorial(endpoint=endpoint, effects=factorial_effects(matches), left_out=left_out))
    return tuple(found)


def _metrics(executed: Sequence[Executed], arm: ArmSpec) -> tuple[Metric, ...]:
    found = []
    for condition in arm.conditions:
        counted = [
            one
            for one in executed
            if one.condition is condition and all(a.standing is Standing.COUNTED for a in one.attempts)
        ]
        names = dict.fromkeys(name for one in counted for name, _ in one.metrics)
        for name in names:
            values = [Fraction(value) for one in counted for metric, value in one.metrics if metric == name]
            mean = sum(values, Fraction(0)) / len(values)
            found.append(Metric(name=name, condition=condition, executions=len(values), mean=mean))
    return tuple(found)


def _across(
    spec: StudySpec, series: Sequence[Series], endpoints: Sequence[Endpoint]
) -> tuple[tuple[str, str, Across], ...]:
    """Arms that differ in masking or prompt alone, each with the first such arm that shows everything, condition by
    condition.
    """
    found = []
    for place, arm in enumerate(spec.arms):
        for base in spec.arms[:place]:
            if (base.temperature, base.repeats) != (arm.temperature, arm.repeats):
                continue
            if (base.masking, base.prompt) == (arm.masking, arm.prompt):
                continue
            shown, other = (
                [a for one in series if one.arm == name for a in one.attempts] for name in (base.name, arm.name)
            )
            for condition in [name for name in base.conditions if name in arm.conditions]:
                found += [(base.name, arm.name, across(shown, other, condition, endpoint)) for endpoint in endpoints]
            break
    return tuple(found)
