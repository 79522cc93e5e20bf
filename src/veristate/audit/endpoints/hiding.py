"""Outputs that look healthy although a fault moved them: normalised rows and clipped gradients."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def softmax(logits: ArrayLike) -> Floats:
    """Each row of logits as probabilities, in float64.

    Shapes: [..., n] to the same.
    """
    values = np.asarray(logits, dtype=np.float64)
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def total_variation(reference: ArrayLike, candidate: ArrayLike) -> Floats:
    """For each row the total variation between two probability rows: half the sum of absolute differences.

    Shapes: both [..., n]; the result [...].
    Source: BioAgent-DF E.2.
    """
    healthy, suspect = _pair(reference, candidate)
    return np.asarray(0.5 * np.abs(healthy - suspect).sum(axis=-1))


def argmax_changes(reference: ArrayLike, candidate: ArrayLike) -> Mask:
    """For each row whether its largest value stands at another place; among equal values the first place counts.

    Shapes: both [..., n]; the result [...].
    Source: BioAgent-DF 4.3, E.2.
    """
    healthy, suspect = _pair(reference, candidate)
    return np.asarray(healthy.argmax(axis=-1) != suspect.argmax(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalisedRows:
    """How many candidate rows pass for healthy, and how many of those a fault moved all the same.

    `healthy_looking` rows are finite, not negative and sum to 1 within the tolerance; `shifted` of them have a total
    variation of at least the stated size, `argmax_changed` of them their largest value elsewhere.
    """

    rows: int
    healthy_looking: int
    shifted: int
    argmax_changed: int
    largest_variation: float


def normalised_rows(
    reference: ArrayLike, candidate: ArrayLike, *, at_least: float = 0.01, tolerance: float = 1e-3
) -> NormalisedRows:
    """The counts over all candidate rows of probabilities, against the reference's rows.

    Shapes: both [..., n].
    Raises: InputError when the reference's own rows are no probabilities.
    Source: BioAgent-DF 4.3, E.2.
    """
    healthy, suspect = _pair(reference, candidate)
    healthy, suspect = healthy.reshape(-1, healthy.shape[-1]), suspect.reshape(-1, suspect.shape[-1])
    strange = int((~_probabilities(healthy, tolerance)).sum())
    if strange:
        raise InputError(f"{strange} reference rows are no probabilities within {tolerance}; normalise them first")
    plausible = _probabilities(suspect, tolerance)
    variation = total_variation(healthy[plausible], suspect[plausible])
    return NormalisedRows(
        rows=len(suspect),
        healthy_looking=int(plausible.sum()),
        shifted=int((variation >= at_least).sum()),
        argmax_changed=int(argmax_changes(healthy[plausible], suspect[plausible]).sum()),
        largest_variation=float(variation.max(initial=0.0)),
    )


def cosine(one: ArrayLike, other: ArrayLike) -> float:
    """The cosine of the angle between two vectors of any shape, flattened; scaled so that no square overflows.

    Raises: InputError for other sizes, a vector of zeros, and values that are not finite.
    """
    first, second = _direction(one), _direction(other)
    if first.shape != second.shape:
        raise InputError(f"vectors of {first.size} and {second.size} entries enclose no angle")
    return float(np.clip(first @ second, -1.0, 1.0))


def clip_to_norm(gradient: ArrayLike, limit: float) -> Floats:
    """The gradient scaled down to Euclidean norm `limit`, or itself when its norm is no larger.

    Differs: common training code divides by the norm plus 1e-6; here the norm afterwards is the limit.
    Raises: InputError for a limit that is not above 0 and for values that are not finite.
    """
    values = _require_finite(gradient)
    if not limit > 0:
        raise InputError(f"the clipping limit is {limit!r}; it must be above 0")
    largest = float(np.abs(values).max(initial=0.0))
    scaled = values / largest if largest else values
    norm = float(np.linalg.norm(scaled))
    return scaled * (limit / norm) if norm * largest > limit else values


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedGradient:
    """Norms of a gradient before and after clipping, and the cosine to the healthy one that clipping can't mend."""

    norm: float
    clipped_norm: float
    cosine: float


def clipped_gradient(reference: ArrayLike, candidate: ArrayLike, limit: float) -> ClippedGradient:
    """What clipping leaves of a faulty gradient: an ordinary norm, and the direction it had.

    Source: BioAgent-DF 4.3, E.2.
    """
    clipped = clip_to_norm(candidate, limit)
    return ClippedGradient(
        norm=_norm(_require_finite(candidate)), clipped_norm=_norm(clipped), cosine=cosine(reference, clipped)
    )


def _direction(values: ArrayLike) -> Floats:
    array = _require_finite(values).ravel()
    largest = np.abs(array).max(initial=0.0)
    if largest == 0:
        raise InputError("a vector of zeros has no direction")
    scaled = array / largest
    return np.asarray(scaled / np.linalg.norm(scaled))


def _norm(values: Floats) -> float:
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.linalg.norm(values.ravel() / largest)) if largest else 0.0


def _probabilities(rows: Floats, tolerance: float) -> Mask:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = rows.sum(axis=-1)
    return np.asarray(np.isfinite(rows).all(axis=-1) & (rows >= 0).all(axis=-1) & (np.abs(sums - 1) <= tolerance))


def _pair(reference: ArrayLike, candidate: ArrayLike) -> tuple[Floats, Floats]:
    healthy, suspect = np.asarray(reference, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if healthy.shape != suspect.shape or healthy.ndim == 0 or healthy.shape[-1] == 0:
        raise InputError(f"rows of shapes {healthy.shape} and {suspect.shape} can't be compared; give the same rows")
    return healthy, suspect


def _require_finite(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InputError("the vector holds values that are not finite; an ordinary monitor stops there")
    return array
