"""In which order the attempts of a design run: references in between, and no condition always after the same one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veristate.audit.design.conditions import Condition
from veristate.core import InputError

_REFERENCES = (Condition.H1, Condition.H2)


class Role(StrEnum):
    """Why a task is in a study: CHOSEN by its change or by name, or CONTROL, taken whether it changed or not."""

    CHOSEN = "chosen"
    CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """One paired group that is to run: the conditions of one capture, task and repeat."""

    capture: str
    task: str
    role: Role
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One attempt that is to run."""

    group: PlannedGroup
    repeat: str
    condition: Condition


def schedule(groups: Sequence[PlannedGroup], repeats: Sequence[str]) -> Iterator[Planned]:
    """Every attempt of the design, repeat by repeat, group by group, each group interleaved.

    Law: each (capture, task, repeat, condition) once. Raises: InputError for repeats or groups that stand twice.
    Source: BioAgent-DF Algorithm 1 (interleave references with other conditions).
    """
    keys = [(group.capture, group.task) for group in groups]
    if len(set(keys)) < len(keys) or len(set(repeats)) < len(repeats):
        raise InputError("a design names each repeat, and each pair of capture and task, once")
    turn = 0
    for repeat in repeats:
        for group in groups:
            for condition in interleaved(group.conditions, turn):
                yield Planned(group=group, repeat=repeat, condition=condition)
            turn += 1


def interleaved(conditions: Sequence[Condition], turn: int) -> tuple[Condition, ...]:
    """H1, then the others with H2 in their middle; the others begin one further with each turn."""
    if len(set(conditions)) < len(conditions):
        raise InputError(f"a condition stands twice in {', '.join(conditions)}")
    others = [condition for condition in conditions if condition not in _REFERENCES]
    start = turn % len(others) if others else 0
    turned = others[start:] + others[:start]
    middle = (len(turned) + 1) // 2
    first = [Condition.H1] if Condition.H1 in conditions else []
    second = [Condition.H2] if Condition.H2 in conditions else []
    return (*first, *turned[:middle], *second, *turned[middle:])
