"""Which strategy a run takes: what its contract allows, at the least predicted cost, with the reason in words."""

from dataclasses import dataclass

from veristate.core import RefusedError
from veristate.core.records import ContractKind
from veristate.decisions.enclosures import Declined, Strategy, bounds_meet


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


def _weighed(kind: ContractKind, dtype: str, estimate: Estimate, values: bool) -> Estimate:
    declined = estimate.declined
    if estimate.strategy == "probes" and declined is None:
        declined = bounds_meet(kind, dtype)
        if declined is None and values and kind in ("C1", "C2"):
            declined = Declined(reason="probes certify decisions, and every value was asked for", next_strategy="memo")
    if estimate.strategy == "memo" and declined is None and kind == "C2" and dtype != "fp32":
        declined = Declined(reason=f"memoised bits are known for fp32, not for {dtype}", next_strategy="full")
    return Estimate(strategy=estimate.strategy, seconds=estimate.seconds, declined=declined)
