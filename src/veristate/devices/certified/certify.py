"""A pass certified cheaply: planned, exported, probed, bounded, and narrowed where decisions are still open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veristate.core import RefusedError
from veristate.core.records import ContractKind
from veristate.decisions import Box, Question
from veristate.decisions.enclosures import Declined, Narrowed, Strategy, Terms, Wanted, narrow_rounds
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.planner import Estimate, Plan, choose
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, Probes

Clock = Callable[[], float]
# Runs a member over a stretch of batches on the suspect device; the third says what to export of it.
SuspectRun = Callable[[int, range, Any], tuple[NDArray[np.float32], Export]]
Mask = NDArray[np.bool_]
# Kinds under which an export, once checked, gives single values: decisions need no interval.
FIXED: tuple[ContractKind, ...] = ("C3", "C4")


class Side(Protocol):
    """The trusted side of an ensemble over a table: Chemprop's members, a user's chain, or one in whole numbers."""

    @property
    def shape(self) -> tuple[int, int]:
        """Members and candidates."""

    @property
    def dtype(self) -> str:
        """The format of the suspect device."""

    @property
    def exported(self) -> tuple[range, ...]:
        """The stretches of batches whose exports are checked at once."""

    def asked(self, stretch: range) -> Any:
        """What the suspect device is told to export of a stretch."""

    def estimates(self, wanted: Wanted, clock: Clock) -> tuple[Estimate, ...]:
        """Every strategy's predicted seconds, or why this side has no such strategy."""

    def plan_probes(self, wanted: Wanted) -> ProbePlan:
        """Delta and T, before anything is exported."""

    def bounds(self, member: int, stretch: range, probes: Probes, wanted: Wanted) -> MemberBounds:
        """What an export proves of its scores; under C3 and C4 single values."""

    def enclose(self, asked: Mask) -> Box:
        """Enclosures of the exact values of these units."""

    def everything(self, strategy: Strategy) -> Box:
        """Enclosures of all exact values (C1)."""

    def values(self, kind: ContractKind, strategy: Strategy) -> NDArray[np.float32] | Declined:
        """All values of a contract that fixes them, without the suspect device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of a pass, and the seconds that making it took."""

    plan: Plan
    spent: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertifiedPass:
    """What a pass ended with. `scores` are the suspect's [m, n], float32, where it ran; `values` the certified ones,
    where values are certified; `narrowed` the enclosures and decisions under C1. `records` belong into the journal;
    `predicted` and `spent` are seconds of the trusted side, planning included; `evaluated` how many exported values had
    to be computed anew.
    """

    plan: Plan
    terms: Terms
    narrowed: Narrowed | None
    values: NDArray[np.float32] | None
    scores: NDArray[np.float32] | None
    records: tuple[Mapping[str, str], ...]
    predicted: float
    spent: float
    rows_checked: int = 0
    evaluated: int = 0

    @property
    def evidence(self) -> dict[str, str]:
        """What a certificate names as its evidence, and what a report tells of the choice and its cost."""
        found = {
            "strategy": self.plan.strategy,
            "strategy_reason": self.plan.reason,
            "terms": self.terms.in_words(),
            "predicted_seconds": f"{self.predicted:.3g}",
            "spent_seconds": f"{self.spent:.3g}",
        }
        if self.records:
            found |= {"rows_checked": str(self.rows_checked), "probe_draws": str(len(self.records))}
        if self.evaluated:
            found |= {"values_evaluated": str(self.evaluated)}
        if self.narrowed is not None:
            found |= {"units_recomputed": str(self.narrowed.units_spent), "ended": self.narrowed.ended}
        return found


def certify_pass(
    question: Question,
    trusted: Side,
    suspect: SuspectRun,
    wanted: Wanted,
    *,
    entropy: Callable[[int], bytes],
    clock: Clock,
    planned: Planned | None = None,
) -> CertifiedPass:
    """The decisions of the pass, certified under the contract that was asked for, or what is still open.

    `planned` is `plan_pass`'s answer to the same question, where it was asked before.

    Raises: RefusedError when no strategy of this side meets the contract, or its plan does not fit the pass; InputError
    for an export of other weights; UndecidedError when the evidence contradicts itself.
    Source: BioAgent-DF Algorithm 3.
    """
    made = planned or plan_pass(trusted, wanted, clock)
    plan, spent = made.plan, made.spent
    if plan.strategy == "probes":
        return _probed(question, trusted, suspect, wanted, plan, spent, entropy, clock)
    if wanted.kind == "C1":
        return _evaluated(question, trusted, wanted, plan, spent, clock)
    return _recomputed(trusted, wanted, plan, spent, clock)


def plan_pass(trusted: Side, wanted: Wanted, clock: Clock) -> Planned:
    """How the pass will be certified, from each strategy's own work on a sample of the table.

    A strategy that needs every unit is not chosen under a smaller budget; asked for by name, it is refused later.
    Raises: RefusedError when nothing is left to choose.
    """
    begun = clock()
    weighed = trusted.estimates(wanted, clock)
    members, candidates = trusted.shape
    units = members * candidates
    if wanted.strategy is None and wanted.budget is not None and wanted.budget < units:
        beyond = Declined(
            reason=f"it needs all {units} units and the budget is {wanted.budget}", next_strategy="probes"
        )
        weighed = tuple(e if e.strategy == "probes" else replace(e, declined=beyond) for e in weighed)
    plan = choose(wanted.kind, trusted.dtype, weighed, values=wanted.values, asked=wanted.strategy)
    return Planned(plan=plan, spent=clock() - begun)


def _probed(
    question: Question,
    trusted: Side,
    suspect: SuspectRun,
    wanted: Wanted,
    plan: Plan,
    spent: float,
    entropy: Callable[[int], bytes],
    clock: Clock,
) -> CertifiedPass:
    predicted, begun = spent + plan.predicted("probes"), clock()
    account = ProbeAccount(trusted.plan_probes(wanted), entropy)
    spent += clock() - begun
    stretches, scores = [], []
    for stretch in trusted.exported:
        begun = clock()
        asked = trusted.asked(stretch)
        spent += clock() - begun
        found, given = [], []
        for number in range(trusted.shape[0]):
            run, export = suspect(number, stretch, asked)
            begun = clock()
            found.append(trusted.bounds(number, stretch, account.draw(export), wanted))
            spent += clock() - begun
            given.append(run)
        stretches.append(found)
        scores.append(np.stack(given))
    begun = clock()
    box, fixed = joined(stretches), wanted.kind in FIXED
    narrowed = None if fixed else narrow_rounds(question, box, trusted.enclose, budget=wanted.budget)
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta=wanted.delta, certifies="values" if fixed else "decisions"),
        narrowed=narrowed,
        values=box.lower.astype(np.float32) if fixed else None,
        scores=np.concatenate(scores, axis=1),
        records=account.records,
        predicted=predicted,
        spent=spent + clock() - begun,
        rows_checked=account.plan.rows - account.rows_left,
        evaluated=sum(bounds.evaluated for found in stretches for bounds in found),
    )


def _evaluated(
    question: Question, trusted: Side, wanted: Wanted, plan: Plan, spent: float, clock: Clock
) -> CertifiedPass:
    """C1 without probes: all values enclosed to the rounding of FP64."""
    begun = clock()
    units = _within_budget(trusted, wanted, "ask for probes")
    box = trusted.everything(plan.strategy)
    narrowed = narrow_rounds(question, box, trusted.enclose, done=np.ones(trusted.shape, dtype=np.bool_), budget=units)
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta="0", certifies="values"),
        narrowed=narrowed,
        values=None,
        scores=None,
        records=(),
        predicted=spent + plan.predicted(plan.strategy),
        spent=spent + clock() - begun,
    )


def _recomputed(trusted: Side, wanted: Wanted, plan: Plan, spent: float, clock: Clock) -> CertifiedPass:
    """Values that the contract fixes: bits of a run in its own geometry, memoised where qualified; rounded layers."""
    predicted, begun = spent + plan.predicted(plan.strategy), clock()
    _within_budget(trusted, wanted, "ask for C1")
    found = trusted.values(wanted.kind, plan.strategy)
    if isinstance(found, Declined):
        declined = [Estimate(strategy=plan.strategy, seconds=plan.predicted(plan.strategy), declined=found)]
        kept = tuple(e for e in plan.estimates if e.strategy != plan.strategy)
        plan = Plan(strategy="full", reason=f"{found.reason}; full instead", estimates=(*kept, *declined))
        found = trusted.values(wanted.kind, "full")
    if isinstance(found, Declined):
        raise RefusedError(f"no strategy can certify this pass: {found.reason}")
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta="0", certifies="values"),
        narrowed=None,
        values=found,
        scores=None,
        records=(),
        predicted=predicted,
        spent=spent + clock() - begun,
    )


def joined(stretches: Sequence[Sequence[MemberBounds]]) -> Box:
    """The enclosures [m, n] of stretches of members."""
    lower = np.concatenate([np.stack([b.lower for b in found]) for found in stretches], axis=1)
    upper = np.concatenate([np.stack([b.upper for b in found]) for found in stretches], axis=1)
    return Box(lower=lower, upper=upper)


def _within_budget(trusted: Side, wanted: Wanted, instead: str) -> int:
    """All units. Raises: RefusedError when the budget has fewer."""
    members, candidates = trusted.shape
    units = members * candidates
    if wanted.budget is not None and units > wanted.budget:
        raise RefusedError(f"{units} units are needed and the budget is {wanted.budget}; raise it or {instead}")
    return units
