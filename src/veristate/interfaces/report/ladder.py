"""The candidates in the order of a rule, and where the rule cuts: what the pictures of scores are drawn from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from veristate.core import Rule
from veristate.screening import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Table positions best first; the first `cut` are chosen. Positions without a number are left out.

    `measures` are what the rule compares, by table position: the score, or for `nearest` the distance to the threshold.
    """

    rule: Rule
    order: tuple[int, ...]
    cut: int
    measures: Sequence[float]

    @property
    def last_in(self) -> float | None:
        """The measure of the last chosen candidate."""
        return self.measures[self.order[self.cut - 1]] if self.cut else None

    @property
    def first_out(self) -> float | None:
        """The measure of the first candidate that is not chosen."""
        return self.measures[self.order[self.cut]] if self.cut < len(self.order) else None

    @property
    def gap(self) -> float | None:
        """How far the two lie apart, for a rule that counts."""
        if self.last_in is None or self.first_out is None:
            return None
        return abs(self.last_in - self.first_out)

    @property
    def boundary(self) -> float | None:
        """The threshold, the last chosen score, or for `nearest` the last chosen distance."""
        return threshold(self.rule) if self.rule.kind == "threshold" else self.last_in


def threshold(rule: Rule) -> float:
    """The number a threshold stands for; NaN when the rule has none or its text is no number."""
    try:
        return float(rule.threshold or "nan")
    except ValueError:
        return math.nan


def measure(rule: Rule, value: float) -> float:
    """What the rule compares of a score."""
    return abs(value - threshold(rule)) if rule.kind == "nearest" else value


def ladder(rule: Rule, values: Sequence[float], ids: Sequence[str]) -> Ladder:
    """The ladder of a rule over scores: ties go to the smaller identifier as text, as the rule has it."""
    measures = [measure(rule, value) for value in values]
    sign = 1 if rule.kind == "nearest" else -1
    known = [i for i, value in enumerate(measures) if not math.isnan(value)]
    order = tuple(sorted(known, key=lambda i: (sign * measures[i], ids[i])))
    cut = min(rule.count or 0, len(order))
    if rule.kind == "threshold":
        cut = sum(measures[i] >= threshold(rule) for i in order)
    return Ladder(rule=rule, order=order, cut=cut, measures=measures)


def shown_scores(scores: Scores) -> Sequence[float]:
    """The certified scores, or the unchecked ones when nothing is certified."""
    return scores.before if scores.certified is None else scores.certified


def wrong(scores: Scores) -> list[int]:
    """The table positions whose mean was another before it was certified, or lay outside its interval."""
    if scores.certified is None:
        return []
    if scores.lower is not None and scores.upper is not None:
        ends = zip(scores.lower, scores.before, scores.upper, strict=True)
        return [i for i, (low, value, high) in enumerate(ends) if not low <= value <= high]
    return [i for i, (a, b) in enumerate(zip(scores.before, scores.certified, strict=True)) if a != b]
