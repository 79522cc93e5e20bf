"""Under which conditions a paired audit runs, and the state of the computation that each of them goes on from."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.audit.captures import Capture
from veristate.audit.interventions import Intervention, restore, transplant, transplant_by_residual
from veristate.audit.selections import Selection
from veristate.audit.statistics import CANDIDATE, REFERENCE, REPEAT, RESTORED
from veristate.core import InputError


class Condition(StrEnum):
    """H1, H2: the reference, twice. C: the candidate. FULL, SELECTED: it with all, or the selected, reference values
    put back. TRANSPLANT: the reference with the selected candidate values. ZERO: the reference plus a zero residual.

    The four of the factorial show a list of documents from one state with the values of another: LIST_H_VALUES_C lists
    what the reference ranks and shows the candidate's scores of it.
    """

    H1 = REFERENCE
    H2 = REPEAT
    C = CANDIDATE
    FULL = RESTORED
    SELECTED = "selected"
    TRANSPLANT = "transplant"
    ZERO = "zero"
    LIST_H_VALUES_H = "list H values H"
    LIST_H_VALUES_C = "list H values C"
    LIST_C_VALUES_H = "list C values H"
    LIST_C_VALUES_C = "list C values C"


ALGORITHM_1 = (
    Condition.H1,
    Condition.H2,
    Condition.C,
    Condition.FULL,
    Condition.SELECTED,
    Condition.TRANSPLANT,
    Condition.ZERO,
)
# [list][values], the reference first: the cells of J.1 in the order that `factorial_effects` takes.
FACTORIAL = (
    (Condition.LIST_H_VALUES_H, Condition.LIST_H_VALUES_C),
    (Condition.LIST_C_VALUES_H, Condition.LIST_C_VALUES_C),
)
CELLS = tuple(cell for row in FACTORIAL for cell in row)
SELECTIVE = (Condition.SELECTED, Condition.TRANSPLANT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Treatment:
    """The state that a condition goes on from, in the capture's shape; `shown` are the values that stand beside what
    `state` ranks, the same array except in the factorial's mixed cells.

    `intervention` is None where the state is a capture's own side.
    """

    condition: Condition
    state: NDArray[Any]
    shown: NDArray[Any]
    intervention: Intervention | None = None

    @property
    def selection(self) -> Selection | None:
        """The coordinates an intervention was to replace."""
        return None if self.intervention is None else self.intervention.selection

    @property
    def has_effect(self) -> bool:
        """Whether an intervention changed a stored bit anywhere; a capture's own side counts as having one."""
        return self.intervention is None or bool(self.intervention.effective.mask.any())


def treat(capture: Capture, condition: Condition, selection: Selection | None = None) -> Treatment:
    """The treatment of a capture under a condition; `selection` is for SELECTED and TRANSPLANT alone.

    Restoration and transplantation are by values, so they are exact. The zero treatment goes by residual and is
    refused where a stored bit changed.
    Raises: InputError for a selective condition without a selection, or a zero treatment that was not exact.
    Source: BioAgent-DF 2.2, Algorithm 1, J.1.
    """
    h, c = capture.h, capture.c
    if condition in CELLS:
        listed, valued = next(
            (i, j) for i, row in enumerate(FACTORIAL) for j, cell in enumerate(row) if cell is condition
        )
        return Treatment(condition=condition, state=(h, c)[listed], shown=(h, c)[valued])
    if condition in (Condition.H1, Condition.H2, Condition.C):
        own = c if condition is Condition.C else h
        return Treatment(condition=condition, state=own, shown=own)
    made = _intervention(capture, condition, selection)
    state = made.require_exact()
    return Treatment(condition=condition, state=state, shown=state, intervention=made)


def _intervention(capture: Capture, condition: Condition, selection: Selection | None) -> Intervention:
    everything = Selection.full(capture.shape)
    if condition is Condition.FULL:
        return restore(capture, everything)
    if condition is Condition.ZERO:
        return transplant_by_residual(capture, everything, np.zeros(capture.shape, dtype=np.float32))
    if selection is None:
        raise InputError(f"the condition {condition} replaces a selection of coordinates, and none was given")
    return (restore if condition is Condition.SELECTED else transplant)(capture, selection)
