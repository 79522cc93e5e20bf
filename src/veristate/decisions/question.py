"""What is asked (rules over candidates), and where its scores stand: the member values, and which of them are fixed.

A unit is one candidate's value from one ensemble member. Masks of units are boolean [m, n].
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import InputError, Rule
from veristate.decisions.admissible import Box, Certified, Unresolved, certify
from veristate.decisions.calibration import ensemble_interval, ensemble_mean
from veristate.decisions.rules import validate_rule
from veristate.decisions.table import (
    PROBABILITY,
    Floats,
    Indices,
    Mask,
    ScoreRange,
    require_classes,
    require_ids,
    require_mask,
    require_members,
    require_temperature,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """Rules over the calibrated ensemble means of some candidates.

    `score_range` is that of a member value; `enclosures`, if there are any, are proven bounds [m, n] on the reference
    values. `classes` [n], if any, names for each candidate the first one whose exact values are the same by definition
    (`equal_inputs`): not for contracts about the bits of a run.

    Raises: InputError for no rule, a rule that can't be asked, identifiers, classes or a temperature that are none.
    """

    rules: tuple[Rule, ...]
    ids: tuple[str, ...]
    temperature: float = 1.0
    score_range: ScoreRange = PROBABILITY
    enclosures: Box | None = None
    classes: Indices | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "ids", require_ids(self.ids))
        object.__setattr__(self, "temperature", require_temperature(self.temperature))
        object.__setattr__(self, "classes", require_classes(self.classes, len(self.ids)))
        if not self.rules:
            raise InputError("no rule was given; there is nothing to decide")
        if self.temperature != 1.0 and self.score_range != PROBABILITY:
            raise InputError(f"a temperature of {self.temperature} needs scores in [0, 1], not {self.score_range}")
        for rule in self.rules:
            validate_rule(rule, len(self.ids), score_range=self.score_range)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Current:
    """Where the scores of a question stand after a round.

    `members` [m, n] are the suspect values with the recomputed ones put in, `fixed` [m, n] says which are recomputed,
    `results` has one certificate or open set per rule.
    """

    question: Question
    members: Floats
    fixed: Mask
    results: tuple[Certified | Unresolved, ...]

    @classmethod
    def of(cls, question: Question, members: ArrayLike, fixed: ArrayLike | None = None) -> Self:
        """The standing that these values give. Suspect values may be anything, NaN included: no box reads them.

        Raises: InputError for shapes that don't fit and fixed values outside the range; UndecidedError when a fixed
        value lies outside its enclosure.
        """
        values = require_members(members, len(question.ids))
        known = np.zeros(values.shape, dtype=np.bool_) if fixed is None else fixed
        mask = require_mask(known, values.shape, "what is fixed")
        box = score_box(question, values, mask)
        span, classes = question.score_range, question.classes
        results = tuple(certify(r, box, question.ids, score_range=span, classes=classes) for r in question.rules)
        for array in (values, mask):
            array.setflags(write=False)
        return cls(question=question, members=values, fixed=mask, results=results)

    @property
    def certified(self) -> bool:
        """Whether every rule takes one value on the admissible set."""
        return all(isinstance(result, Certified) for result in self.results)

    def scores(self) -> Floats:
        """The calibrated ensemble means [n] of the values as they stand; no certificate rests on them.

        Raises: InputError while a value is NaN or, at a temperature other than 1, no probability.
        """
        return ensemble_mean(self.members, self.question.temperature)

    def impossible(self) -> Mask:
        """The units [m, n] whose value is not finite or lies outside the score range."""
        return ~self.question.score_range.holds(self.members)

    def open_units(self) -> Mask:
        """The units [m, n] not yet fixed of candidates that some rule leaves open."""
        candidates = np.zeros(len(self.question.ids), dtype=np.bool_)
        for result in self.results:
            if isinstance(result, Unresolved):
                candidates[list(result.indices)] = True
        return candidates & ~self.fixed


def score_box(question: Question, members: Floats, fixed: Mask) -> Box:
    """The admissible scores [n]: recomputed bits, enclosures and the score range, through the calibrated mean.

    Raises: as `Box.from_recomputed` and `Box.with_enclosures` do.
    """
    box = Box.from_recomputed(members, fixed, question.score_range)
    if question.enclosures is not None:
        box = box.with_enclosures(question.enclosures)
    box = box.with_equal(question.classes)
    lower, upper = ensemble_interval(box.lower, box.upper, question.temperature)
    return Box(lower=lower, upper=upper)
