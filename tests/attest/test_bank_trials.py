"""Trials from a bank: what is kept of it, what is drawn, and that a rate and its interval are over questions."""

import gzip
import json
import random
import re
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.questions.distances import SCALE, Cell, cell_of, keep, kept
from benchmarks.questions.fabrications import KINDS, as_output, drawn
from benchmarks.questions.pipeline import own_questions
from benchmarks.questions.sources import Words
from benchmarks.questions.trials import HONEST, Tally, executions, stage_of, trials
from benchmarks.questions.weighing import text_metric

from veristate.attest.challenge import metric_named
from veristate.attest.challenge.metrics.texts import token_distance
from veristate.core import digest


def pieces(text):
    """A tokenizer: words with the blank before them, numbered by their bytes."""
    return [(zlib.crc32(word), word) for word in re.findall(rb" ?[^ ]+| ", text.encode())]


def bank(outputs):
    """Outputs as a bank holds them, of two questions."""
    source, questions = Words(), own_questions()[:2]
    return {
        (question.id, stage, number): as_output(
            source.read(question, [question.paragraphs[0][0]], number)
            if stage == "read"
            else source.answer(question, question.paragraphs[0][1], number),
            stage,
            pieces,
        )
        for question in questions
        for stage in ("read", "answer")
        for number in range(outputs)
    }


def cell(question, stage, spread, chance, *, far=0.9):
    """Honest outputs about `spread` from each other, fabrications `far` from all of them."""
    honest, made = 12, [kind for kind in KINDS for _ in range(2)]
    rows = [[round(SCALE * spread * chance.uniform(0.8, 1.2)) for _ in range(place)] for place in range(honest)]
    rows += [[round(SCALE * far)] * honest for _ in made]
    return Cell(
        question=question,
        stage=stage,
        digests=("",) * (honest + len(made)),
        honest=honest,
        kinds=tuple(made),
        made_from=(-1,) * len(made),
        distances={"tokens": tuple(map(tuple, rows))},
    )


def cells(*, far=0.9, questions=36):
    """Eight questions to design with and `questions` others, each with a spread of its own."""
    chance = random.Random(1)
    names = [*(f"own-{number}" for number in range(8)), *(f"public-{number}" for number in range(questions))]
    return [cell(name, "read", 0.1 * 3 ** chance.random(), chance, far=far) for name in names]


def test_what_is_kept_has_the_distances_and_none_of_the_texts(tmp_path):
    """Read again it is the same; distances are the metric's to four places, digests those of the texts."""
    outputs = bank(8)
    draws = list(drawn(outputs, own_questions(), pieces, seed=1))
    made = [cell_of(draw, {"tokens": text_metric(metric_named("tokens"))}) for draw in draws]
    for name in ("a", "b"):
        keep(tmp_path / name, made, {"outputs": len(outputs)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert kept(tmp_path / "a") == made
    assert [draw.outputs[0] for draw in draws] == [
        outputs["own-1", "read", 0],
        outputs["own-1", "answer", 0],
        outputs["own-2", "read", 0],
        outputs["own-2", "answer", 0],
    ]
    first, told = made[0], [output.text for output in draws[0].outputs]
    assert first.digests[3] == digest(draws[0].outputs[3].to_bytes())[:16]
    execution = first.execution("tokens", [first.honest + 2, 5, 1])
    assert (
        execution[0][1] == execution[1][0] == pytest.approx(token_distance(told[first.honest + 2], told[5]), abs=1e-4)
    )
    assert execution[1][2] == pytest.approx(token_distance(told[5], told[1]), abs=1e-4)
    said = gzip.decompress((tmp_path / "a").read_bytes()).decode()
    assert not any(text in said for text in told if len(text) > 10)
    assert set(json.loads(said)) == {"about", "cells"}
    assert kept(tmp_path / "none") == []


def test_a_fabrication_is_not_judged_beside_the_output_it_was_made_from():
    """Nor is an execution given the same output twice."""
    chance = random.Random(1)
    first = next(drawn(bank(8), own_questions(), pieces, seed=1))
    draw = cell_of(first, {"tokens": text_metric(metric_named("tokens"))})
    # The distance that only the pair of a changed text and its origin has.
    rows = [list(row) for row in draw.distances["tokens"]]
    for number, place in enumerate(draw.made_from):
        if place >= 0:
            rows[draw.honest + number][place] = 7 * SCALE
    marked = {"tokens": tuple(map(tuple, rows))}
    poisoned = Cell(**{name: getattr(draw, name) for name in Cell.__slots__} | {"distances": marked})
    for _ in range(200):
        execution = executions(poisoned, "tokens", chance, kind=KINDS[3])
        assert 7 not in execution[0]
        assert len(execution) == 6
    # Numbered by place, distances tell which outputs an execution has.
    numbers = {"tokens": tuple(tuple(SCALE * (place * 100 + other) for other in range(place)) for place in range(20))}
    numbered = Cell(**{name: getattr(draw, name) for name in Cell.__slots__} | {"distances": numbers, "honest": 8})
    found = executions(numbered, "tokens", chance)
    assert len({value for row in found for value in row if value}) == 15


def test_what_is_handed_in_is_cut_where_the_stage_cuts():
    """A longer text is cut to the stage's tokens and has not ended; a shorter one is said to have."""
    text = " ".join(f"word{number}" for number in range(30))
    short, long = as_output(text, "read", pieces), as_output(text, "answer", pieces)
    assert (short.text, len(short.tokens), short.ended) == (text, 30, True)
    assert (long.text, len(long.tokens), long.ended) == (" ".join(text.split()[:24]), 24, False)


def test_an_interval_is_as_wide_as_questions_differ():
    """Half of the questions always accused: 400 trials say no more than 4 questions do, far from sqrt(.25/400)."""
    tally = Tally.of((f"q{number % 4}", number % 4 < 2, 5) for number in range(400))
    assert (tally.rate, tally.count, tally.reruns) == (0.5, 400, 2000)
    low, high = tally.interval()
    assert low == 0
    assert high == 1
    alike = Tally.of((f"q{number % 4}", number % 8 < 4, 5) for number in range(400))
    assert alike.interval() == (0.5, 0.5)


def test_honest_questions_are_accused_at_the_rate_that_was_promised_and_far_fabrications_always():
    """Every rule sees the same trials; the path test is calibrated over questions whose spreads differ threefold."""
    told = trials([stage_of(cells(), "read")], splits=15, each=1)
    counts = {(name, kind): tally.count for name, kinds in told.items() for kind, tally in kinds.items()}
    assert len(told) == 4
    assert set(counts.values()) == {15 * 12}
    path = next(kinds for name, kinds in told.items() if name.startswith("path"))
    assert path[HONEST].rate <= 0.05
    assert all(path[kind].rate > 0.9 for kind in KINDS)
    assert path[HONEST].reruns < 5 * path[HONEST].count


def test_a_fabrication_within_the_spread_is_not_found():
    """The test has no power where there is nothing to see: the rate is that of honest ones, about."""
    told = trials([stage_of(cells(far=0.17), "read")], splits=6, each=1)
    path = next(kinds for name, kinds in told.items() if name.startswith("path"))
    assert path[KINDS[0]].rate < 0.35
