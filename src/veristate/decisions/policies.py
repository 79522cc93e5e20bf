"""Which units a recovery recomputes first: everything, what was flagged (R1), and what lies near a boundary (R1+M).

A policy is a sequence of stages; each looks at the values as they stand and asks for units. Policies only order the
work: what they leave out is not certified by being left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import InputError
from veristate.decisions.question import Current
from veristate.decisions.rules import margins
from veristate.decisions.table import Mask, require_mask, require_members


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One planned round: why, and which units [m, n] it asks for. Units already fixed are not asked for again."""

    reason: str
    choose: Callable[[Current], Mask]


Policy = tuple[Stage, ...]


def full() -> Policy:
    """Every unit in one round: the answer is certified whatever the values were."""
    return (Stage(reason="all", choose=lambda current: np.ones(current.members.shape, dtype=np.bool_)),)


def r1(flagged: Mask) -> Policy:
    """The flagged units [m, n], and those whose value is not finite or outside the score range.

    Raises: InputError, when asked, for a mask of another shape.
    Source: BioAgent-DF 5.2.
    """

    def flagged_or_impossible(current: Current) -> Mask:
        # Without the check a mask [n] would be spread over all members.
        return require_mask(flagged, current.fixed.shape, "the flagged units") | current.impossible()

    return (Stage(reason="flagged", choose=flagged_or_impossible),)


def r1m(flagged: Mask, epsilon_estimate: float) -> Policy:
    """R1, then all members of every candidate that lies near a boundary on the R1 scores.

    Source: BioAgent-DF 5.2 and I.5 (R1+M). An empirical rule: the estimate feeds no certificate.
    Raises: InputError for an estimate that is no number >= 0.
    """
    _require_estimate(epsilon_estimate)
    return r1_then(flagged, "margin", lambda current: near_boundary(current, epsilon_estimate))


def r1_then(flagged: Mask, reason: str, candidates: Callable[[Current], Mask]) -> Policy:
    """R1, then all members of the candidates [n] chosen on the R1 values: for comparing choices of equal size."""

    def whole_candidates(current: Current) -> Mask:
        m, n = current.fixed.shape
        return np.tile(require_mask(candidates(current), (n,), f"the candidates of stage {reason!r}"), (m, 1))

    return (*r1(flagged), Stage(reason=reason, choose=whole_candidates))


def near_boundary(current: Current, epsilon_estimate: float) -> Mask:
    """The candidates [n] for which some rule's margin is strictly below `epsilon_estimate`.

    Raises: InputError as `margins` does, and for an estimate that is no number >= 0.
    Source: BioAgent-DF I.5.
    """
    _require_estimate(epsilon_estimate)
    question, scores = current.question, current.scores()
    near = np.zeros(scores.shape, dtype=np.bool_)
    for rule in question.rules:
        near |= margins(rule, scores, question.ids, score_range=question.score_range) < epsilon_estimate
    return near


def epsilon_from_residuals(residuals: ArrayLike, multiplier: float = 2.0) -> float:
    """An epsilon estimate: `multiplier` times the largest absolute residual.

    `residuals` are calibrated scores after R1 minus the reference's, over a retrospective series.

    Source: BioAgent-DF I.5 (twice the largest).
    Raises: InputError for no residuals, residuals that are not finite, and a multiplier below 0.
    """
    values = np.asarray(residuals, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError("epsilon needs at least one residual, and finite ones only")
    _require_estimate(multiplier)
    return float(multiplier * np.abs(values).max())


def random_choice(n: int, size: int, rng: np.random.Generator) -> Mask:
    """`size` of n candidates, each set equally likely, as a mask [n].

    Raises: InputError for a size outside 0..n.
    Source: BioAgent-DF I.5.
    """
    _require_size(size, n)
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[rng.choice(n, size=size, replace=False)] = True
    return chosen


def disagreement_choice(members: ArrayLike, size: int) -> Mask:
    """The `size` candidates whose members disagree most (standard deviation, ties to the lower index), as a mask [n].

    Shapes: members [m, n].
    Raises: InputError for a size outside 0..n, and for values that are not finite.
    Source: BioAgent-DF I.5.
    """
    values = require_members(members)
    _require_size(size, values.shape[1])
    if not np.isfinite(values).all():
        raise InputError("disagreement needs finite member values; recompute the others first")
    chosen = np.zeros(values.shape[1], dtype=np.bool_)
    chosen[np.argsort(-values.std(axis=0), kind="stable")[:size]] = True
    return chosen


def _require_estimate(value: float) -> None:
    if not 0.0 <= value < np.inf:
        raise InputError(f"{value!r} can't set a margin; give a finite number >= 0")


def _require_size(size: int, n: int) -> None:
    if not 0 <= size <= n:
        raise InputError(f"can't choose {size} of {n} candidates")
