"""One challenge: rerun the committed step until there is an answer, and say what the answer is worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veristate.attest.challenge.metrics import Metric
from veristate.attest.challenge.plan import Calibration, Plan
from veristate.attest.challenge.scores import Evidence
from veristate.core import TamperError

# Runs the step again in the pinned environment, under the seed of that rerun: its output, None when it gave none.
Rerun = Callable[[bytes], bytes | None]


class Finding(StrEnum):
    """What a challenge ends with. UNAVAILABLE and UNDECIDED accuse nobody."""

    CONSISTENT = "consistent"
    INCONSISTENT = "inconsistent"
    UNDECIDED = "undecided"
    UNAVAILABLE = "unavailable"
    UNCALIBRATED = "uncalibrated"
    ENVIRONMENT_DRIFT = "environment-drift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of one challenge. `reruns` were used, `largest` is M at the stop, `critical` what it had to exceed.

    An inconsistent one holds at `alpha`: at most that share of honest executions is ever accused. `detectable` is the
    least offset seen with power 0.8: what is consistent may still be a fabrication nearer than that.
    """

    finding: Finding
    reason: str
    reruns: int
    alpha: str
    largest: float | None = None
    critical: float | None = None
    detectable: str | None = None
    scores: tuple[float, ...] = ()


def challenge(
    committed: bytes,
    rerun: Rerun,
    seeds: Sequence[bytes],
    *,
    metric: Metric,
    plan: Plan,
    calibration: Calibration,
) -> Judgement:
    """The judgement of an output that was committed to, from up to `plan.reruns` reruns, one for each seed.

    Fewer seeds are a budget.
    Raises: TamperError when the calibration is of another plan.
    """
    if calibration.plan != plan.digest:
        raise TamperError("the calibration was made under another plan than the policy names")
    critical = calibration.critical(float(plan.alpha))
    course = _Course(committed, metric, plan, calibration, critical)
    if critical is None:
        why = f"{len(calibration.largest)} honest executions are too few for alpha {plan.alpha}"
        return course.ends(Finding.UNCALIBRATED, why)
    for seed in seeds[: plan.reruns]:
        output = rerun(seed)
        if output is None:
            why = "a rerun gave no output: that is the challenger's own failure and says nothing of the recorder"
            return course.ends(Finding.UNDECIDED, why)
        course.add(output)
        if course.largest > critical:
            return course.ends(Finding.INCONSISTENT, "farther from its reruns than honest executions are")
        if course.futile():
            return course.ends(Finding.CONSISTENT, "well within honest executions")
    if len(course.outputs) < plan.reruns:
        why = f"{len(course.outputs)} of {plan.reruns} reruns were allowed, and they don't decide it"
        return course.ends(Finding.UNDECIDED, why)
    return course.ends(Finding.CONSISTENT, "not farther than honest executions are")


class _Course:
    """What a challenge has seen so far."""

    def __init__(
        self, committed: bytes, metric: Metric, plan: Plan, calibration: Calibration, critical: float | None
    ) -> None:
        self._committed = committed
        self._metric = metric
        self._plan = plan
        self._calibration = calibration
        self._critical = critical
        self._evidence = Evidence(plan.spread)
        self._scores: list[float] = []
        self.outputs: list[bytes] = []

    def add(self, output: bytes) -> None:
        """One more rerun."""
        metric = self._metric
        score = self._evidence.add(metric(self._committed, output), [metric(output, other) for other in self.outputs])
        self.outputs.append(output)
        if score is not None:
            self._scores.append(score)

    @property
    def largest(self) -> float:
        """M_j, 0 before there is one."""
        return self._plan.running(self._scores)[-1] if self._scores else 0.0

    def futile(self) -> bool:
        """Whether the last score is so small that more reruns would hardly accuse."""
        if not self._scores:
            return False
        return self._scores[-1] < float(self._plan.futility) * float(self._plan.divisors[len(self._scores) - 1])

    def ends(self, finding: Finding, reason: str) -> Judgement:
        """The judgement, with what it rests on."""
        return Judgement(
            finding=finding,
            reason=reason,
            reruns=len(self.outputs),
            alpha=self._plan.alpha,
            largest=self.largest if self._scores else None,
            critical=self._critical,
            detectable=self._calibration.detectable,
            scores=tuple(self._scores),
        )
