"""Recorders of seven kinds and their challenger as processes: killed at any step, each is found to be what it is."""

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.questions import challenger, recorders
from benchmarks.questions.challenger import prepare, told
from benchmarks.questions.pipeline import own_questions
from benchmarks.questions.processes import as_foreseen, outcome_of
from benchmarks.questions.recorders import QUESTIONS, Kind
from benchmarks.questions.sources import Words, one_word_changed

MODULES = {module.__name__: module for module in (recorders, challenger)}


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans and calibrations of the sampled stages, from questions that no recorder is asked."""
    folder = tmp_path_factory.mktemp("plans")
    prepare(folder, Words(), own_questions()[QUESTIONS:], each=35)
    return folder


@pytest.fixture
def start(child, killed_at, unsynced):
    """Runs a module's `main` in forked processes: two of them are killed, a third ends."""
    chance = random.Random(1)

    def started(module, arguments):
        def work():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            MODULES[module].main(arguments)

        kills = sum(killed_at(chance.randrange(1, 40), work) for _ in range(2))
        assert child(work) == 0
        return kills

    return started


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_of_recorder_is_found_to_be_what_was_said_beforehand(kind, plans, start):
    """Kills of recorder and challenger change nothing: nine steps are judged once each, nobody honest is accused.

    A sampled step is judged with a stated rate of error and a limited power, under seeds that nobody knew before: a run
    that came out otherwise is made again, twice at most.
    """
    for attempt in range(3):
        outcome = outcome_of(kind, plans / f"{kind}-{attempt}", start)
        assert outcome.kills >= 2
        judged = [(row["question"], row["stage"]) for row in outcome.rows]
        assert len(judged) == len(set(judged)) == 3 * QUESTIONS + outcome.findings("read", "answer")["in no place"]
        if as_foreseen(outcome):
            return
    pytest.fail(f"{outcome.rows} {outcome.log}")


def test_a_change_of_one_word_is_nearer_than_what_the_verdict_says_can_be_found(plans):
    """Which is why the recorder who knows the threshold is consistent: the verdict does not claim more."""
    text = "the drug binds the channel in the heart"
    changed = one_word_changed(text, ["never"], random.Random(1))
    assert sum(a != b for a, b in zip(text.split(), changed.split(), strict=True)) == 1
    for calibrated in challenger.plans(plans).values():
        assert float(calibrated.calibration.detectable) > 1 / len(text.split())


def test_a_verdict_that_was_cut_off_is_given_again(tmp_path):
    """The whole lines stay, the rest of the file is taken away."""
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(b'{"question": "a"}\n{"question": "b"}\n{"quest')
    assert told(path) == [{"question": "a"}, {"question": "b"}]
    assert path.read_bytes() == b'{"question": "a"}\n{"question": "b"}\n'
    path.write_bytes(b'{"quest')
    assert told(path) == []
    assert path.read_bytes() == b""
