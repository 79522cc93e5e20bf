"""Growing restoration budgets along a fixed order, what each recovers, and what it leaves."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from numpy.typing import ArrayLike

from veristate.audit.recovery.blocks import Blocks, Pair
from veristate.audit.recovery.exposures import Exposure, exposure
from veristate.audit.recovery.priorities import Priority
from veristate.audit.recovery.replays import ArrayEndpoint, replays
from veristate.audit.recovery.rows import RowEndpoint
from veristate.audit.selections import Selection
from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One budget of a curve: `distance` of the endpoint from the reference's, and `remaining` differing coordinates of
    the whole array.
    """

    budget: int
    distance: int
    exposure: Exposure
    remaining: int

    @property
    def recovered(self) -> bool:
        """Whether the endpoint is the reference's."""
        return self.distance == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One capture along one order. `first` is the smallest tested budget that recovers, None when none does; a larger
    one may fail again.
    """

    name: str
    steps: tuple[Step, ...]

    @property
    def changed(self) -> bool:
        """Whether the candidate's endpoint, without any restoration, is not the reference's."""
        return not self.steps[0].recovered

    @property
    def first(self) -> int | None:
        """The smallest tested budget at which the endpoint is the reference's."""
        return next((step.budget for step in self.steps if step.recovered), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A priority on its confirmation captures. What is said of recovery is said of the changed ones among `curves`."""

    priority: str
    eligible: int
    curves: tuple[Curve, ...]

    @property
    def changed(self) -> tuple[Curve, ...]:
        """The captures that have something to recover."""
        return tuple(curve for curve in self.curves if curve.changed)

    @property
    def recovered(self) -> tuple[tuple[int, Fraction], ...]:
        """(budget, the fraction of the changed captures recovered at it); empty when none is changed."""
        count = len(self.changed)
        if not count:
            return ()
        columns = zip(*(curve.steps for curve in self.changed), strict=True)
        return tuple((steps[0].budget, Fraction(sum(step.recovered for step in steps), count)) for steps in columns)

    @property
    def auc(self) -> Fraction | None:
        """The area under `recovered` over b / eligible, by trapezoids; None when no capture is changed.

        Source: BioAgent-DF C.1, Table C1. Exact: a Fraction.
        """
        return area(self.recovered, self.eligible) if self.recovered else None

    @property
    def first_for_all(self) -> int | None:
        """The smallest tested budget at which every changed capture is recovered, None when there is none."""
        return next((budget for budget, share in self.recovered if share == 1), None)


def doubling_budgets(eligible: int) -> tuple[int, ...]:
    """0, 1, 2, 4, ... below `eligible`, and `eligible` itself. Source: BioAgent-DF Algorithm 2."""
    doubled = [2**k for k in range(eligible.bit_length()) if 2**k < eligible]
    return tuple(dict.fromkeys([0, *doubled, eligible]))


def area(points: Iterable[tuple[int, Fraction]], eligible: int) -> Fraction:
    """The trapezoidal area under the points over b / eligible. Raises: InputError for no blocks."""
    if eligible < 1:
        raise InputError("no block is eligible: there is no budget axis")
    ordered = sorted(points)
    return sum(((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(ordered)), Fraction(0)) / eligible


def recovery_curve(
    pair: Pair,
    blocks: Blocks,
    endpoint: RowEndpoint | ArrayEndpoint,
    order: ArrayLike,
    *,
    budgets: Sequence[int] | None = None,
    region: Selection | None = None,
) -> Curve:
    """What restoring the first b blocks of `order` recovers, for each budget b; `region` is Omega, the whole array
    where none is given.

    Raises: InputError for an order that isn't one of all blocks, and budgets that don't rise from 0 to their number.
    Source: BioAgent-DF Algorithm 2.
    """
    ranked = blocks.require_order(order)
    tested = _budgets(budgets, blocks.count)
    distances = replays(pair, blocks, endpoint).restored([ranked[:b] for b in tested])
    differing = Selection.of(pair.differing)
    visited = Selection.full(pair.h.shape) if region is None else region
    steps = []
    for budget, distance in zip(tested, distances, strict=True):
        chosen = ranked[:budget]
        found = exposure(blocks, chosen, differing, visited)
        left = len(differing - blocks.selection(chosen))
        steps.append(Step(budget=budget, distance=int(distance), exposure=found, remaining=left))
    return Curve(name=pair.name, steps=tuple(steps))


def judge(
    priority: Priority | Callable[[Pair], Priority],
    confirmation: Sequence[Pair],
    blocks: Blocks,
    endpoint: RowEndpoint | ArrayEndpoint,
    *,
    budgets: Sequence[int] | None = None,
) -> Judgement:
    """A fixed priority on captures it was not developed on, or one that is made for each capture from itself.

    Raises: InputError for no captures, and for a confirmation capture that has no name or is one of those the priority
    was developed on.
    """
    if not confirmation:
        raise InputError("a priority is judged on one confirmation capture or more")
    curves, name = [], ""
    for pair in confirmation:
        own = priority if isinstance(priority, Priority) else priority(pair)
        name = own.name
        if not pair.name or pair.name in own.developed_on:
            raise InputError(
                f"capture {pair.name or 'without a name'} can't confirm {name}: confirmation captures are named by "
                "their digest, and are not those the priority was developed on"
            )
        curves.append(recovery_curve(pair, blocks, endpoint, own.order, budgets=budgets))
    return Judgement(priority=name, eligible=blocks.count, curves=tuple(curves))


def _budgets(budgets: Sequence[int] | None, eligible: int) -> tuple[int, ...]:
    tested = doubling_budgets(eligible) if budgets is None else tuple(budgets)
    rising = all(a < b for a, b in pairwise(tested))
    if not tested or tested[0] != 0 or tested[-1] > eligible or not rising:
        raise InputError(f"budgets rise from 0 to at most the {eligible} eligible blocks, got {tested}")
    return tested
