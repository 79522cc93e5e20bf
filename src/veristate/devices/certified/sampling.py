"""What each strategy would cost: its own work on the first batches, timed, and scaled by what the table holds.

Rates of single operations were tried first and came out 40 % low: most of a strategy's time lies between them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from veristate.core.records import ContractKind
from veristate.decisions.enclosures import Declined, Wanted
from veristate.devices.certified.bounds import export_rows, member_bounds
from veristate.devices.certified.exporting import graphs_of, places_of
from veristate.devices.certified.graphs import Environments, environments
from veristate.devices.certified.memo import memoised_scores
from veristate.devices.certified.ordered import OrderedEnvironments, ordered_environments
from veristate.devices.certified.planner import Estimate
from veristate.devices.certified.rounded import rounded_scores
from veristate.devices.certified.tables import unavailable
from veristate.numerics import format_named
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan

if TYPE_CHECKING:
    from veristate.devices.certified.side import TrustedSide

Clock = Callable[[], float]
SAMPLED = 2  # batches
# What the parts of a strategy cost beside an evaluated row (a product with W): a row that is checked, an atom that is
# pooled, a candidate's tail.
_CHECKED, _POOLED, _TAIL = 0.3, 0.1, 5.0


def estimates_of(side: "TrustedSide", wanted: Wanted, clock: Clock) -> tuple[Estimate, ...]:
    """Predicted seconds of every strategy for all members, from one member over the first batches."""
    sample = range(min(SAMPLED, len(side.predictor.batches)))
    if wanted.kind == "C1":
        return _exact(side, wanted, clock, sample)
    return _bits(side, clock, sample) if wanted.kind == "C2" else _fixed(side, wanted.kind, clock, sample)


def _exact(side: "TrustedSide", wanted: Wanted, clock: Clock, sample: range) -> tuple[Estimate, ...]:
    """C1: distinct environments checked or evaluated in FP64."""
    member, members = side.members[0], len(side.members)
    small = environments(graphs_of(side.predictor, sample), member.depth)
    sampled, whole = len(small.graphs), side.predictor.batches[-1].stop
    evaluated = _seconds(clock, lambda: member_bounds(member, small))
    begun = clock()
    env = side.environments(side.exported[0])
    found = (clock() - begun) * (whole / len(env.graphs) - 1)  # that of the first stretch is kept
    begun = clock()
    piece = environments(graphs_of(side.predictor, side.stretches[0]), member.depth)
    again = (clock() - begun) * whole / len(piece.graphs)
    share = whole / len(piece.graphs) / _evaluated_rows(small)
    memo = evaluated * members * share * _evaluated_rows(piece) + again
    full = evaluated * members * whole / sampled + again
    probes = _checked(side, wanted, clock, small, env) * members * whole / len(env.graphs) + found
    return _estimates(probes, memo, full)


def _checked(side: "TrustedSide", wanted: Wanted, clock: Clock, small: Environments, env: Environments) -> float:
    """Seconds of checking one member's export of a stretch: what a single candidate costs lies between the operations
    and comes once, the rest grows with the rows.
    """
    alone = environments(small.graphs.only([0]), side.members[0].depth)
    seconds = []
    for sample in (alone, small):
        export = _zeros(side, wanted, sample)
        seconds.append(_seconds(clock, partial(_probed, side, wanted, sample, export)))
    rows = [_checked_rows(e, wanted.trusted) for e in (alone, small, env)]
    return seconds[0] + max(seconds[1] - seconds[0], 0.0) * (rows[2] - rows[0]) / max(rows[1] - rows[0], 1.0)


def _zeros(side: "TrustedSide", wanted: Wanted, env: Environments) -> Export:
    """An export of the right shape, for timing alone."""
    member, places = side.members[0], places_of(env, wanted.trusted)
    width = len(member.step.W)
    return Export.fix({n: [np.zeros((len(p), width), dtype=np.float32)] for n, p in places.items()}, member.weights)


def _probed(side: "TrustedSide", wanted: Wanted, env: Environments, export: Export) -> None:
    """A check with probes that are used for nothing else."""
    plan = ProbePlan(delta=wanted.delta, rows=max(export_rows(env, wanted.trusted), 1), draws=wanted.draws)
    member_bounds(side.members[0], env, ProbeAccount(plan, bytes).draw(export), trusted=wanted.trusted)


def _bits(side: "TrustedSide", clock: Clock, sample: range) -> tuple[Estimate, ...]:
    """C2: the predictor's own run, or its distinct rows alone and a sample of the run."""
    predictor, members = side.predictor, len(side.members)
    bonds = [len(b) for b in predictor.bonds]
    run = _seconds(clock, lambda: [predictor.run(0, b) for b in sample])
    full = run * members * sum(bonds) / max(sum(bonds[b] for b in sample), 1)
    checked = run / len(sample) * members * min(2, len(bonds))
    depth = side.members[0].depth
    small = ordered_environments(graphs_of(predictor, sample), depth)
    begun = clock()
    env = ordered_environments(graphs_of(predictor, side.stretches[0]), depth)
    found = (clock() - begun) * predictor.batches[-1].stop / len(env.graphs)
    if predictor.spec.dtype != "fp32":
        return _estimates(np.inf, np.inf, full)
    memo = _seconds(clock, lambda: memoised_scores(predictor, 0, sample, small))
    share = predictor.batches[-1].stop / len(env.graphs) / _ordered_rows(small)
    return _estimates(np.inf, memo * members * share * _ordered_rows(env) + found + checked, full)


def _fixed(side: "TrustedSide", kind: ContractKind, clock: Clock, sample: range) -> tuple[Estimate, ...]:
    """C3: distinct environments rounded layer by layer. C4: nothing here."""
    if kind == "C4":
        why = "these models compute with real numbers; C4 is for models in whole numbers (IntegerSide)"
        return unavailable(Declined(reason=why, next_strategy="full"))
    member, members, form = side.members[0], len(side.members), format_named(side.dtype)
    small = environments(graphs_of(side.predictor, sample), member.depth)
    piece = environments(graphs_of(side.predictor, side.stretches[0]), member.depth)
    each = _seconds(clock, lambda: rounded_scores(member, small, form)) * members
    whole = side.predictor.batches[-1].stop
    memo = each * whole / len(piece.graphs) * _evaluated_rows(piece) / _evaluated_rows(small)
    why = "Chemprop's modules hand over rounded rows, and the sums before rounding are what can be checked"
    probes, *others = _estimates(np.inf, memo, each * whole / len(small.graphs))
    return (replace(probes, declined=Declined(reason=why, next_strategy="memo")), *others)


def _estimates(probes: float, memo: float, full: float) -> tuple[Estimate, ...]:
    return (
        Estimate(strategy="probes", seconds=probes),
        Estimate(strategy="memo", seconds=memo),
        Estimate(strategy="full", seconds=full),
    )


def _evaluated_rows(env: Environments) -> float:
    rows = sum(len(level.place) for level in env.bonds[1:]) + len(env.atoms.place)
    return rows + _POOLED * len(env.graphs.atoms) + _TAIL * len(env.graphs)


def _checked_rows(env: Environments, trusted: int) -> float:
    rows = sum(len(level.place) for level in env.bonds[1:trusted]) + _CHECKED * export_rows(env, trusted)
    return rows + _POOLED * len(env.graphs.atoms) + _TAIL * len(env.graphs)


def _ordered_rows(env: OrderedEnvironments) -> float:
    rows = sum(len(level.known) for level in env.levels) + len(env.atom_features)
    return rows + _POOLED * len(env.graphs.atoms) + _TAIL * len(env.graphs)


def _seconds(clock: Clock, work: Callable[[], object]) -> float:
    """The second of two: the first one loads what is compiled."""
    work()
    begun = clock()
    work()
    return max(clock() - begun, 1e-6)
