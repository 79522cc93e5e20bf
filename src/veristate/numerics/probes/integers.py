"""The row check in integers (contract C4): uniform words, wraparound, no tolerance and no false alarm.

Y = X W^T + b in whole numbers holds modulo 2^64 too. A row with an error e, |e_j| <= 2 L, passes a word when <g, e> is
0 modulo 2^64: with 2^v the largest power of two in all of e, <g, e> is uniform over the multiples of 2^v, so that has
the chance 2^-(64 - v), and v is less than the bits of 2 L.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.probes.draws import Probes

Whole = NDArray[np.int64]
MOST_WORDS = 16


def accumulator_limit(W: Whole, b: Whole, most: int) -> int:
    """The largest |X W^T + b| for |X| <= `most`, exactly."""
    sums = np.abs(W.astype(object)).sum(axis=1) * most + np.abs(b.astype(object))  # -2^63 has no |.| in 64 bits
    return int(max(sums, default=0))


def words_needed(delta: str, rows: int, limit: int) -> int:
    """How many words make P(some wrong row of `rows` passes) <= delta when no accumulator exceeds `limit`: even, as
    all numbers of draws are. Raises: InputError where 64 bits are too few to tell.
    """
    for words in range(2, MOST_WORDS + 1, 2):
        if chance(rows, limit, words) <= Fraction(delta):
            return words
    raise InputError(f"accumulators up to {limit} need more than {MOST_WORDS} words of 64 bits; use narrower operands")


def chance(rows: int, limit: int, words: int) -> Fraction:
    """An upper bound of P(some wrong row of `rows` passes that many words)."""
    each = 65 - (2 * limit).bit_length()
    return Fraction(rows, 2 ** (each * words)) if each > 0 else Fraction(1)


def check_integers(
    probes: Probes, name: str, W: Whole, b: Whole, X: Whole, limit: int, *, weights: str
) -> NDArray[np.bool_]:
    """Which exported accumulators [R, N] are X W^T + b, except with the plan's probability for all rows together.

    Shapes: W [N, K], b [N], X [R, K] trusted. A row beyond `limit` is wrong without a probe.
    Raises: InputError when the device used other weights, or the plan's draws are too few for its delta and rows;
    RefusedError for probes that were used.
    """
    if probes.export.weights != weights:
        raise InputError(
            f"the export names weights {probes.export.weights[:12]} and the check holds {weights[:12]}: one is stale"
        )
    plan = probes.plan
    if chance(plan.rows, limit, plan.draws) > Fraction(plan.delta):
        raise InputError(f"{plan.draws} words don't reach delta {plan.delta} for {plan.rows} rows up to {limit}")
    given, words = probes.words(name)
    if given.dtype != np.int64 or given.shape != (len(X), len(W)):
        raise InputError(
            f"accumulators {given.dtype} {given.shape} were exported where int64 {(len(X), len(W))} belong"
        )
    inside = ((given <= limit) & (given >= -limit)).all(axis=1)
    left = _wrapped(given) @ words - _wrapped(X) @ (_wrapped(W).T @ words) - _wrapped(b) @ words
    return np.asarray(inside & (left == 0).all(axis=1))


def _wrapped(values: NDArray[Any]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
