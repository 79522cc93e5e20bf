"""The bank: many outputs of every stage of every question, made once, from which trials are drawn.

Run `python -m benchmarks.questions.bank FOLDER`; it goes on where it stopped. Its outputs stay in that folder, the
distances between them are what `challenge_power` keeps. The model asks one question many times and keeps what it has
computed of the prompt (five times faster): an output is a sample like any other, its last bits are not those of a
single request.
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.questions.pipeline import Question, answer, own_questions, public_questions, read, retrieve
from veristate.agents.models import LocalModel, Sampled
from veristate.core import canonical_bytes

OUTPUTS = 40
FILE = "bank.jsonl"


Place = tuple[str, str, int]


def saved(folder: Path) -> dict[Place, Sampled]:
    """The outputs so far by question, stage and number; a line that was cut off is not one."""
    path = folder / FILE
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        output = Sampled.from_bytes(canonical_bytes(row["output"]))
        found[row["question"], row["stage"], row["number"]] = output
    return found


def wanted(questions: list[Question], outputs: int) -> Iterator[tuple[Question, str, int]]:
    """What the bank is to hold, the first of every question before the second of any: usable wherever it stops."""
    batch = 12
    for start in range(0, outputs, batch):
        for question in questions:
            for stage in ("read", "answer"):
                for number in range(start, min(start + batch, outputs)):
                    yield question, stage, number


def main() -> None:
    """Fills the bank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--outputs", type=int, default=OUTPUTS)
    parser.add_argument("--questions", type=int, default=None, help="only the first so many of the public ones")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    have = saved(options.folder)
    questions = own_questions() + public_questions()[: options.questions]
    path = options.folder / FILE
    with LocalModel(context=2048, keep_prompt=True) as model, path.open("a", encoding="utf-8") as file:
        for question, stage, number in wanted(questions, options.outputs):
            if (question.id, stage, number) in have:
                continue
            if stage == "read":
                sampled = read(model, question, retrieve(question), number)
            else:
                sampled = answer(model, question, have[question.id, "read", 0].text, number)
            have[question.id, stage, number] = sampled
            output = json.loads(sampled.to_bytes())
            row = {"question": question.id, "stage": stage, "number": number, "output": output}
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    main()
