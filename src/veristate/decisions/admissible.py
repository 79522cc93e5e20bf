"""The admissible set as a box, and the certificate: the rule takes one value on all of it.

Only three things enter a box: bits recomputed on the trusted executor, the range a score has by its meaning, and
proven enclosures. Margins, passed checksums and estimates have no way in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import Decision, InputError, Rule, UndecidedError
from veristate.decisions.rules import best_first, decision_of, ranking_keys, threshold_of, validate_rule
from veristate.decisions.table import (
    PROBABILITY,
    Floats,
    Indices,
    Mask,
    ScoreRange,
    require_classes,
    require_ids,
    require_mask,
    require_scores,
    text_ranks,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """All arrays between `lower` and `upper`, ends included: of scores [n], or of member values [m, n].

    Made by `trivial`, `from_recomputed` and `with_enclosures`; made directly, it states a proven enclosure.

    Raises: InputError for different shapes, NaN, and lower above upper.
    """

    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            array = np.array(getattr(self, name), dtype=np.float64, order="C")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.lower.shape != self.upper.shape:
            raise InputError(f"a box needs bounds of one shape, not {self.lower.shape} and {self.upper.shape}")
        wrong = ~(self.lower <= self.upper)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"{int(wrong.sum())} entries of a box have lower above upper, or NaN: "
                f"at {where} [{self.lower[where]}, {self.upper[where]}]"
            )

    @classmethod
    def trivial(cls, shape: int | tuple[int, ...], score_range: ScoreRange = PROBABILITY) -> Self:
        """The box that knows nothing but the score range."""
        return cls(lower=np.full(shape, score_range.lower), upper=np.full(shape, score_range.upper))

    @classmethod
    def from_recomputed(cls, values: ArrayLike, fixed: Mask, score_range: ScoreRange = PROBABILITY) -> Self:
        """The box with the recomputed bits where `fixed`, and the score range elsewhere; other values are not read.

        Raises: InputError for a mask of another shape, and for a recomputed value that is no number of the range.
        """
        array = np.asarray(values, dtype=np.float64)
        mask = require_mask(fixed, array.shape, "what was recomputed")
        strange = mask & ~score_range.holds(array)
        if strange.any():
            where = tuple(int(i) for i in np.argwhere(strange)[0])
            span = f"[{score_range.lower!r}, {score_range.upper!r}]"
            raise InputError(f"{int(strange.sum())} recomputed values lie outside {span}: {array[where]} at {where}")
        lower, upper = np.where(mask, array, score_range.lower), np.where(mask, array, score_range.upper)
        return cls(lower=lower, upper=upper)

    def with_enclosures(self, proven: "Box") -> "Box":
        """What lies in this box and in the proven enclosures.

        Raises: InputError for another shape; UndecidedError when an entry would be empty: then an enclosure or a
        recomputed value is wrong, and neither may be used.
        """
        if proven.lower.shape != self.lower.shape:
            raise InputError(f"enclosures of shape {proven.lower.shape} don't fit a box of shape {self.lower.shape}")
        lower, upper = np.maximum(self.lower, proven.lower), np.minimum(self.upper, proven.upper)
        empty = lower > upper
        if empty.any():
            where = tuple(int(i) for i in np.argwhere(empty)[0])
            raise UndecidedError(
                f"the evidence contradicts itself in {int(empty.sum())} entries: at {where} the enclosure "
                f"[{proven.lower[where]}, {proven.upper[where]}] misses [{self.lower[where]}, {self.upper[where]}]"
            )
        return Box(lower=lower, upper=upper)

    def with_equal(self, classes: Indices | None) -> "Box":
        """The box in which the candidates of a class, whose values are equal, have what is known of any of them.

        Raises: UndecidedError when nothing is left of a class: then an enclosure is wrong.
        """
        if classes is None:
            return self
        order = np.argsort(classes, kind="stable")
        first, of = np.unique(classes[order], return_index=True)[1], np.unique(classes, return_inverse=True)[1]
        lower = np.maximum.reduceat(self.lower[..., order], first, axis=-1)[..., of]
        upper = np.minimum.reduceat(self.upper[..., order], first, axis=-1)[..., of]
        if (lower > upper).any():
            where = tuple(int(i) for i in np.argwhere(lower > upper)[0])
            raise UndecidedError(
                f"the evidence contradicts itself: two enclosures of one value, at {where}, are disjoint"
            )
        return Box(lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The rule takes this one value on the whole admissible set."""

    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """The rule takes several values on the admissible set.

    `indices` and `ids` name, in table order, the candidates whose membership is open and whose scores are not fixed.
    There is always one, and settling all of them settles the rule.
    """

    rule: Rule
    indices: tuple[int, ...]
    ids: tuple[str, ...]


def certify(
    rule: Rule,
    box: Box,
    ids: Sequence[str],
    *,
    score_range: ScoreRange = PROBABILITY,
    classes: ArrayLike | None = None,
) -> Certified | Unresolved:
    """`Certified` exactly when the rule takes one value on the box; otherwise what must be settled.

    `classes`, if any, names for each candidate the first one whose score is the same by definition: then on that part
    of the box where these are equal.

    Maths: threshold: lower >= t or upper < t for each candidate. Counting rules: i beats j when lower_i > upper_j, or
    they are equal and id_i < id_j; certified when every chosen candidate beats every other one. Here as two counts per
    candidate over one sorted list of all 2n ends: it is in when fewer than K others could precede it, out when K
    others surely do. A box lets each candidate take its worst end at once, so nothing is lost. Equal candidates move
    together: of a class exactly those with a lesser identifier precede. O(n log n).
    Shapes: box [n], classes [n].
    Raises: InputError for a rule, identifiers, a box or classes that don't fit; UndecidedError as `with_equal` does.
    Source: BioAgent-DF Corollary 1 (K.2).
    Differs: from Corollary 1 by deciding ties with the tie rule, which makes the condition necessary too.
    """
    names = require_ids(ids)
    validate_rule(rule, len(names), score_range=score_range)
    if box.lower.shape != (len(names),):
        raise InputError(f"{len(names)} identifiers need a box of shape ({len(names)},), not {box.lower.shape}")
    equal = require_classes(classes, len(names))
    box = box.with_equal(equal)
    if rule.kind == "threshold":
        t = threshold_of(rule)
        inside, outside = box.lower >= t, box.upper < t
        low, high = box.lower, box.upper
    else:
        low, high = _key_interval(rule, box)
        inside, outside = _settled(low, high, text_ranks(names), rule.count or 0, equal)
    if (inside | outside).all():
        return Certified(decision=decision_of(rule, inside, names))
    # A fixed candidate with open membership waits for others; recomputing it would tell nothing.
    return _unresolved(rule, names, ~(inside | outside) & (low < high))


def nearest_gap_certificate(
    rule: Rule, scores: ArrayLike, e_upper: float, ids: Sequence[str], *, score_range: ScoreRange = PROBABILITY
) -> Certified | Unresolved:
    """`Certified` when no change of every score by at most `e_upper` can change a `nearest` list.

    Maths: with the distances sorted, g = d_(K+1) - d_(K), each distance moves by at most e, so g > 2e suffices.
    Raises: InputError for a rule of another kind, and for a bound that is no number >= 0.
    Source: BioAgent-DF J.1.
    Differs: asks for a few units in the last place more, so that distances rounded to FP64 can't tie.
    """
    names = require_ids(ids)
    values = require_scores(scores, names)
    validate_rule(rule, len(names), score_range=score_range)
    if rule.kind != "nearest":
        raise InputError(f"the gap certificate is for nearest rules, not {rule.kind}; use certify")
    if not 0.0 <= e_upper < np.inf:
        raise InputError(f"the error bound is {e_upper!r}; it must be finite and >= 0")
    keys, count = ranking_keys(rule, values), rule.count or 0
    order = best_first(keys, text_ranks(names))
    chosen = np.zeros(len(names), dtype=np.bool_)
    chosen[order[:count]] = True
    if count == len(names):
        return Certified(decision=decision_of(rule, chosen, names))
    with np.errstate(over="ignore", invalid="ignore"):
        last, first = -keys[order[count - 1]], -keys[order[count]]
        reach = 2.0 * e_upper + 8.0 * np.spacing(first + e_upper)
        if first - last > reach:
            return Certified(decision=decision_of(rule, chosen, names))
        clear = np.where(chosen, first + keys > reach, -keys - last > reach)
    return _unresolved(rule, names, ~clear)


def _unresolved(rule: Rule, ids: tuple[str, ...], unsettled: Mask) -> Unresolved:
    """The candidates of the mask as what must be settled."""
    indices = tuple(int(i) for i in np.flatnonzero(unsettled))
    assert indices, "a rule that is not certified has an open candidate whose score is not fixed"
    return Unresolved(rule=rule, indices=indices, ids=tuple(ids[i] for i in indices))


def _key_interval(rule: Rule, box: Box) -> tuple[Floats, Floats]:
    """The least and the greatest key each candidate can have in the box, both attained."""
    if rule.kind == "top_k":
        return box.lower, box.upper
    at_lower, at_upper = ranking_keys(rule, box.lower), ranking_keys(rule, box.upper)
    t = threshold_of(rule)
    around = (box.lower <= t) & (t <= box.upper)
    return np.minimum(at_lower, at_upper), np.where(around, 0.0, np.maximum(at_lower, at_upper))


def _settled(low: Floats, high: Floats, ranks: Indices, count: int, classes: Indices | None) -> tuple[Mask, Mask]:
    """Which candidates are among the `count` best everywhere in the box, and which are nowhere."""
    n = low.size
    places = np.empty(2 * n, dtype=np.int64)
    # Worst to best; equal ends of different candidates by text, so that no two compare equal.
    places[np.lexsort((-np.tile(ranks, 2), np.concatenate((low, high))))] = np.arange(2 * n)
    low_places, high_places = places[:n], places[n:]
    could_precede = n - np.searchsorted(np.sort(high_places), low_places) - 1  # its own upper end does not count
    surely_precede = n - np.searchsorted(np.sort(low_places), high_places)
    if classes is not None:  # by their ends alone, equal candidates could all precede each other, and none surely
        before, after = _classmates(classes, ranks)
        could_precede = could_precede - np.where(low < high, after, 0)
        surely_precede = surely_precede + np.where(low < high, before, 0)
    return could_precede < count, surely_precede >= count


def _classmates(classes: Indices, ranks: Indices) -> tuple[Indices, Indices]:
    """How many others of its class come before each candidate by text, and how many after."""
    _, of, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    order = np.lexsort((ranks, of))
    before = np.empty_like(ranks)
    before[order] = np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of[order]]
    return before, sizes[of] - 1 - before
