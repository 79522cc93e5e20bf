"""The challenger of a recorder's run, in a process of its own: `python -m benchmarks.questions.challenger STORE`.

It has the export, the public log and the log's key, knows what was asked, and runs the stages again by itself. Each
verdict is on the disk before the next challenge begins: killed anywhere, it goes on with the one it was at.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.questions.pipeline import SAMPLED, STAGES, Question, own_questions, retrieve
from benchmarks.questions.recorders import QUESTIONS, RERUNS
from benchmarks.questions.sources import Words
from veristate.attest import (
    Export,
    ExportedStep,
    LogAudit,
    Manifest,
    Trust,
    check_log,
    read_export,
    to_artifact,
    unix_seconds,
)
from veristate.attest.challenge import (
    Calibrated,
    Calibration,
    Plan,
    calibrate,
    challenge_seed,
    challenge_step,
    design,
    metric_named,
    read_step,
    rerun_number,
    rerun_seeds,
)
from veristate.core import digest

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenger:
    """What a challenger brings: the questions that were asked, the stages, and its plans by stage."""

    questions: Sequence[Question]
    source: Words
    calibrated: Mapping[str, Calibrated]

    def judge(self, export: Export, done: set[tuple[str, str]]) -> Iterator[Row]:
        """A verdict for each stage of each question that is not yet judged, in the order of the pipeline.

        A step is the one whose inputs are, by digest, what was asked and what the step before gave: a step of other
        inputs, under whatever name, is not found in its place. What stands in no place was handed in again.
        """
        bound: set[int] = set()
        for question in self.questions:
            given: str | None = None
            for stage in STAGES:
                inputs = _inputs(stage, question, given)
                steps = [] if inputs is None else [s for s in export.steps if _is(s, stage, inputs)]
                bound |= {step.place for step in steps[:1]}
                given = _result(export, steps[0]) if steps else None
                if (question.id, stage) not in done:
                    yield {"question": question.id, "stage": stage} | self._verdict(export, question, inputs, steps)
        for step in export.steps:
            name = f"place {step.place}"
            if step.place not in bound and (name, step.commitment.stage) not in done:
                yield {"question": name, "stage": step.commitment.stage, "finding": "in no place"}

    def _verdict(self, export: Export, question: Question, inputs: str | None, steps: Sequence[ExportedStep]) -> Row:
        if inputs is None:
            return {"finding": "unbound", "reason": "the step before it is not committed to"}
        if not steps:
            return {"finding": "missing", "reason": "no step of these inputs"}
        step = read_step(export, str(steps[0].place))
        stage = step.commitment.stage

        def rerun(given: Mapping[str, bytes], seed: bytes) -> bytes:
            number = rerun_number(seed)
            if stage == "retrieve":
                return to_artifact(retrieve(question))
            if stage == "read":
                return self.source.read(question, json.loads(given["titles"]), number).encode()
            return self.source.answer(question, given["note"].decode(), number).encode()

        # No witness here: a head's own bytes stand for what nobody knew at the commitment.
        seed = challenge_seed(export.heads[-1].encode(), 0, step.commitment.digest)
        judged = challenge_step(
            step, rerun, rerun_seeds(seed, RERUNS), environment={}, calibrated=self.calibrated.get(stage)
        )
        return {
            "finding": str(judged.finding),
            "reason": judged.reason,
            "reruns": judged.reruns,
            "detectable": judged.detectable,
        }


def prepare(folder: Path, source: Words, questions: Sequence[Question], *, each: int = 40, alpha: float = 0.01) -> None:
    """Writes plan and calibration of each sampled stage: the design from the first of the questions, the rest judge.

    None of the questions may be asked of a recorder later. `each` executions of a question are calibrated with: of
    this source they are alike whatever the question, but for its length.
    """
    metric = metric_named("tokens")
    titles_of = {question.id: retrieve(question) for question in questions}
    for stage in SAMPLED:

        def execution(question: Question, number: int, stage: str = stage) -> list[list[float]]:
            seeds = [1000 * number + place for place in range(RERUNS + 1)]
            titles = titles_of[question.id]
            note = source.read(question, titles, 1)
            outputs = [
                source.read(question, titles, seed) if stage == "read" else source.answer(question, note, seed)
                for seed in seeds
            ]
            return [[metric(a.encode(), b.encode()) for b in outputs] for a in outputs]

        parts = questions[: len(questions) // 2], questions[len(questions) // 2 :]
        first, rest = ([execution(q, number) for q in part for number in range(1, each + 1)] for part in parts)
        plan = design(first, alpha=alpha, reruns=RERUNS)
        (folder / f"{stage}.plan").write_bytes(plan.to_bytes())
        (folder / f"{stage}.calibration").write_bytes(calibrate(plan, rest).to_bytes())


def plans(folder: Path) -> dict[str, Calibrated]:
    """What `prepare` wrote, by stage."""
    return {
        stage: Calibrated(
            plan=Plan.from_bytes((folder / f"{stage}.plan").read_bytes()),
            calibration=Calibration.from_bytes((folder / f"{stage}.calibration").read_bytes()),
        )
        for stage in SAMPLED
    }


def audit(folder: Path, key: str) -> list[str]:
    """What is wrong with the log in `folder` and with what its entries say."""
    reading = LogAudit(key.split("+")[0])
    said: list[str] = []
    report = check_log(folder, key, each=lambda place, entry: said.extend(f.kind for f in reading.read(place, entry)))
    return [str(finding.kind) for finding in report.findings if not finding.harmless] + said


def told(path: Path) -> list[Row]:
    """The verdicts so far; one that was cut off is taken away, to be given again."""
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    os.truncate(path, len(whole) + bool(whole))
    return [json.loads(line) for line in whole.splitlines()]


def _inputs(stage: str, question: Question, given: str | None) -> str | None:
    """The digest of the manifest of a step's inputs, from what was asked and the digest of what came before it."""
    named = {"question": digest(question.text.encode())}
    if stage != "answer":
        named["passages"] = digest(to_artifact(question.paragraphs))
    if stage != "retrieve":
        if given is None:
            return None
        named["titles" if stage == "read" else "note"] = given
    return digest(Manifest(artifacts=named).to_bytes())


def _is(step: ExportedStep, stage: str, inputs: str) -> bool:
    return step.commitment.stage == stage and step.commitment.inputs == inputs


def _result(export: Export, step: ExportedStep) -> str:
    return Manifest.from_bytes(export.blobs[step.commitment.outputs]).artifacts["result"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the verdicts to --out, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    print("ready", flush=True)
    challenger = Challenger(questions=own_questions()[:QUESTIONS], source=Words(), calibrated=plans(options.plans))
    trust = Trust.parse(f"log {options.key}\nquorum none\n")
    export = read_export(options.store / "run.zip", trust, now=unix_seconds()).require()
    done = {(str(row["question"]), str(row["stage"])) for row in told(options.out)}
    with options.out.open("a", encoding="utf-8") as file:
        for row in challenger.judge(export, done):
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
            print("judged", flush=True)


if __name__ == "__main__":
    main()
