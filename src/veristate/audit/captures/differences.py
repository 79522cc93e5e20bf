"""Of which class each difference between reference and candidate is: how much it says about the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.captures.capture import Capture
from veristate.core import InputError
from veristate.numerics import LinearArithmetic, Operands, Weights, check_elements


class DifferenceClass(IntEnum):
    """NONE: the bits agree. PROVEN: the candidate is above the rounding bound and the reference is not. ORDINARY: no
    larger than what benign settings vary. UNRESOLVED: neither. CONSTRUCTED: made by a simulator or by hand.
    """

    NONE = 0
    PROVEN = 1
    UNRESOLVED = 2
    ORDINARY = 3
    CONSTRUCTED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """What a healthy machine computes at the site, Y = X W^T + b, and in what arithmetic.

    Shapes: X [M, K] for values [..., N] with M rows in all. The operands as they were multiplied: rounded to bf16
    where the arithmetic says so.
    """

    X: NDArray[Any]
    weights: Weights
    arithmetic: LinearArithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`classes`, in the capture's shape, holds a `DifferenceClass` a coordinate. `reference_above` counts coordinates
    whose reference is above the bound as well: no reference for anything, so their difference is unresolved.
    """

    classes: NDArray[np.int8]
    reference_above: int

    def mask(self, kind: DifferenceClass) -> NDArray[np.bool_]:
        """The coordinates of that class."""
        return np.asarray(self.classes == kind, dtype=np.bool_)

    def counts(self) -> dict[DifferenceClass, int]:
        """How many coordinates each class has; they add up to all coordinates."""
        return {kind: int((self.classes == kind).sum()) for kind in DifferenceClass}


def ordinary_bound(reference: NDArray[Any], benign: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The largest |b - h| of each coordinate over runs under benign settings: threads, batch, kernels, precision.

    Infinite where a benign run gave something that is not finite and the reference is, or the other way round.
    Raises: InputError for no runs, or runs of another shape.
    """
    if not benign:
        raise InputError("no benign runs were given: ordinary precision can't be told from them")
    largest = np.zeros(reference.shape)
    for number, run in enumerate(benign):
        if run.shape != reference.shape:
            raise InputError(f"benign run {number} has shape {run.shape}, the reference {reference.shape}")
        largest = np.maximum(largest, _distance(run, reference))
    return largest


def classify(
    capture: Capture, *, computation: Computation | None = None, ordinary: ArrayLike | None = None
) -> Differences:
    """The class of every coordinate.

    `computation` lets differences be proven; `ordinary` is the largest ordinary |c - h|, one number or one a
    coordinate. Without them a difference is unresolved, and one of a constructed capture is constructed always.
    Raises: InputError for shapes that don't fit, or an ordinary bound that is negative or NaN.
    Source: BioAgent-DF 2.1, A.3.
    """
    differing = capture.differing
    classes = np.where(differing, DifferenceClass.UNRESOLVED, DifferenceClass.NONE).astype(np.int8)
    if capture.constructed:
        classes[differing] = DifferenceClass.CONSTRUCTED
        return Differences(classes=classes, reference_above=0)
    if ordinary is not None:
        classes[differing & (_distance(capture.c, capture.h) <= _bound(ordinary, capture))] = DifferenceClass.ORDINARY
    above = 0
    if computation is not None:
        candidate, reference = _above_bound(capture, computation, differing)
        classes[candidate] = DifferenceClass.PROVEN
        classes[reference] = DifferenceClass.UNRESOLVED
        above = int(reference.sum())
    return Differences(classes=classes, reference_above=above)


def _above_bound(
    capture: Capture, computation: Computation, differing: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where the candidate, and where the reference, is above the bound among the differing coordinates."""
    if not capture.shape:
        raise InputError("a single number is no output of a linear layer")
    flat = differing.reshape(-1, capture.shape[-1])
    rows = np.flatnonzero(flat.any(axis=1))
    masks = []
    for values in (capture.c, capture.h):
        call = Operands.of(computation.X, computation.weights, None, values.reshape(-1, capture.shape[-1]))
        mask = np.zeros_like(flat)
        if len(rows):
            mask[rows] = check_elements(call, computation.arithmetic, rows).flag
        masks.append((mask & flat).reshape(capture.shape))
    return masks[0], masks[1]


def _bound(ordinary: ArrayLike, capture: Capture) -> NDArray[np.float64]:
    bound = np.asarray(ordinary, dtype=np.float64)
    if bound.shape not in ((), capture.shape):
        raise InputError(f"the ordinary bound has shape {bound.shape}, the capture {capture.shape}")
    if not (bound >= 0).all():
        raise InputError("the ordinary bound is negative or NaN somewhere; it is a size, 0 or more")
    return bound


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """|a - b| in float64: 0 for equal infinities and for two NaNs, infinite where else one is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))
