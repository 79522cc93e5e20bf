"""Which claims a capture is tried on, and which coordinates its selective conditions replace."""

from collections.abc import Mapping, Sequence

from veristate.audit.design import (
    SELECTIVE,
    Condition,
    PlannedGroup,
    Role,
    changed_rows,
    developed_selection,
    minimal_selection,
)
from veristate.audit.recovery import TopK
from veristate.audit.selections import Selection
from veristate.audit.study.benches.capturing import StudyCapture
from veristate.audit.study.spec import ClaimsSpec, SelectionKind
from veristate.core import InputError

# A search delivers so many documents.
RETRIEVED = 10


def groups_of(
    one: StudyCapture, chosen: ClaimsSpec, rows: Mapping[str, int], conditions: tuple[Condition, ...]
) -> list[PlannedGroup]:
    """The claims of one capture. Raises: InputError for names that are no claim."""
    unknown = [name for name in (*chosen.named, *chosen.controls) if name not in rows]
    if unknown:
        raise InputError(f"claims: {', '.join(unknown)} is none of the task's claims")
    names = {"all": list(rows), "named": list(chosen.named), "changed": []}[chosen.choose]
    if chosen.choose == "changed":
        replaced = _replaced(one, rows)
        names = sorted(replaced, key=lambda name: (-replaced[name], rows[name]))
    names = [name for name in names if name not in chosen.controls]
    names = sorted(names[: chosen.most or len(names)], key=rows.__getitem__)
    placed = [(name, Role.CHOSEN) for name in names] + [(name, Role.CONTROL) for name in chosen.controls]
    return [PlannedGroup(capture=one.name, task=name, role=role, conditions=conditions) for name, role in placed]


def _replaced(one: StudyCapture, rows: Mapping[str, int]) -> dict[str, int]:
    """The claims whose list changes its members under a capture, and how many members are replaced."""
    endpoint = TopK(k=RETRIEVED)
    reference, candidate = endpoint(one.capture.h), endpoint(one.capture.c)
    changed = set(changed_rows(one.capture, endpoint))
    return {name: len(set(reference[row]) - set(candidate[row])) for name, row in rows.items() if row in changed}


def selection_of(
    one: StudyCapture,
    captures: Sequence[StudyCapture],
    kind: SelectionKind,
    rows: Sequence[int],
    conditions: Sequence[Condition],
) -> Selection | None:
    """The selection that a capture's selective conditions replace, None where there are none."""
    if not any(condition in SELECTIVE for condition in conditions):
        return None
    if kind == "minimal":
        return minimal_selection(one.capture, TopK(k=RETRIEVED), rows)
    development = [
        other.capture for other in captures if other.role == "development" and other.environment == one.environment
    ]
    return developed_selection(development, TopK(k=RETRIEVED))
