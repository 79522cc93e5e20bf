"""Interventions on a capture: put reference values into the candidate, or candidate values into the reference.

By selection, which is exact, or by residual, as a device adds one: then what was rebuilt is compared with the
selection bit for bit, since a float subtraction followed by an addition can miss the value it started from.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veristate.audit.captures import Capture
from veristate.audit.selections import Selection
from veristate.core import InputError
from veristate.numerics import Representation, storage_bits, stored

Direction = Literal["restoration", "transplantation"]
# Coordinates that a message names; the outcome holds them all.
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervention:
    """The state that an intervention on `capture` made, and what it did.

    `effective` are the selected coordinates whose stored bits changed against the state it started from; `ineffective`
    the selected ones where nothing changed, because h and c agree there or because Q made no difference. `missed` are
    all coordinates, selected or not, whose bits are not those that the selection by values has.
    """

    capture: Capture
    direction: Direction
    selection: Selection
    state: NDArray[Any]
    effective: Selection
    ineffective: Selection
    missed: Selection

    @property
    def exact(self) -> bool:
        """Whether every coordinate was rebuilt bit for bit."""
        return not self.missed.mask.any()

    def require_exact(self) -> NDArray[Any]:
        """The state. Raises: InputError naming coordinates that were not rebuilt."""
        if not self.exact:
            where = ", ".join(self.capture.reference.coordinate(index) for index in self.missed.indices[:NAMED])
            raise InputError(
                f"{self.direction} by residual missed {len(self.missed)} coordinates after conversion to storage, "
                f"among them {where}; restore or transplant by values instead"
            )
        return self.state


def restore(capture: Capture, selection: Selection) -> Intervention:
    """R_S = select(S, h, c): the candidate with the reference's values in S. Source: BioAgent-DF 2.2."""
    return _made("restoration", capture, selection, _select(selection, capture.h, capture.c))


def transplant(capture: Capture, selection: Selection) -> Intervention:
    """T_S = select(S, c, h): the reference with the candidate's values in S. Source: BioAgent-DF 2.2."""
    return _made("transplantation", capture, selection, _select(selection, capture.c, capture.h))


def restore_by_residual(
    capture: Capture, selection: Selection, residual: NDArray[np.float32] | None = None
) -> Intervention:
    """R~_S = Q(FP32(c) - 1_S r). `residual` replaces the capture's: zeros are the zero treatment, which must change
    nothing, and is compared with the candidate.

    Raises: InputError for a residual of another shape or type.
    Source: BioAgent-DF B.1. Differs: r is masked, not multiplied by 0, so an infinite one spoils nothing outside S.
    """
    given = capture.residual if residual is None else residual
    state = with_residual(capture.c, given, selection, capture.representation, sign=-1)
    return _made("restoration", capture, selection, state, zero=_is_zero(residual))


def transplant_by_residual(
    capture: Capture, selection: Selection, residual: NDArray[np.float32] | None = None
) -> Intervention:
    """T~_S = Q(FP32(h) + 1_S r), as `restore_by_residual`; the zero treatment is compared with the reference."""
    given = capture.residual if residual is None else residual
    state = with_residual(capture.h, given, selection, capture.representation)
    return _made("transplantation", capture, selection, state, zero=_is_zero(residual))


def with_residual(
    values: NDArray[Any],
    residual: NDArray[np.float32],
    selection: Selection,
    representation: Representation,
    *,
    sign: Literal[1, -1] = 1,
) -> NDArray[Any]:
    """Q(FP32(values) + sign 1_S r), to put one residual on the references of several environments.

    Raises: InputError for a residual or selection that doesn't fit the values.
    Source: BioAgent-DF 2.2, F_A(Q(h_A + r)).
    """
    if residual.shape != values.shape or residual.dtype != np.float32:
        raise InputError(
            f"the residual is {residual.dtype} of shape {residual.shape}; the values need float32 of {values.shape}"
        )
    _require_fits(selection, values.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        added = np.where(selection.mask, residual, np.float32(0))
        base = values.astype(np.float32)
        total = base + added if sign == 1 else base - added
    return stored(total, representation)


def controls(capture: Capture) -> dict[str, Intervention]:
    """The controls by name: empty, full and zero-residual treatment by residual, in both directions. Each must be
    exact before an outcome by residual says anything; by values they are exact always.

    Source: BioAgent-DF 2.2, B.1.
    """
    empty, full = Selection.empty(capture.shape), Selection.full(capture.shape)
    zero = np.zeros(capture.shape, dtype=np.float32)
    return {
        "empty restoration": restore_by_residual(capture, empty),
        "full restoration": restore_by_residual(capture, full),
        "zero restoration": restore_by_residual(capture, full, zero),
        "empty transplantation": transplant_by_residual(capture, empty),
        "full transplantation": transplant_by_residual(capture, full),
        "zero transplantation": transplant_by_residual(capture, full, zero),
    }


def _made(
    direction: Direction, capture: Capture, selection: Selection, state: NDArray[Any], *, zero: bool = False
) -> Intervention:
    """The outcome: the state compared with where it started, and with the selection by values."""
    inside, outside = (capture.h, capture.c) if direction == "restoration" else (capture.c, capture.h)
    _require_fits(selection, capture.shape)
    kind = capture.representation
    bits = storage_bits(state, kind)
    wanted = outside if zero else _select(selection, inside, outside)
    changed = Selection.of(np.asarray(bits != storage_bits(outside, kind), dtype=np.bool_))
    return Intervention(
        capture=capture,
        direction=direction,
        selection=selection,
        state=state,
        effective=selection & changed,
        ineffective=selection - changed,
        missed=Selection.of(np.asarray(bits != storage_bits(wanted, kind), dtype=np.bool_)),
    )


def _select(selection: Selection, inside: NDArray[Any], outside: NDArray[Any]) -> NDArray[Any]:
    _require_fits(selection, inside.shape)
    return np.where(selection.mask, inside, outside)


def _is_zero(residual: NDArray[np.float32] | None) -> bool:
    return residual is not None and not residual.any()


def _require_fits(selection: Selection, shape: tuple[int, ...]) -> None:
    if selection.shape != shape:
        raise InputError(f"a selection of shape {selection.shape} can't be made in values of shape {shape}")
