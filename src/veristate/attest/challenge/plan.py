"""A plan for challenges, fixed before there is anything to challenge, and the calibration it is judged by.

Maths: M_j = max_{i<=j} S_i / b_i over the path of reruns. An execution is accused at the first j with M_j above the
ceil((1 - alpha)(n + 1))-th smallest M_K of n honest executions. M_j <= M_K, and the M_K of an honest execution is
exchangeable with theirs: P(ever accused) <= alpha, in finite samples, at any stop. Shrinking, b_i and the futility
bound come from executions of their own (the design), so they cost power alone, never validity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from veristate.attest.challenge.scores import Distances, Spread, path_of
from veristate.core import InputError, Record, decimal_string

FIRST = 2  # reruns: one alone has no spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Record):
    """How a challenge runs: up to `reruns` of them, scores divided by `divisors` (of S_2 .. S_K), accused at `alpha`.

    Below `futility` of its divisor a score ends the challenge as consistent.
    """

    FORMAT: ClassVar[str] = "veristate.challenge-plan/1"
    alpha: str
    reruns: int
    spread: Spread
    divisors: tuple[str, ...]
    futility: str = "0.8"

    def __post_init__(self) -> None:
        """Raises: InputError for an alpha outside (0, 1), or divisors that are not one a score."""
        if not 0 < float(self.alpha) < 1:
            raise InputError(f"alpha {self.alpha}: the share of honest executions that may be accused, within (0, 1)")
        if self.reruns < FIRST or len(self.divisors) != self.reruns - FIRST + 1:
            raise InputError(f"{len(self.divisors)} divisors for {self.reruns} reruns; {FIRST} reruns are the fewest")
        if not all(0 < float(divisor) < math.inf for divisor in self.divisors):
            raise InputError("a divisor of a score must be finite and above 0")

    def running(self, scores: Sequence[float]) -> list[float]:
        """M_2 .. M_j of the scores so far."""
        largest, found = 0.0, []
        for score, divisor in zip(scores, self.divisors, strict=False):
            largest = max(largest, score / float(divisor))
            found.append(largest)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Record):
    """M_K of honest executions under a plan, ascending, and the least offset that would be seen with power 0.8.

    `detectable` is None where even the largest offset would not be. Executions come from inputs of their own: neither
    the design's nor any that is challenged.
    """

    FORMAT: ClassVar[str] = "veristate.calibration/1"
    plan: str
    largest: tuple[str, ...]
    detectable: str | None

    def critical(self, alpha: float) -> float | None:
        """What M_j must exceed to accuse; None where there are too few executions for this alpha."""
        n = len(self.largest)
        rank = math.ceil((1 - alpha) * (n + 1))
        return float(self.largest[rank - 1]) if rank <= n else None


def design(
    executions: Sequence[Distances],
    *,
    alpha: float = 0.05,
    reruns: int = 10,
    futility: float = 0.8,
    weight: float = 2.0,
) -> Plan:
    """A plan from executions that are used for nothing else: prior spread, floor, and each score's usual upper end.

    The prior spread weighs as much as `weight` reruns: much where honest outputs of all inputs are equally far apart.

    Maths: the prior is the geometric mean of the executions' median spreads, b_j the (1 - alpha) quantile of S_j.
    Shapes: each [reruns + 1, reruns + 1] or larger. Raises: InputError for too few executions or outputs.
    """
    if len(executions) < 2:
        raise InputError(f"{len(executions)} executions: a design needs at least 2")
    cut = [_cut(distances, reruns) for distances in executions]
    spreads = [median(row[i] for j, row in enumerate(d) for i in range(j)) for d in cut]
    positive = [value for d in cut for row in d for value in row if value > 0]
    # The least distance that occurs is the metric's resolution: less than half of it can't be told from none.
    floor = min(positive, default=1e-3) / 2
    prior = math.exp(sum(math.log(max(value, floor)) for value in spreads) / len(spreads))
    spread = Spread.of(prior, weight=weight, floor=floor)
    paths = [path_of(d, spread) for d in cut]
    divisors = [_quantile([path[j] for path in paths], 1 - alpha) or floor for j in range(reruns - FIRST + 1)]
    return Plan(
        alpha=decimal_string(alpha),
        reruns=reruns,
        spread=spread,
        divisors=tuple(decimal_string(divisor) for divisor in divisors),
        futility=decimal_string(futility),
    )


def calibrate(plan: Plan, executions: Sequence[Distances]) -> Calibration:
    """The calibration of honest executions, none of which was used in the design.

    Each is of an input and of seeds of its own: what shares a seed is alike. Raises: InputError as `path_of`.
    """
    cut = [_cut(distances, plan.reruns) for distances in executions]
    largest = sorted(plan.running(path_of(d, plan.spread))[-1] for d in cut)
    found = Calibration(plan=plan.digest, largest=tuple(map(decimal_string, largest)), detectable=None)
    least = detectable_offset(plan, found, cut)
    text = None if least is None else decimal_string(least)
    return Calibration(plan=plan.digest, largest=found.largest, detectable=text)


def detectable_offset(
    plan: Plan, calibration: Calibration, executions: Sequence[Distances], *, power: float = 0.8, steps: int = 20
) -> float | None:
    """The least offset of all distances to the commitment at which `power` of these executions would be accused.

    What lies nearer than this to honest outputs is found less often, however many reruns there are.
    """
    critical = calibration.critical(float(plan.alpha))
    if critical is None or not executions:
        return None

    def share(offset: float) -> float:
        accused = sum(plan.running(path_of(d, plan.spread, offset=offset))[-1] > critical for d in executions)
        return accused / len(executions)

    if share(1.0) < power:
        return None
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if share(middle) >= power else (middle, high)
    return high


def _cut(distances: Distances, reruns: int) -> Distances:
    if len(distances) <= reruns or any(len(row) < len(distances) for row in distances):
        raise InputError(f"an execution of {len(distances)} outputs; {reruns} reruns and a commitment are needed")
    return [list(row[: reruns + 1]) for row in distances[: reruns + 1]]


def _quantile(values: Sequence[float], level: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(level * len(ordered)) - 1)]
