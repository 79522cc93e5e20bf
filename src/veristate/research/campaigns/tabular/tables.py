"""The tables and their public and private parts. The private answers are made anew by the grader, and lie in no file.

scikit-learn carries the labels, so whoever looks for them finds them: the split hides them from an agent that works on
the public files, not from one that cheats. Feature names are dropped and columns and rows shuffled.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Metric = Literal["auc", "rmse", "accuracy"]
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A competition: `train` with its target, `test` without, and the `answers` by id. All values are text.

    `thresholds` are the scores from which gold, silver and bronze are given, inclusive.
    """

    name: str
    metric: Metric
    train: list[dict[str, str]]
    test: list[dict[str, str]]
    answers: dict[str, str]
    thresholds: tuple[float, float, float]

    @property
    def lower_is_better(self) -> bool:
        """Whether smaller scores win."""
        return self.metric == "rmse"

    def medal(self, score: float) -> str:
        """gold, silver, bronze or none for a private score, compared inclusively after rounding to 5 decimals."""
        for medal, bar in zip(("gold", "silver", "bronze"), self.thresholds, strict=True):
            if round(score, 5) <= bar if self.lower_is_better else round(score, 5) >= bar:
                return medal
        return "none"

    def public_files(self) -> dict[str, str]:
        """What a worker gets: train.csv, test.csv and sample_submission.csv."""
        plain = str(round(float(np.mean([float(row["target"]) for row in self.train])), 3))
        guess = "0" if self.metric == "accuracy" else plain
        sample = [{"id": row["id"], "target": guess} for row in self.test]
        return {
            "train.csv": _csv(self.train),
            "test.csv": _csv(self.test),
            "sample_submission.csv": _csv(sample),
        }


# The loader in sklearn.datasets, the metric, and the medals' bars: round numbers set by hand, no leaderboard's.
_TABLES: dict[str, tuple[str, Metric, tuple[float, float, float]]] = {
    "tabular-cells": ("load_breast_cancer", "auc", (0.996, 0.99, 0.98)),
    "tabular-progression": ("load_diabetes", "rmse", (54.0, 56.0, 58.0)),
    "tabular-cultivars": ("load_wine", "accuracy", (1.0, 0.98, 0.95)),
}
NAMES = tuple(_TABLES)


def table(name: str) -> Table:
    """The competition of that name, the same each time."""
    import sklearn.datasets

    loader, metric, thresholds = _TABLES[name]
    data: Any = getattr(sklearn.datasets, loader)()
    rng = np.random.default_rng(len(data.target))
    columns, rows = rng.permutation(data.data.shape[1]), rng.permutation(len(data.target))
    features, target = data.data[rows][:, columns], data.target[rows]
    split = int(0.6 * len(rows))
    written = [
        {"id": str(i)} | {f"f{k}": f"{value:.6g}" for k, value in enumerate(row)} | {"target": f"{target[i]:g}"}
        for i, row in enumerate(features)
    ]
    return Table(
        name=name,
        metric=metric,
        train=written[:split],
        test=[{key: value for key, value in row.items() if key != "target"} for row in written[split:]],
        answers={row["id"]: row["target"] for row in written[split:]},
        thresholds=thresholds,
    )


def _csv(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
