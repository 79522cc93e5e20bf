"""The table of attempts: every one scheduled stands in it, and every one has exactly one standing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veristate.audit.endpoints import Path
from veristate.core import InputError

REFERENCE, REPEAT, CANDIDATE, RESTORED = "H1", "H2", "C", "full"
PAIRED = (REFERENCE, REPEAT, CANDIDATE)
CORE = (*PAIRED, RESTORED)


class Outcome(StrEnum):
    """How an attempt ended. INCOMPLETE: budget exhausted, interrupted, or a service failed; INVALID: an output that
    the protocol does not know.
    """

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class Standing(StrEnum):
    """What a comparison can make of an attempt. COUNTED: completed and exposed; UNEXPOSED: completed, but it never
    accessed the intervention site; MISSING: scheduled in its group, and not in the table.
    """

    COUNTED = "counted"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"
    UNEXPOSED = "unexposed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of one task on one capture under one condition; `repeat` names the technical repeat.

    Raises: InputError for a completed attempt without a path.
    """

    capture: str
    task: str
    repeat: str
    condition: str
    outcome: Outcome
    exposed: bool
    path: Path | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.outcome is Outcome.COMPLETED and self.path is None:
            raise InputError(f"{self.condition} of {self.capture}/{self.task}/{self.repeat} completed without a path")

    @property
    def standing(self) -> Standing:
        """The outcome where it is not completed, else whether the attempt was exposed."""
        if self.outcome is not Outcome.COMPLETED:
            return Standing(self.outcome.value)
        return Standing.COUNTED if self.exposed else Standing.UNEXPOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The attempts of one capture, task and technical repeat, one for each condition.

    Raises: InputError for two attempts of one condition and for an attempt of another group.
    """

    capture: str
    task: str
    repeat: str
    attempts: tuple[Attempt, ...]

    def __post_init__(self) -> None:
        key = (self.capture, self.task, self.repeat)
        if any((attempt.capture, attempt.task, attempt.repeat) != key for attempt in self.attempts):
            raise InputError(f"an attempt of another group stands in group {'/'.join(key)}")
        twice = [name for name, times in Counter(attempt.condition for attempt in self.attempts).items() if times > 1]
        if twice:
            raise InputError(f"group {'/'.join(key)} has condition {twice[0]} more than once; name repeats by `repeat`")

    def standing(self, condition: str) -> Standing:
        """The standing of the attempt under a condition, MISSING where there is none."""
        found = self._find(condition)
        return Standing.MISSING if found is None else found.standing

    def path(self, condition: str) -> Path:
        """The path of the completed attempt under a condition.

        Raises: InputError where there is none.
        """
        found = self._find(condition)
        if found is None or found.path is None:
            raise InputError(f"group {self.capture}/{self.task}/{self.repeat} has no completed {condition}")
        return found.path

    def _find(self, condition: str) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.condition == condition), None)


def grouped(attempts: Iterable[Attempt]) -> tuple[Group, ...]:
    """The groups of the attempts, by capture, task and repeat as text.

    Raises: InputError for two attempts of one group and condition.
    """
    found: dict[tuple[str, str, str], list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault((attempt.capture, attempt.task, attempt.repeat), []).append(attempt)
    return tuple(Group(capture=key[0], task=key[1], repeat=key[2], attempts=tuple(found[key])) for key in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The groups in which every named condition is counted, and what kept the others out.

    `left_out` counts groups by condition and standing: a group that two conditions keep out stands in two counts.

    Source: BioAgent-DF 2.3, F.2.
    """

    conditions: tuple[str, ...]
    scheduled: int
    groups: tuple[Group, ...]
    left_out: tuple[tuple[str, Standing, int], ...]


def jointly_completed(groups: Sequence[Group], conditions: Sequence[str] = CORE) -> Joint:
    """The subset on which all named conditions completed and were exposed, with its denominators."""
    reasons: Counter[tuple[str, Standing]] = Counter()
    kept = []
    for group in groups:
        against = [(name, group.standing(name)) for name in conditions if group.standing(name) is not Standing.COUNTED]
        reasons.update(against)
        if not against:
            kept.append(group)
    return Joint(
        conditions=tuple(conditions),
        scheduled=len(groups),
        groups=tuple(kept),
        left_out=tuple((*key, reasons[key]) for key in sorted(reasons)),
    )
