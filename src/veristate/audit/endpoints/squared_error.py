"""Squared errors of predictions, and how a candidate's differences move them."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorShift:
    """How far the mean squared error moved, and the two parts that explain it; each rounded once from its exact value.

    Maths: with e the reference error and d the candidate's difference from the reference, over the same rows,
    mse_candidate - mse_reference = 2 mean(e d) + mean(d^2).
    Units: the squared unit of the predictions.
    Source: BioAgent-DF 4.1.
    """

    rows: int
    mse_reference: float
    mse_candidate: float
    shift: float
    cross_term: float
    square_term: float

    @property
    def left(self) -> float:
        """The shift itself."""
        return self.shift

    @property
    def right(self) -> float:
        """The shift as the sum of its two parts."""
        return self.cross_term + self.square_term

    @property
    def closure(self) -> float:
        """What rounding leaves of the identity: |left - right| as a share of |cross_term| + square_term."""
        scale = abs(self.cross_term) + self.square_term
        return abs(self.left - self.right) / scale if scale else abs(self.left)

    @property
    def rmse_reference(self) -> float:
        """The reference's root mean squared error, in the unit of the predictions."""
        return math.sqrt(self.mse_reference)

    @property
    def rmse_candidate(self) -> float:
        """The candidate's root mean squared error, in the unit of the predictions."""
        return math.sqrt(self.mse_candidate)


def error_shift(reference: ArrayLike, candidate: ArrayLike, target: ArrayLike) -> ErrorShift:
    """The shift of the mean squared error and its parts, left side and right side each from its own exact sum.

    Shapes: all three [n].
    Raises: InputError for other shapes, no rows, values that are not finite, and squares beyond float64.
    """
    healthy, suspect, wanted = (_require(values) for values in (reference, candidate, target))
    if not healthy.shape == suspect.shape == wanted.shape or healthy.size == 0:
        raise InputError(
            f"reference, candidate and target have shapes {healthy.shape}, {suspect.shape}, {wanted.shape}; "
            "give the same rows, at least one"
        )
    h, c, y, unit = _whole(healthy, suspect, wanted)
    errors = [a - b for a, b in zip(h, y, strict=True)]
    moves = [a - b for a, b in zip(c, h, strict=True)]
    before = sum(e * e for e in errors)
    after = sum((a - b) ** 2 for a, b in zip(c, y, strict=True))
    scale = unit * unit / healthy.size
    sums = {
        "mse_reference": before,
        "mse_candidate": after,
        "shift": after - before,
        "cross_term": 2 * sum(e * d for e, d in zip(errors, moves, strict=True)),
        "square_term": sum(d * d for d in moves),
    }
    try:
        return ErrorShift(rows=healthy.size, **{name: float(total * scale) for name, total in sums.items()})
    except OverflowError as error:
        raise InputError("the squared errors exceed float64; scale predictions and targets down") from error


def rmse(predicted: ArrayLike, target: ArrayLike) -> float:
    """The root mean squared error, from the exact mean of squares.

    Shapes: both [n].
    Raises: InputError as `error_shift` does.
    """
    return error_shift(predicted, predicted, target).rmse_reference


def _whole(*arrays: Floats) -> tuple[list[int], list[int], list[int], Fraction]:
    """The values as exact whole multiples of one power of two, and that power."""
    mantissas, exponents = np.frexp(np.stack(arrays))
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = int(exponents[whole != 0].min()) if whole.any() else 0
    shifts = np.where(whole != 0, exponents - lowest, 0)
    first, second, third = (
        [value << shift for value, shift in zip(row, by, strict=True)]
        for row, by in zip(whole.tolist(), shifts.tolist(), strict=True)
    )
    return first, second, third, Fraction(2) ** (lowest - 53)


def _require(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"predictions and targets must be finite and one-dimensional; one has shape {array.shape}")
    return array
