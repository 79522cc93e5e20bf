"""Which strategy a run takes: what its contract allows, at the least predicted cost, with the reason in words."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from veristate.core import RefusedError
from veristate.core.records import ContractKind
from veristate.decisions.enclosures import Declined, Strategy, bounds_meet
from veristate.devices.certified.bounds import export_rows
from veristate.devices.certified.graphs import Environments
from veristate.devices.certified.members import Member
from veristate.numerics.probes import projected, rectified_sums

Clock = Callable[[], float]
# Passes over every activation that a plain forward makes beside its products: gathers, sums, ReLUs, copies.
_PLAIN_PASSES = 4.0
# Passes over a candidate's tail: radii, activations, the Jacobian.
_TAIL_PASSES = 24.0
_SAMPLE = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What this machine does in a second: multiply-adds in FP32 and FP64, FP64 elements gathered and added, and FP32
    elements multiplied with so many probes.
    """

    narrow: float
    wide: float
    touched: float
    probed: float

    @classmethod
    def measure(cls, clock: Clock, width: int, draws: int) -> "Rates":
        """Measured on small products and sums, a few milliseconds each."""
        X, W, G = torch.ones(_SAMPLE // 4, width), torch.ones(width, width), np.ones((width, draws))
        index = np.arange(_SAMPLE * 2, dtype=np.int32).reshape(_SAMPLE, 2) % _SAMPLE
        wide_X, wide_W = X.double(), W.double()
        values, out = np.ones((_SAMPLE, width)), np.empty((_SAMPLE, width))
        products = len(X) * width * width
        with torch.inference_mode():
            narrow = _seconds(clock, lambda: torch.nn.functional.linear(X, W))
            wide = _seconds(clock, lambda: torch.nn.functional.linear(wide_X, wide_W))
        touched = _seconds(clock, lambda: rectified_sums(values, index, out))
        probed = _seconds(clock, lambda: projected(X.numpy(), G, 0.0))
        return cls(
            narrow=products / narrow,
            wide=products / wide,
            touched=index.size * width / touched,
            probed=len(X) * width / probed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One strategy's predicted seconds for the whole pass, and why it can't be used, if it can't."""

    strategy: Strategy
    seconds: float
    declined: Declined | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The chosen strategy, the reason in words, and what was weighed."""

    strategy: Strategy
    reason: str
    estimates: tuple[Estimate, ...]

    def predicted(self, strategy: Strategy) -> float:
        """The seconds predicted for that strategy."""
        return next(e.seconds for e in self.estimates if e.strategy == strategy)


def choose(
    kind: ContractKind, dtype: str, estimates: tuple[Estimate, ...], *, values: bool, asked: Strategy | None = None
) -> Plan:
    """The plan for a run: the cheapest strategy that its contract allows, or the one that was asked for if it is.

    With `values` every value is to be certified, so that bounds that certify decisions alone don't serve. A strategy
    that was asked for and is declined gives way to the next one it names, with its reason.

    Raises: RefusedError when all are declined.
    """
    weighed = tuple(_weighed(kind, dtype, estimate, values) for estimate in estimates)
    allowed = [e for e in weighed if e.declined is None]
    if not allowed:
        reasons = "; ".join(f"{e.strategy}: {e.declined.reason}" for e in weighed if e.declined is not None)
        raise RefusedError(f"no strategy can certify this pass: {reasons}")
    if asked is not None:
        wanted = next(e for e in weighed if e.strategy == asked)
        if wanted.declined is None:
            return Plan(strategy=asked, reason=f"{asked} was asked for", estimates=weighed)
        after = next((e for e in allowed if e.strategy == wanted.declined.next_strategy), allowed[-1])
        return Plan(
            strategy=after.strategy, reason=f"{wanted.declined.reason}; {after.strategy} instead", estimates=weighed
        )
    best = min(allowed, key=lambda e: e.seconds)
    others = [f"{e.strategy} {e.seconds:.2g} s" for e in allowed if e is not best]
    barred = [f"{e.strategy} is not allowed ({e.declined.reason})" for e in weighed if e.declined is not None]
    against = f", against {', '.join(others)}" if others else ""
    reason = "; ".join([f"{best.strategy} is predicted to cost {best.seconds:.2g} s{against}", *barred])
    return Plan(strategy=best.strategy, reason=reason, estimates=weighed)


def estimates_of(
    kind: ContractKind,
    members: tuple[Member, ...],
    env: Environments,
    share: float,
    rates: Rates,
    *,
    trusted: int,
    prepared: float,
) -> tuple[Estimate, ...]:
    """Predicted seconds for all members, from the distinct environments of a stretch that is `share` of the table and
    took `prepared` seconds to find.
    """
    width = len(members[0].step.W)
    square = width * width
    bonds, atoms = len(env.graphs.bonds), len(env.graphs.atoms)
    places = [len(level.place) for level in env.bonds]
    distinct_rows = sum(places[1:]) + len(env.atoms.place)
    sums = (sum(level.index.size for level in env.bonds) + env.atoms.index.size) / 2 + atoms
    tail = len(env.graphs) * (3 * square / rates.wide + _TAIL_PASSES * width / rates.touched)
    plain_rows = bonds * (len(places) - 1) + atoms
    plain = plain_rows * square + bonds * members[0].start.W.size
    passes = _PLAIN_PASSES * (plain_rows + bonds) * width / rates.touched
    if kind == "C1":
        memo = distinct_rows * (square / rates.wide + 3 * width / rates.touched) + sums * width / rates.touched + tail
        full = plain / rates.wide + 2 * passes
    else:  # kept in order there are about twice as many environments, each in the run's own narrower format
        memo = 2 * distinct_rows * (square / rates.narrow + width / rates.touched) + sums * width / rates.touched
        full = plain / rates.narrow + passes
    read = sum(places[max(trusted - 1, 0) :]) + export_rows(env, trusted)
    probes = (
        sum(places[1:trusted]) * square / rates.wide
        + read * width / rates.probed
        + (2 * atoms + 2 * export_rows(env, trusted)) * width / rates.touched
        + tail
    )
    times = len(members) / share
    return (
        Estimate(strategy="probes", seconds=probes * times + prepared / share),
        Estimate(strategy="memo", seconds=memo * times + prepared / share),
        Estimate(strategy="full", seconds=full * times),
    )


def _weighed(kind: ContractKind, dtype: str, estimate: Estimate, values: bool) -> Estimate:
    declined = estimate.declined
    if estimate.strategy == "probes" and declined is None:
        declined = bounds_meet(kind, dtype)
        if declined is None and values:
            declined = Declined(reason="probes certify decisions, and every value was asked for", next_strategy="memo")
    if estimate.strategy == "memo" and declined is None and kind == "C2" and dtype != "fp32":
        declined = Declined(reason=f"memoised bits are known for fp32, not for {dtype}", next_strategy="full")
    return Estimate(strategy=estimate.strategy, seconds=estimate.seconds, declined=declined)


def _seconds(clock: Clock, work: Callable[[], object]) -> float:
    """The least of two, after one that is not counted."""
    work()
    times = []
    for _ in range(2):
        begun = clock()
        work()
        times.append(clock() - begun)
    return max(min(times), 1e-6)
