"""The query-budgeted search and the tabular tasks: what is refused, what stays hidden, and that the workers learn."""

import csv
import json
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import mean_squared_error, roc_auc_score

from veristate.core import EnvironmentUnusableError
from veristate.research import Rejection, bundled_tasks, read_task
from veristate.research.campaigns.landscape import gb1
from veristate.research.campaigns.scripted import batches
from veristate.research.campaigns.tabular import grading, tables

CAMPAIGNS = Path(str(files("veristate.research"))) / "campaigns"


def test_every_bundled_task_reads_and_names_code_that_is_there():
    """All task folders: the contract accepts them and the functions import."""
    found = bundled_tasks()
    assert {"packing-26", "packing-32", "ratio-16", "heilbronn-triangle-11", "heilbronn-convex-13"} <= set(found)
    assert {"uncertainty-3", "uncertainty-5", "uncertainty-7", "kttsp-easy", "kttsp-medium", "kttsp-hard"} <= set(found)
    assert {"gb1", *tables.NAMES} <= set(found)
    for name in found:
        task = read_task(name)
        for code in (task.evaluator, task.audit, task.worker):
            assert code is not None
            module, _, function = str(code.function).partition(":")
            assert callable(getattr(__import__(module, fromlist=[function]), function))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "JSON"),
        ('{"variants": ["VDGV"]}', "5 to 32"),
        (json.dumps({"variants": ["VDGV"] * 5}), "twice"),
        (json.dumps({"variants": ["VDGV", "VDGB", "ADGV", "CDGV", "DDGV"]}), "VDGB"),
        (json.dumps({"variants": ["VDGV", "VDGVV", "ADGV", "CDGV", "DDGV"]}), "four letters"),
        (json.dumps({"variants": [1, 2, 3, 4, 5]}), "no variant"),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path, content, said):
    """Before any label is looked up."""
    (tmp_path / "batch.json").write_text(content)
    answer = gb1.evaluate(tmp_path, {"n": 32, "k": 5})
    assert isinstance(answer, Rejection)
    assert said in answer.reason


def test_a_batch_scores_the_mean_of_its_best(tmp_path):
    """Against the data read apart; the score is one number, and no variant's own is told."""
    if not os.environ.get("VERISTATE_DATA"):
        pytest.skip("VERISTATE_DATA names no folder")
    with np.load(Path(os.environ["VERISTATE_DATA"]) / "bio" / "gb1_four_mutations.npz") as data:
        letters = np.array(list(str(data["alphabet"])))[data["variant"][:40:2]]
        values = data["fitness"][:40:2]
    (tmp_path / "batch.json").write_text(json.dumps({"variants": ["".join(row) for row in letters]}))
    answer = gb1.evaluate(tmp_path, {"n": 32, "k": 5})
    assert float(answer.metric) == pytest.approx(np.sort(values)[-5:].mean())
    assert answer.details == {}


def test_without_data_the_labels_are_missed_by_name():
    """The message names the variable and the file."""
    with pytest.raises(EnvironmentUnusableError, match="gb1_four_mutations"):
        gb1.fitness({})


def test_the_surrogate_climbs_an_additive_landscape_far_above_chance():
    """A made landscape: 30 queries of batches find more than random batches do, for each of two seeds."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        effects = rng.exponential(size=(4, 20))

        def score(batch, effects=effects):
            return float(np.sort(effects[np.arange(4), batch].sum(axis=1))[-5:].mean())

        history = []
        for _ in range(30):
            batch = batches.proposed(history, 32, rng)
            assert len({tuple(row) for row in batch.tolist()}) == 32
            history.append((batch.tolist(), score(batch)))
        chance = max(score(rng.integers(20, size=(32, 4))) for _ in range(30))
        best = effects.max(axis=1).sum()
        assert max(s for _, s in history) > chance + 0.3 * (best - chance)


@pytest.mark.parametrize("name", tables.NAMES)
def test_the_public_files_are_those_the_tables_make_and_hold_no_private_answer(name):
    """File by file; ids of the test part never stand beside a target."""
    folder = CAMPAIGNS / name.replace("-", "_") / "workspace"
    table = tables.table(name)
    for file, text in table.public_files().items():
        assert (folder / file).read_text() == text
    with (folder / "test.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["id"] for row in rows} == set(table.answers)
    assert not any("target" in row for row in rows)
    assert not {row["id"] for row in table.train} & set(table.answers)
    assert sorted(path.name for path in folder.iterdir()) == [
        "description.md", "sample_submission.csv", "test.csv", "train.csv",
    ]  # fmt: skip


def test_grades_are_those_of_scikit_learn():
    """The area under the curve with ties, and the root mean squared error."""
    rng = np.random.default_rng(0)
    truth, given = rng.integers(0, 2, 60), rng.integers(0, 8, 60) / 8
    as_text = {str(i): str(v) for i, v in enumerate(given)}
    answers = {str(i): str(v) for i, v in enumerate(truth)}
    assert grading.grade(as_text, answers, "auc") == pytest.approx(roc_auc_score(truth, given))
    assert grading.grade(as_text, answers, "rmse") == pytest.approx(np.sqrt(mean_squared_error(truth, given)))
    assert grading.grade(as_text, answers, "accuracy") == np.mean(truth == given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], "each of the"),
        (lambda lines: [*lines[:-1], lines[1]], "each of the"),
        (lambda lines: ["id,label", *lines[1:]], "columns"),
        (lambda lines: [*lines[:-1], lines[-1].partition(",")[0] + ",nan"], "no finite number"),
        (lambda lines: [*lines[:-1], lines[-1].partition(",")[0] + ",x"], "no finite number"),
        (lambda lines: [], "columns"),
    ],
)
def test_an_invalid_submission_is_refused_and_a_valid_one_learns_no_private_score(tmp_path, change, said):
    """The sample submission is valid; the evaluator's score is of the training rows alone, whatever is submitted."""
    table = tables.table("tabular-cells")
    sample = table.public_files()["sample_submission.csv"]
    oof = "id,target\n" + "".join(f"{row['id']},{row['f0']}\n" for row in table.train)
    (tmp_path / "oof.csv").write_text(oof)
    (tmp_path / "submission.csv").write_text(sample)
    plain = grading.evaluate(tmp_path, {"table": "tabular-cells"})
    perfect = "id,target\n" + "".join(f"{i},{value}\n" for i, value in table.answers.items())
    (tmp_path / "submission.csv").write_text(perfect)
    assert grading.evaluate(tmp_path, {"table": "tabular-cells"}) == plain
    audited = grading.audit(tmp_path, {"table": "tabular-cells"})
    assert audited.metric == 1.0
    assert audited.details["medal"] == "gold"
    (tmp_path / "submission.csv").write_text("\n".join(change(sample.splitlines())) + "\n")
    for judge in (grading.evaluate, grading.audit):
        answer = judge(tmp_path, {"table": "tabular-cells"})
        assert isinstance(answer, Rejection)
        assert said in answer.reason


def test_medals_are_inclusive_and_follow_the_direction():
    """Higher is better for the area under the curve, lower for the error."""
    cells, progression = tables.table("tabular-cells"), tables.table("tabular-progression")
    gold, silver, bronze = cells.thresholds
    assert [cells.medal(s) for s in (gold, silver, bronze, bronze - 0.001)] == ["gold", "silver", "bronze", "none"]
    gold, silver, bronze = progression.thresholds
    assert [progression.medal(s) for s in (gold, silver, bronze, bronze + 0.001)] == [
        "gold",
        "silver",
        "bronze",
        "none",
    ]
