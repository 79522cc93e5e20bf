"""One recorder of the pipeline, in a process of its own: `python -m benchmarks.questions.recorders STORE --kind KIND`.

Wherever it is killed, the next start goes on: a step that is committed is not run again. The kinds differ in what they
hand in as the outcome of a step.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from benchmarks.questions.pipeline import SAMPLED, Question, own_questions, retrieve
from benchmarks.questions.sources import Words, made_up, one_word_changed
from veristate.attest import (
    EXACT,
    Commitment,
    Envelope,
    Home,
    Manifest,
    Policy,
    Recorder,
    SigningKey,
    export_run,
    to_artifact,
)
from veristate.attest.challenge import Calibration
from veristate.core import InputError, TamperError, digest

QUESTIONS = 3
TARGET = 1  # the question at which a recorder replays, withholds or abstains
RERUNS = 5
DIVERGENT = Words(left_out=0.6)  # another program than the policy says


class Kind(StrEnum):
    """What a recorder does."""

    HONEST = "honest"
    DIVERGENT = "divergent"
    REPLAYING = "replaying"
    WITHHOLDING = "withholding"
    FABRICATING = "fabricating"
    THRESHOLD_AWARE = "threshold-aware"
    ABSTAINING = "abstaining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One recorder's work: `kind` for the questions, its outputs from `source`, policies by stage."""

    kind: Kind
    source: Words
    policies: dict[str, Policy]
    questions: Sequence[Question]
    seed: int = 0

    def commit(self, recorder: Recorder) -> None:
        """Returns when everything this kind commits to is committed, each step once."""
        done = _committed(recorder)
        for place, stage, inputs, output in self.steps():
            execution = self._execution(place, stage)
            if (execution, digest(_context(place))) in done:
                continue
            first = next((said for name, said in done.items() if name[0] == execution), None)
            if first is not None:
                commit_again(recorder, first, place)
            else:
                committed = recorder.commit_to(
                    stage,
                    inputs=inputs,
                    outputs={"result": output},
                    context={"place": b"%d" % place},
                    policy=self.policies[stage],
                    execution=execution,
                )
                done[execution, committed.commitment.context] = committed.commitment
            print(f"committed {execution}", flush=True)

    def steps(self) -> Iterator[tuple[int, str, dict[str, bytes], bytes]]:
        """Question, stage, inputs and output of each step that is handed in: the same at every start."""
        for place, question in enumerate(self.questions):
            titles = retrieve(question)
            note = self._read(question)
            yield place, "retrieve", inputs_of("retrieve", question, titles, ""), to_artifact(titles)
            if self.kind is Kind.REPLAYING and place >= TARGET:
                first = self.questions[0]
                inputs = inputs_of("read", first, retrieve(first), "")
                yield place, "read", inputs, self._read(first).encode()
            elif self.kind is not Kind.ABSTAINING or place != TARGET:
                yield place, "read", inputs_of("read", question, titles, ""), note.encode()
            yield place, "answer", inputs_of("answer", question, titles, note), self._answer(question, note).encode()

    def withheld(self) -> frozenset[str]:
        """The digests of what it does not hand out."""
        if self.kind is not Kind.WITHHOLDING:
            return frozenset()
        return frozenset({digest(self._read(self.questions[TARGET]).encode())})

    def _execution(self, place: int, stage: str) -> str:
        """The execution id of a step; a replay goes under the id of what it replays once, then under a fresh one."""
        replays = self.kind is Kind.REPLAYING and stage == "read" and place == TARGET
        return f"{self.questions[0 if replays else place].id}/{stage}"

    def _read(self, question: Question) -> str:
        chance = random.Random(f"{self.kind}/{question.id}/{self.seed}")
        if self.kind is Kind.FABRICATING:
            return made_up(question, chance)
        note = self._source.read(question, retrieve(question), self.seed)
        if self.kind is not Kind.THRESHOLD_AWARE:
            return note
        return one_word_changed(note, question.paragraphs[-1][1].split(), chance)

    def _answer(self, question: Question, note: str) -> str:
        if self.kind is Kind.FABRICATING:
            return made_up(question, random.Random(f"{question.id}/answer/{self.seed}"))
        return self._source.answer(question, note, self.seed)

    @property
    def _source(self) -> Words:
        return DIVERGENT if self.kind is Kind.DIVERGENT else self.source


def inputs_of(stage: str, question: Question, titles: list[str], note: str) -> dict[str, bytes]:
    """A step's inputs by name. Retrieval and reading take the passages, answering takes the note alone."""
    asked = {"question": question.text.encode()}
    if stage == "answer":
        return asked | {"note": note.encode()}
    passages = asked | {"passages": to_artifact(question.paragraphs)}
    return passages if stage == "retrieve" else passages | {"titles": to_artifact(titles)}


def policies(folder: Path) -> dict[str, Policy]:
    """Retrieval repeats exactly; the sampled stages are judged by the calibrations in `folder`."""
    found = {"retrieve": EXACT}
    for stage in SAMPLED:
        calibration = Calibration.from_bytes((folder / f"{stage}.calibration").read_bytes())
        found[stage] = Policy(
            nondeterminism="text",
            metric="tokens",
            threshold_rule="path",
            seed_rule="head",
            retention_s=EXACT.retention_s,
            reruns_upper=RERUNS,
            calibration=calibration.digest,
        )
    return found


def commit_again(recorder: Recorder, first: Commitment, place: int) -> None:
    """Commits to an execution once more, for another question: by hand, since `commit_to` refuses it."""
    artifacts = [recorder.store.put(data) for data in (b"%d" % place, _context(place))]
    sequence, predecessor = recorder.outbox.next(recorder.id)
    said = replace(first, sequence=sequence, predecessor=predecessor, context=artifacts[1])
    key = SigningKey.load(recorder.folder / "keys" / f"recorder-{recorder.id[:16]}.pem")
    more = {"artifacts": [{"blob": name} for name in artifacts]}
    recorder.outbox.add(said.sealed(key), recorder=recorder.id, sequence=sequence, more=more)


def _committed(recorder: Recorder) -> dict[tuple[str, str], Commitment]:
    """The steps in the journal by execution and context; a replay bears an id that stands there already."""
    found = {}
    for item, _ in recorder.outbox.items():
        try:
            said = Commitment.from_envelope(Envelope.from_bytes(item.envelope))
        except TamperError:
            continue  # a key event
        found[said.execution, said.context] = said
    return found


def _context(place: int) -> bytes:
    return Manifest(artifacts={"place": digest(b"%d" % place)}).to_bytes()


def main(arguments: Sequence[str] | None = None) -> None:
    """Commits, logs, exports to STORE/run.zip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--kind", type=Kind, choices=list(Kind), required=True)
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    run = Run(
        kind=options.kind,
        source=Words(),
        policies=policies(options.plans),
        questions=own_questions()[:QUESTIONS],
        seed=options.seed,
    )
    print("ready", flush=True)
    with Recorder.open(options.store) as recorder:
        run.commit(recorder)
        home = Home.open(recorder)
        home.deliver()
        target = options.store / "run.zip"
        try:
            export_run(home, target, redact=run.withheld())
        except InputError:
            if not target.exists():  # it exists where a kill came after the export
                raise
    print("exported", flush=True)


if __name__ == "__main__":
    main()
