"""Challenging a committed step: what the export holds of it, the rule its policy names, and the judgement."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from veristate.attest.challenge.challenge import Finding, Judgement, challenge
from veristate.attest.challenge.metrics import Embed, Metric, Weighed, metric_named
from veristate.attest.challenge.plan import Calibration, Plan
from veristate.attest.commitments import Commitment, Policy, read_record
from veristate.attest.export import Export, ExportedStep
from veristate.core import InputError, TamperError, UndecidedError

# Runs the step again on its inputs, by name, under a seed: the output that is compared, None when it gave none.
StepRerun = Callable[[Mapping[str, bytes], bytes], bytes | None]
# Weighs an output token by token, given the step's inputs: what the likelihood metric needs of the policy's model.
StepWeigh = Callable[[Mapping[str, bytes], bytes], Sequence[Weighed] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A committed step with its artifacts by name; None for those that were redacted or are no longer kept.

    `compared` names the output that reruns are compared with.
    """

    commitment: Commitment
    policy: Policy
    inputs: Mapping[str, bytes | None]
    outputs: Mapping[str, bytes | None]
    context: Mapping[str, bytes | None]
    compared: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A plan and its calibration, which the challenger made or was given; a policy names the calibration's digest."""

    plan: Plan
    calibration: Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricModels:
    """Models that some metrics need and the challenger brings: a text's embedding, an output's weighed tokens."""

    embed: Embed | None = None
    weigh: StepWeigh | None = None


NO_MODELS = MetricModels()


def read_step(export: Export, which: str) -> Step:
    """The step of that place, execution id or stage. The export is taken as it is: `require` it first.

    A place comes before an execution that a recorder called by a number. Raises: InputError when no step or several are
    called so; as `step_of`.
    """
    at = [step for step in export.steps if which == str(step.place)]
    found = at or [step for step in export.steps if which in (step.commitment.execution, step.commitment.stage)]
    if len(found) != 1:
        known = ", ".join(f"{step.place} ({step.commitment.stage})" for step in export.steps[:20])
        raise InputError(f"{len(found)} steps are called {which!r}; give the place of one: {known or 'there are none'}")
    return step_of(export, found[0])


def step_of(export: Export, exported: ExportedStep) -> Step:
    """A step of the export with its artifacts. Raises: InputError when it has several outputs and its policy names
    none.
    """
    commitment = exported.commitment
    policy = read_record(Policy, export.blobs[commitment.policy])
    parts = {name: export.artifacts(getattr(commitment, name)) for name in ("inputs", "outputs", "context")}
    only = "".join(parts["outputs"]) if len(parts["outputs"]) == 1 else ""
    compared = policy.metric_parameters.get("output", only)
    if compared not in parts["outputs"]:
        outputs = ", ".join(parts["outputs"])
        raise InputError(f"the step at place {exported.place} has the outputs {outputs}; its policy names none of them")
    return Step(commitment=commitment, policy=policy, compared=compared, **parts)


def challenge_step(
    step: Step,
    rerun: StepRerun,
    seeds: Sequence[bytes],
    *,
    environment: Mapping[str, str],
    calibrated: Calibrated | None = None,
    drifted: bool = False,
    models: MetricModels = NO_MODELS,
) -> Judgement:
    """The judgement of a step by its policy's rule: equal, median (a fixed threshold tau), or path.

    `environment` is the challenger's, by the policy's names. Seeds beyond what the policy allows are not used. Nobody
    is accused where the environments differ or canaries have `drifted`; a step whose artifacts are not there is
    unavailable, and one that `rerun` can't run here (it raises UndecidedError) is undecided.
    Raises: InputError for a rule that is not known; TamperError for a calibration that the policy does not name.
    """
    policy = step.policy
    committed = step.outputs[step.compared]
    inputs = {name: data for name, data in step.inputs.items() if data is not None}
    if committed is None or len(inputs) < len(step.inputs):
        missing = [name for name in step.inputs if name not in inputs] + [step.compared] * (committed is None)
        return _without(Finding.UNAVAILABLE, f"not handed out: {', '.join(missing)}")
    weigh = None if models.weigh is None else partial(models.weigh, inputs)
    metric = metric_named(policy.metric, _but_output(policy.metric_parameters), models.embed, weigh)
    differing = sorted(name for name, value in policy.environment.items() if environment.get(name) != value)
    allowed = list(seeds)[: policy.reruns_upper]

    def again(seed: bytes) -> bytes | None:
        return rerun(inputs, seed)

    try:
        judged = _by_rule(policy, committed, again, allowed, metric, calibrated)
    except UndecidedError as error:
        return _without(Finding.UNDECIDED, str(error))
    if judged.finding is not Finding.INCONSISTENT or not (differing or drifted):
        return judged
    but = f"the environment differs in {', '.join(differing)}" if differing else "canaries no longer repeat here"
    return replace(judged, finding=Finding.ENVIRONMENT_DRIFT, reason=f"{judged.reason}, but {but}")


def _by_rule(
    policy: Policy,
    committed: bytes,
    again: Callable[[bytes], bytes | None],
    allowed: Sequence[bytes],
    metric: Metric,
    calibrated: Calibrated | None,
) -> Judgement:
    """The judgement as if the environments were one."""
    if policy.threshold_rule == "path":
        if calibrated is None:
            return _without(Finding.UNCALIBRATED, "the policy's plan and calibration were not given")
        if policy.calibration != calibrated.calibration.digest:
            raise TamperError("the calibration is not the one that the policy names")
        plan, calibration = calibrated.plan, calibrated.calibration
        return challenge(committed, again, allowed, metric=metric, plan=plan, calibration=calibration)
    if policy.threshold_rule == "equal":
        return _by_equality(policy, committed, again, allowed, metric)
    if policy.threshold_rule == "median":
        return _by_constant(policy, committed, again, allowed, metric)
    raise InputError(f"no threshold rule is called {policy.threshold_rule!r}; use equal, median or path")


def _by_equality(
    policy: Policy, committed: bytes, rerun: Callable[[bytes], bytes | None], seeds: Sequence[bytes], metric: Metric
) -> Judgement:
    """Consistent when the first rerun is what was committed to. Where it is not the others are asked for too: reruns
    that differ from each other show that the step does not repeat, and then equality can't tell anything.
    """
    outputs: list[bytes] = []
    for seed in seeds[: policy.reruns_upper]:
        output = rerun(seed)
        if output is None:
            break
        outputs.append(output)
        if len(outputs) == 1 and metric(committed, output) == 0:
            break
    if not outputs or (len(outputs) < policy.reruns_upper and metric(committed, outputs[0]) > 0):
        return _without(
            Finding.UNDECIDED, f"{len(outputs)} of {policy.reruns_upper} reruns gave an output", len(outputs)
        )
    if any(metric(outputs[0], other) > 0 for other in outputs[1:]):
        why = "reruns differ from each other: the step does not repeat, and was committed to as one that does"
        return _without(Finding.UNCALIBRATED, why, len(outputs))
    distance = metric(committed, outputs[0])
    repeats = len(outputs) > 1
    return Judgement(
        finding=Finding.INCONSISTENT if distance > 0 else Finding.CONSISTENT,
        reason=f"the rerun is {'not ' if distance > 0 else ''}what was committed to"
        + (f", and all {len(outputs)} reruns agree" if repeats else ""),
        reruns=len(outputs),
        # An equal step is one that honest reruns never miss.
        alpha="0",
        largest=distance,
        critical=0.0,
    )


def _by_constant(
    policy: Policy, committed: bytes, rerun: Callable[[bytes], bytes | None], seeds: Sequence[bytes], metric: Metric
) -> Judgement:
    """Consistent when the median distance is at most tau. Source: Threshold Choice 4.3."""
    try:
        tau = float(policy.threshold_parameters["tau"])
    except (KeyError, ValueError):
        tau = math.nan
    if not 0 <= tau <= 1:
        raise InputError("the rule median needs the threshold parameter tau, within [0, 1]")
    outputs = [rerun(seed) for seed in seeds]
    given = [output for output in outputs if output is not None]
    if len(given) < policy.reruns_upper:
        return _without(Finding.UNDECIDED, f"{len(given)} of {policy.reruns_upper} reruns gave an output", len(given))
    middle = median(metric(committed, output) for output in given)
    consistent = middle <= tau
    return Judgement(
        finding=Finding.CONSISTENT if consistent else Finding.INCONSISTENT,
        reason=f"the median distance of {len(given)} reruns is {'within' if consistent else 'above'} {tau:g}",
        reruns=len(given),
        alpha="unknown",  # how often honest reruns miss tau nobody has said
        largest=middle,
        critical=tau,
    )


def _without(finding: Finding, reason: str, reruns: int = 0) -> Judgement:
    return Judgement(finding=finding, reason=reason, reruns=reruns, alpha="unknown")


def _but_output(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name != "output"}
