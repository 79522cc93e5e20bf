"""The tables an agent is shown, as the bytes of a CSV file: certified scores and members, or intervals of scores."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, decimal_string
from veristate.decisions import Box, ensemble_mean

FILE = "scores.csv"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreTable:
    """Scores of all candidates in table order. Shapes: members [m, n] as the executor gave them, scores [n]."""

    ids: tuple[str, ...]
    members: NDArray[np.float32]
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, ids: tuple[str, ...], members: NDArray[np.float32], temperature: float) -> "ScoreTable":
        """The table with calibrated ensemble means. Raises: InputError for values that are no probabilities."""
        if not ((members >= 0) & (members <= 1)).all():
            raise InputError("some values are no probabilities in [0, 1]")
        return cls(ids=ids, members=members, scores=ensemble_mean(members, temperature))

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns."""
        return ("id", "score", *(f"member_{m}" for m in range(len(self.members))))

    def to_csv(self) -> bytes:
        """The file's bytes: every number as the shortest decimal string that reads back exactly."""
        members = self.members.astype(np.float64).T.tolist()
        scores = self.scores.tolist()
        return _csv(self.fields, ([n, s, *v] for n, s, v in zip(self.ids, scores, members, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalTable:
    """Proven intervals of all candidates' calibrated means in table order, where decisions alone are certified.

    `scores` are the lower ends: one point of the box of intervals, and every point of it gives the certified decisions,
    so a reader who ranks by them decides as certified. No value of the suspect device stands here. Shapes: [n].
    """

    ids: tuple[str, ...]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @classmethod
    def of(cls, ids: tuple[str, ...], box: Box) -> "IntervalTable":
        """The table of a box of scores [n]."""
        return cls(ids=ids, lower=box.lower, upper=box.upper)

    @property
    def scores(self) -> NDArray[np.float64]:
        """The lower ends."""
        return self.lower

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns."""
        return ("id", "score", "score_lower", "score_upper")

    def to_csv(self) -> bytes:
        """The file's bytes: every end as the shortest decimal string that reads back exactly."""
        ends = zip(self.ids, self.lower.tolist(), self.upper.tolist(), strict=True)
        return _csv(self.fields, ([name, low, low, high] for name, low, high in ends))


Table = ScoreTable | IntervalTable


def _csv(fields: Sequence[str], rows: Iterable[Sequence[str | float]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    for name, *numbers in rows:
        writer.writerow([name, *(decimal_string(float(value)) for value in numbers)])
    return text.getvalue().encode()
