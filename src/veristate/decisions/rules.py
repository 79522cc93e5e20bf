"""A decision rule g: which candidates it chooses, how far two decisions lie apart, how near a score is to a boundary.

One total order for all: the score (for `nearest` the distance to the threshold), then the identifier as text. So equal
scores, -0.0 against 0.0 and K = n have one answer everywhere.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import Decision, InputError, Rule
from veristate.decisions.table import (
    PROBABILITY,
    Floats,
    Indices,
    Mask,
    ScoreRange,
    require_ids,
    require_scores,
    text_ranks,
)

_NEEDS = {"top_k": (True, False), "threshold": (False, True), "nearest": (True, True)}


def validate_rule(rule: Rule, n: int, *, score_range: ScoreRange = PROBABILITY) -> None:
    """Nothing, when the rule can be asked of n candidates whose scores lie in `score_range`.

    Raises: InputError for an unknown kind, a missing or superfluous count or threshold, a count outside 1..n, and a
    threshold that is no number or lies outside the score range.
    """
    if rule.kind not in _NEEDS:
        raise InputError(f"unknown rule kind {rule.kind!r}; use one of {', '.join(_NEEDS)}")
    for name, value, needed in zip(
        ("count", "threshold"), (rule.count, rule.threshold), _NEEDS[rule.kind], strict=True
    ):
        if needed and value is None:
            raise InputError(f"a {rule.kind} rule needs a {name}")
        if not needed and value is not None:
            raise InputError(f"a {rule.kind} rule has no {name}, but {name} {value!r} was given; leave it out")
    if rule.count is not None and not (type(rule.count) is int and 1 <= rule.count <= n):
        raise InputError(f"the count of a {rule.kind} rule is {rule.count!r}; with {n} candidates it must be 1..{n}")
    if rule.threshold is not None:
        t = threshold_of(rule)
        if not (math.isfinite(t) and score_range.lower <= t <= score_range.upper):
            span = f"[{score_range.lower!r}, {score_range.upper!r}]"
            raise InputError(f"the threshold {rule.threshold} lies outside the score range {span}")


def threshold_of(rule: Rule) -> float:
    """The float64 nearest to the rule's threshold text: the number that scores are compared with.

    Raises: InputError for text that is no decimal number.
    """
    try:
        return float(rule.threshold)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"the threshold {rule.threshold!r} is no decimal number") from error


def decide(rule: Rule, scores: ArrayLike, ids: Sequence[str], *, score_range: ScoreRange = PROBABILITY) -> Decision:
    """g(scores): the decision of `rule` over the whole candidate set.

    Shapes: scores [n], one per identifier.
    Raises: InputError for a rule, identifiers or scores that allow no decision, naming what is wrong.
    """
    names = require_ids(ids)
    values = require_scores(scores, names)
    validate_rule(rule, len(names), score_range=score_range)
    if rule.kind == "threshold":
        return decision_of(rule, values >= threshold_of(rule), names)
    chosen = np.zeros(len(names), dtype=np.bool_)
    chosen[best_first(ranking_keys(rule, values), text_ranks(names))[: rule.count]] = True
    return decision_of(rule, chosen, names)


def decision_of(rule: Rule, chosen: Mask, ids: tuple[str, ...]) -> Decision:
    """The decision that chooses the candidates of the mask."""
    return Decision(rule=rule, chosen=tuple(sorted(ids[i] for i in np.flatnonzero(chosen))))


def ranking_keys(rule: Rule, values: Floats) -> Floats:
    """What a counting rule ranks by, higher first: the score, or minus the distance to the threshold.

    Maths: the distance is the FP64 difference, rounded to nearest. Rounding is monotone, so an interval of scores has
    its largest distance at one of its ends, exactly.
    """
    if rule.kind == "top_k":
        return values
    with np.errstate(over="ignore"):
        return -np.abs(values - threshold_of(rule))


def distance(a: Decision, b: Decision) -> int:
    """On how many identifiers two decisions of one rule differ: the size of the symmetric difference of the chosen.

    A candidate that only changed places counts nothing; one swapped for another in a Top-K list counts two.

    Raises: InputError when the decisions are of different rules.
    """
    if a.rule != b.rule:
        raise InputError(f"decisions of different rules have no distance: {a.rule} and {b.rule}")
    return len(set(a.chosen) ^ set(b.chosen))


def margins(rule: Rule, scores: ArrayLike, ids: Sequence[str], *, score_range: ScoreRange = PROBABILITY) -> Floats:
    """float64 [n]: how far each candidate's score lies from the boundary of the decision.

    Maths: threshold |p - t|. top_k, with p_(k) the k-th best score: p - p_(K+1) for the chosen, p_(K) - p for the
    others, +inf when K = n. nearest: the same with distances to the threshold, smaller being better.
    Raises: InputError as `decide` does.
    Source: BioAgent-DF I.5; `nearest` follows J.1's shortlist.
    """
    names = require_ids(ids)
    values = require_scores(scores, names)
    validate_rule(rule, len(names), score_range=score_range)
    if rule.kind == "threshold":
        return np.abs(values - threshold_of(rule))
    if rule.count == len(names):
        return np.full(len(names), np.inf)
    keys = ranking_keys(rule, values)
    order = best_first(keys, text_ranks(names))
    count = rule.count or 0
    result: Floats = keys[order[count - 1]] - keys
    result[order[:count]] = keys[order[:count]] - keys[order[count]]
    return result


def best_first(keys: Floats, ranks: Indices) -> Indices:
    """The candidates' indices by key, highest first, ties by text rank. NaN never comes here."""
    return np.lexsort((ranks, -keys))
