"""Grading as MLE-bench does: a worker learns whether its submission is valid; the private score stays for the audit.

So that a campaign has something to steer by, a worker also hands in out-of-fold predictions for the training
rows (oof.csv), which are scored against the public targets. Whether they are honest is the worker's own business: the
medal does not depend on them.
"""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veristate.research.campaigns.tabular.tables import Metric, table
from veristate.research.tasks import Rejection, Score

_BYTES_UPPER = 5_000_000


class InvalidSubmissionError(Exception):
    """A submission that can't be graded; its message says why. It never leaves the grader."""


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The score of oof.csv on the public targets, when submission.csv is valid; nothing of the private part."""
    competition = table(str(parameters["table"]))
    public = {row["id"]: row["target"] for row in competition.train}
    try:
        read_predictions(candidate / "submission.csv", list(competition.answers))
        return Score(
            metric=round(grade(read_predictions(candidate / "oof.csv", list(public)), public, competition.metric), 5)
        )
    except InvalidSubmissionError as error:
        return Rejection(reason=str(error))


def audit(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The private score of submission.csv, rounded to 5 decimals, and its medal."""
    competition = table(str(parameters["table"]))
    try:
        score = grade(
            read_predictions(candidate / "submission.csv", list(competition.answers)),
            competition.answers,
            competition.metric,
        )
    except InvalidSubmissionError as error:
        return Rejection(reason=str(error))
    return Score(metric=round(score, 5), details={"medal": competition.medal(score)})


def read_predictions(path: Path, ids: list[str]) -> dict[str, str]:
    """The predictions by id. Raises: InvalidSubmissionError naming what is wrong with the file."""
    if not path.is_file() or path.stat().st_size > _BYTES_UPPER:
        raise InvalidSubmissionError(f"{path.name} is missing, or larger than {_BYTES_UPPER} bytes")
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        rows = list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidSubmissionError(f"{path.name} is no CSV file: {error}") from error
    if reader.fieldnames != ["id", "target"]:
        raise InvalidSubmissionError(f"{path.name} needs the columns id,target, not {reader.fieldnames}")
    found = {str(row["id"]): str(row["target"]) for row in rows}
    if len(rows) != len(ids) or set(found) != set(ids):
        raise InvalidSubmissionError(f"{path.name} needs each of the {len(ids)} ids once")
    for identifier, value in found.items():
        if not _finite(value):
            raise InvalidSubmissionError(f"{path.name}, id {identifier}: {value[:20]!r} is no finite number")
    return found


def grade(submission: Mapping[str, str], answers: Mapping[str, str], metric: Metric) -> float:
    """The score of valid predictions, in floating point as Kaggle computes it."""
    ids = list(answers)
    truth = np.array([float(answers[i]) for i in ids])
    given = np.array([float(submission[i]) for i in ids])
    if metric == "accuracy":
        return float(np.mean(truth == given))
    if metric == "rmse":
        return float(np.sqrt(np.mean((truth - given) ** 2)))
    # The share of pairs in the right order, ties half.
    above = given[truth == 1][:, None] - given[truth == 0][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def _finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
