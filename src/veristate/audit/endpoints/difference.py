"""The path diff: reference, candidate and restored side by side, one row for each place of each component."""

from dataclasses import dataclass
from enum import StrEnum

from veristate.audit.endpoints.path import Component, Path, items


class Mark(StrEnum):
    """How a cell stands to the reference. SAME: the same item at the same place. MOVED: an item of the reference at
    another place. FOREIGN: an item the reference has nowhere. ABSENT: nothing here, though the reference has an item.
    EMPTY: nothing here, and nothing in the reference.
    """

    SAME = "same"
    MOVED = "moved"
    FOREIGN = "foreign"
    ABSENT = "absent"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The item at one place of one attempt, None past its end, and how it stands to the reference."""

    item: str | None
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One place, counted from 1, of one component in three attempts; `restored` is None where there was none."""

    component: Component
    place: int
    reference: str | None
    candidate: Cell
    restored: Cell | None

    @property
    def differs(self) -> bool:
        """Whether the candidate differs from the reference here."""
        return self.candidate.item != self.reference

    @property
    def recovered(self) -> bool:
        """Whether the candidate differs here and the restored attempt has the reference's item again."""
        return self.differs and self.restored is not None and self.restored.item == self.reference


def path_diff(reference: Path, candidate: Path, restored: Path | None = None) -> tuple[DiffRow, ...]:
    """The rows of all components in order, as many for each as its longest attempt has items."""
    return tuple(row for component in Component for row in _component_rows(component, reference, candidate, restored))


def _component_rows(component: Component, reference: Path, candidate: Path, restored: Path | None) -> list[DiffRow]:
    expected, seen = items(reference, component), items(candidate, component)
    again = None if restored is None else items(restored, component)
    return [
        DiffRow(
            component=component,
            place=place + 1,
            reference=_at(expected, place),
            candidate=_cell(expected, seen, place),
            restored=None if again is None else _cell(expected, again, place),
        )
        for place in range(max(len(expected), len(seen), len(again or ())))
    ]


def _cell(expected: tuple[str, ...], seen: tuple[str, ...], place: int) -> Cell:
    item, wanted = _at(seen, place), _at(expected, place)
    if item is None:
        return Cell(item=None, mark=Mark.EMPTY if wanted is None else Mark.ABSENT)
    if item == wanted:
        return Cell(item=item, mark=Mark.SAME)
    return Cell(item=item, mark=Mark.MOVED if item in expected else Mark.FOREIGN)


def _at(sequence: tuple[str, ...], place: int) -> str | None:
    return sequence[place] if place < len(sequence) else None
