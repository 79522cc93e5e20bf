"""Canaries: steps that were run twice where they were recorded, and agreed. Rerun before a challenge, they tell drift
of the challenger's environment from fabrication.

A recorder's canaries shield the recorder: whoever distrusts them brings those of somebody else. A canary of the very
step that is challenged is no evidence about it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from veristate.attest.challenge.challenge import Finding, Judgement
from veristate.attest.challenge.steps import (
    NO_MODELS,
    Calibrated,
    MetricModels,
    Step,
    StepRerun,
    challenge_step,
    step_of,
)
from veristate.attest.commitments import Committed, Recorder
from veristate.attest.export import Export, ExportedStep
from veristate.core import InputError, UndecidedError, VeristateError, canonical_bytes

# The name of the context artifact that makes a step a canary.
CANARY = "canary"
_DRIFT = (Finding.INCONSISTENT, Finding.ENVIRONMENT_DRIFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A canary at its place in the log, and the digest of the commitment to the step that it repeats."""

    place: int
    step: Step
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCanary:
    """A canary that was rerun here."""

    canary: Canary
    judgement: Judgement

    @property
    def drifted(self) -> bool:
        """Whether it no longer repeats. One that could not be rerun says nothing either way."""
        return self.judgement.finding in _DRIFT


def make_canary(
    recorder: Recorder,
    step: Step,
    rerun: StepRerun,
    seeds: Sequence[bytes],
    *,
    environment: Mapping[str, str],
    calibrated: Calibrated | None = None,
    models: MetricModels = NO_MODELS,
) -> Committed:
    """The commitment to a canary that repeats `step`, which was rerun for it here and was consistent.

    Raises: InputError where the environment is not the one in which the step was recorded; UndecidedError when the
    rerun is not consistent.
    """
    differing = sorted(name for name, value in step.policy.environment.items() if environment.get(name) != value)
    if differing:
        raise InputError(f"a canary is made where its step was recorded; here differs {', '.join(differing)}")
    given: list[bytes] = []

    def kept(inputs: Mapping[str, bytes], seed: bytes) -> bytes | None:
        output = rerun(inputs, seed)
        if output is not None:
            given.append(output)
        return output

    judged = challenge_step(step, kept, seeds, environment=environment, calibrated=calibrated, models=models)
    if judged.finding is not Finding.CONSISTENT:
        raise UndecidedError(f"the step is {judged.finding} here ({judged.reason}); no canary is made of it")
    context = {name: data for name, data in step.context.items() if data is not None}
    return recorder.commit_to(
        step.commitment.stage,
        inputs={name: data for name, data in step.inputs.items() if data is not None},
        outputs={step.compared: given[0]},
        context=context | {CANARY: canonical_bytes({"of": step.commitment.digest})},
        policy=step.policy,
    )


def canaries_in(export: Export, stage: str | None = None) -> tuple[Canary, ...]:
    """The canaries of a stage, or all. What calls itself one and repeats no step of the export is none."""
    return tuple(_canaries(export, {step.commitment.digest: step for step in export.steps}, stage))


def check_canaries(
    canaries: Sequence[Canary],
    rerun: StepRerun,
    seeds: Callable[[Canary], Sequence[bytes]],
    *,
    environment: Callable[[Canary], Mapping[str, str]],
    calibrated: Calibrated | None = None,
    models: MetricModels = NO_MODELS,
) -> tuple[CheckedCanary, ...]:
    """Each canary rerun and judged by its own policy. One that can't be run or judged here is undecided, for the reason
    given: the recorder chose its inputs, and must not keep anybody so from challenging another step.
    """

    def judged(one: Canary) -> Judgement:
        try:
            here = environment(one)
            return challenge_step(one.step, rerun, seeds(one), environment=here, calibrated=calibrated, models=models)
        except (VeristateError, ValueError, LookupError, TypeError, ArithmeticError, OSError) as error:
            why = str(error) if isinstance(error, VeristateError) else repr(error)
            return Judgement(finding=Finding.UNDECIDED, reason=why, reruns=0, alpha="unknown")

    return tuple(CheckedCanary(canary=one, judgement=judged(one)) for one in canaries)


def _canaries(export: Export, steps: Mapping[str, ExportedStep], stage: str | None) -> Iterator[Canary]:
    for exported in export.steps:
        said = exported.commitment
        if stage not in (None, said.stage):
            continue
        marked = export.artifacts(said.context).get(CANARY)
        if marked is None:
            continue
        of = _of(marked)
        original = steps.get(of)
        if original is None:
            continue
        first = original.commitment
        if (first.stage, first.inputs, first.policy) != (said.stage, said.inputs, said.policy):
            continue
        try:
            step, repeated = step_of(export, exported), step_of(export, original)
        except VeristateError:
            continue  # its policy names none of its outputs: nobody could rerun it
        if step.policy.threshold_rule == "equal" and step.outputs[step.compared] != repeated.outputs[step.compared]:
            continue
        yield Canary(place=exported.place, step=step, of=of)


def _of(marked: bytes) -> str:
    try:
        return str(json.loads(marked)["of"])
    except (ValueError, KeyError, TypeError):
        return ""
