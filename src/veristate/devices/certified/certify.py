"""A pass certified cheaply: planned, exported, probed, bounded, and narrowed where decisions are still open."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, RefusedError
from veristate.decisions import Box, Question
from veristate.decisions.enclosures import Declined, Narrowed, Terms, Wanted, narrow_rounds
from veristate.devices.certified.bounds import MemberBounds, export_rows, member_bounds
from veristate.devices.certified.exporting import graphs_of
from veristate.devices.certified.graphs import Environments, environments
from veristate.devices.certified.members import Member, member_of
from veristate.devices.certified.memo import memoised_pass
from veristate.devices.certified.planner import Clock, Estimate, Plan, Rates, choose, estimates_of
from veristate.devices.predictors.chemprop import ChempropPredictor
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan

# Runs a member over a stretch of batches on the suspect device; the environments say which rows to export.
SuspectRun = Callable[[int, range, Environments], tuple[NDArray[np.float32], Export]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of a pass, and the seconds that making it took."""

    plan: Plan
    spent: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertifiedPass:
    """What a pass ended with. `scores` are the suspect's [m, n], float32, where it ran; `values` the certified ones,
    where values are certified; `narrowed` the enclosures and decisions under C1. `records` belong into the journal;
    `predicted` and `spent` are seconds of the trusted side.
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
        if self.narrowed is not None:
            found |= {"units_recomputed": str(self.narrowed.units_spent), "ended": self.narrowed.ended}
        return found


# Candidates whose environments are held at once. All 2,845 of the default case at once take its peak memory from 1.8 to
# 2.1 GB and save no time.
STRETCH = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrustedSide:
    """The trusted predictor's members as bounds know them, and the stretches of its table."""

    predictor: ChempropPredictor
    members: tuple[Member, ...]
    stretches: tuple[range, ...]
    _kept: dict[range, Environments] = field(default_factory=dict)

    @classmethod
    def of(cls, predictor: ChempropPredictor, stretch: int = STRETCH) -> "TrustedSide | Declined":
        """The trusted side of that predictor, or why its models can't be followed."""
        members = []
        for model in predictor.models:
            member = member_of(model, predictor.output)
            if isinstance(member, Declined):
                return member
            members.append(member)
        if len({member.depth for member in members}) > 1:
            return Declined(reason="the members have different depths", next_strategy="full")
        each = max(stretch // max(len(predictor.batches[0]), 1), 1)
        count = len(predictor.batches)
        stretches = tuple(range(b, min(b + each, count)) for b in range(0, count, each))
        return cls(predictor=predictor, members=tuple(members), stretches=stretches)

    def environments(self, stretch: range) -> Environments:
        """The distinct environments of a stretch; those of the last one are kept."""
        if stretch not in self._kept:
            self._kept.clear()
            self._kept[stretch] = environments(graphs_of(self.predictor, stretch), self.members[0].depth)
        return self._kept[stretch]

    def positions(self, batches: range) -> slice:
        """The table positions of consecutive batches."""
        spans = self.predictor.batches
        return slice(spans[batches.start].start, spans[batches.stop - 1].stop)

    def plan_probes(self, wanted: Wanted) -> ProbePlan:
        """Delta and T, before anything is exported: in a table of several stretches every bond and atom counts, as if
        no two environments were equal, so that none need be known beforehand.
        """
        if len(self.stretches) == 1:
            rows = export_rows(self.environments(self.stretches[0]), wanted.trusted)
        else:
            depths = max(self.members[0].depth - wanted.trusted, 0)
            rows = sum(len(a) + depths * len(b) for a, b in zip(self._atoms(), self._bonds(), strict=True))
        return ProbePlan(delta=wanted.delta, rows=max(rows * len(self.members), 1), draws=wanted.draws)

    def enclose(self, asked: Mask) -> Box:
        """Enclosures of the exact values of these units, from scratch in FP64; the rest is left open."""
        lower, upper = np.full(asked.shape, -np.inf), np.full(asked.shape, np.inf)
        for number, positions in enumerate(self.predictor.batches):
            inside = asked[:, positions.start : positions.stop]
            local = np.flatnonzero(inside.any(axis=0))
            if not len(local):
                continue
            env = environments(graphs_of(self.predictor, range(number, number + 1)).only(local), self.members[0].depth)
            for m in np.flatnonzero(inside.any(axis=1)):
                found = member_bounds(self.members[m], env)
                lower[m, positions.start + local], upper[m, positions.start + local] = found.lower, found.upper
        return Box(lower=lower, upper=upper)

    def everything(self) -> Box:
        """Enclosures of all exact values, each distinct environment evaluated once in FP64."""
        found = []
        for stretch in self.stretches:
            env = self.environments(stretch)
            found.append([member_bounds(member, env) for member in self.members])
        return _joined(found)

    def _atoms(self) -> list[NDArray[np.intp]]:
        return self.predictor.atoms

    def _bonds(self) -> list[NDArray[np.intp]]:
        return self.predictor.bonds


def certify_pass(
    question: Question,
    trusted: TrustedSide,
    suspect: SuspectRun,
    wanted: Wanted,
    *,
    entropy: Callable[[int], bytes],
    clock: Clock,
    planned: Planned | None = None,
) -> CertifiedPass:
    """The decisions of the pass, certified under the contract that was asked for, or what is still open.

    `planned` is `plan_pass`'s answer to the same question, where it was asked before.

    Raises: InputError for a contract that nothing here can certify (C3, C4); RefusedError for a plan that does not fit
    the pass; UndecidedError when the evidence contradicts itself.
    Source: BioAgent-DF Algorithm 3.
    """
    if wanted.kind in ("C3", "C4"):
        raise InputError(f"{wanted.kind} can't be certified here: no trusted executor computes it; ask for C1 or C2")
    made = planned or plan_pass(trusted, wanted, clock)
    plan, spent = made.plan, made.spent
    if plan.strategy == "probes":
        return _probed(question, trusted, suspect, wanted, plan, spent, entropy, clock)
    if wanted.kind == "C1":
        return _evaluated(question, trusted, wanted, plan, spent, clock)
    return _recomputed(trusted, wanted, plan, spent, clock)


def plan_pass(trusted: TrustedSide, wanted: Wanted, clock: Clock) -> Planned:
    """How the pass will be certified, from rates measured now. Raises: RefusedError when nothing is left to choose.

    A strategy that needs every unit is not chosen under a smaller budget; asked for by name, it is refused later.
    """
    begun, first = clock(), trusted.stretches[0]
    count = trusted.predictor.batches[-1].stop
    env = trusted.environments(first)
    prepared = clock() - begun
    rates = Rates.measure(clock, len(trusted.members[0].step.W), wanted.draws)
    share = len(env.graphs) / count
    weighed = estimates_of(wanted.kind, trusted.members, env, share, rates, trusted=wanted.trusted, prepared=prepared)
    units = len(trusted.members) * count
    if wanted.strategy is None and wanted.budget is not None and wanted.budget < units:
        beyond = Declined(
            reason=f"it needs all {units} units and the budget is {wanted.budget}", next_strategy="probes"
        )
        weighed = tuple(e if e.strategy == "probes" else replace(e, declined=beyond) for e in weighed)
    plan = choose(wanted.kind, trusted.predictor.spec.dtype, weighed, values=wanted.values, asked=wanted.strategy)
    return Planned(plan=plan, spent=clock() - begun)


def _probed(
    question: Question,
    trusted: TrustedSide,
    suspect: SuspectRun,
    wanted: Wanted,
    plan: Plan,
    spent: float,
    entropy: Callable[[int], bytes],
    clock: Clock,
) -> CertifiedPass:
    begun = clock()
    account = ProbeAccount(trusted.plan_probes(wanted), entropy)
    spent += clock() - begun
    boxes, scores = [], []
    for stretch in trusted.stretches:
        begun = clock()
        env = trusted.environments(stretch)
        spent += clock() - begun
        found, given = [], []
        for number, member in enumerate(trusted.members):
            run, export = suspect(number, stretch, env)
            begun = clock()
            found.append(member_bounds(member, env, account.draw(export), trusted=wanted.trusted))
            spent += clock() - begun
            given.append(run)
        boxes.append(found)
        scores.append(np.stack(given))
    begun = clock()
    narrowed = narrow_rounds(question, _joined(boxes), trusted.enclose, budget=wanted.budget)
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta=wanted.delta, certifies="decisions"),
        narrowed=narrowed,
        values=None,
        scores=np.concatenate(scores, axis=1),
        records=account.records,
        predicted=plan.predicted("probes"),
        spent=spent + clock() - begun,
        rows_checked=account.plan.rows - account.rows_left,
    )


def _evaluated(
    question: Question, trusted: TrustedSide, wanted: Wanted, plan: Plan, spent: float, clock: Clock
) -> CertifiedPass:
    """C1 without probes: all values enclosed to the rounding of FP64."""
    begun = clock()
    units = len(trusted.members) * len(question.ids)
    if wanted.budget is not None and units > wanted.budget:
        raise RefusedError(f"{units} units are needed and the budget is {wanted.budget}; raise it or ask for probes")
    done = np.ones((len(trusted.members), len(question.ids)), dtype=np.bool_)
    box = trusted.everything() if plan.strategy == "memo" else trusted.enclose(done)
    narrowed = narrow_rounds(question, box, trusted.enclose, done=done, budget=units)
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta="0", certifies="values"),
        narrowed=narrowed,
        values=None,
        scores=None,
        records=(),
        predicted=plan.predicted(plan.strategy),
        spent=spent + clock() - begun,
    )


def _recomputed(trusted: TrustedSide, wanted: Wanted, plan: Plan, spent: float, clock: Clock) -> CertifiedPass:
    """C2: the bits of a run in its own geometry, memoised where they are qualified."""
    begun = clock()
    units = len(trusted.members) * trusted.predictor.batches[-1].stop
    if wanted.budget is not None and units > wanted.budget:
        raise RefusedError(f"{units} units are needed and the budget is {wanted.budget}; raise it or ask for C1")
    found = memoised_pass(trusted.predictor, trusted.stretches) if plan.strategy == "memo" else None
    if isinstance(found, Declined) or found is None:
        if isinstance(found, Declined):
            declined = [Estimate(strategy="memo", seconds=plan.predicted("memo"), declined=found)]
            kept = tuple(e for e in plan.estimates if e.strategy != "memo")
            plan = Plan(strategy="full", reason=f"{found.reason}; full instead", estimates=(*kept, *declined))
        runs = trusted.predictor
        found = np.stack(
            [np.concatenate([runs.run(m, b) for b in range(len(runs.batches))]) for m in range(len(runs.models))]
        )
    return CertifiedPass(
        plan=plan,
        terms=Terms(kind=wanted.kind, delta="0", certifies="values"),
        narrowed=None,
        values=found,
        scores=None,
        records=(),
        predicted=plan.predicted(plan.strategy),
        spent=spent + clock() - begun,
    )


def _joined(stretches: list[list[MemberBounds]]) -> Box:
    """The enclosures [m, n] of stretches of members."""
    lower = np.concatenate([np.stack([b.lower for b in found]) for found in stretches], axis=1)
    upper = np.concatenate([np.stack([b.upper for b in found]) for found in stretches], axis=1)
    return Box(lower=lower, upper=upper)
