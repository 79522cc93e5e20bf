"""The table an agent is shown: identifiers, calibrated scores, member probabilities, as the bytes of a CSV file."""

import csv
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, decimal_string
from veristate.decisions import ensemble_mean

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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.fields)
        members = self.members.astype(np.float64).T.tolist()
        for name, score, values in zip(self.ids, self.scores.tolist(), members, strict=True):
            writer.writerow([name, decimal_string(score), *map(decimal_string, values)])
        return text.getvalue().encode()
