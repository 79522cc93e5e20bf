"""The worker of the tabular tasks: models of scikit-learn in turn, cross-validated, with random settings; then blends.

A blend averages the out-of-fold predictions of what was tried; its weights are not fitted to them.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.research.workers.bench import Bench

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A model's predictions: out of fold for the training rows, of the whole for the test rows."""

    name: str
    fold: Array
    test: Array
    loss: float


def search(bench: Bench) -> str:
    """What was found, in words, when the time is over or twenty models were tried."""
    metric = str(bench.parameters["metric"])
    train, test = _table(bench.workspace / "train.csv"), _table(bench.workspace / "test.csv")
    x, y = _matrix(train), np.array([float(row["target"]) for row in train])
    z = _matrix(test)
    rng = np.random.default_rng([bench.seed, bench.segment])
    done: list[Tried] = []
    best = np.inf
    for name, model in _models(metric, rng):
        if bench.remaining_s() < 10.0 or len(done) >= 20:
            break
        done.append(_tried(name, model, x, y, z, metric, rng))
        top = sorted(done, key=lambda t: t.loss)[:3]
        for offered in (done[-1], _blend(top, y, metric)):
            if offered.loss < best - 1e-9:
                best = offered.loss
                _write(bench.workspace / "oof.csv", train, offered.fold, metric)
                _write(bench.workspace / "submission.csv", test, offered.test, metric)
                bench.submit(offered.name)
    return f"{len(done)} models; best loss {best:.5f}"


def _models(metric: str, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Names and models without end: linear, nearest neighbours, kernels, forests, boosting."""
    from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing, svm

    regression = metric == "rmse"
    while True:
        strength, trees = 10 ** rng.uniform(-2, 2), int(rng.integers(50, 200))
        linear = (
            linear_model.Ridge(alpha=strength)
            if regression
            else linear_model.LogisticRegression(C=strength, max_iter=2000)
        )
        kernel = svm.SVR(C=30 * strength) if regression else svm.SVC(C=strength)
        near = int(rng.integers(3, 25))
        nearest = neighbors.KNeighborsRegressor(near) if regression else neighbors.KNeighborsClassifier(near)
        forest_kind = ensemble.ExtraTreesRegressor if regression else ensemble.ExtraTreesClassifier
        forest = forest_kind(trees, random_state=int(rng.integers(2**31)), min_samples_leaf=int(rng.integers(1, 6)))
        for name, model in (("linear", linear), ("kernel", kernel), ("nearest", nearest), ("forest", forest)):
            yield f"{name} {strength:.3g}", pipeline.make_pipeline(preprocessing.StandardScaler(), model)


def _tried(name: str, model: Any, x: Array, y: Array, z: Array, metric: str, rng: np.random.Generator) -> Tried:
    fold = np.empty(len(y) if metric != "accuracy" else (len(y), len(np.unique(y))))
    for part in np.array_split(rng.permutation(len(y)), 5):
        rest = np.setdiff1d(np.arange(len(y)), part)
        fold[part] = _predicted(model.fit(x[rest], y[rest]), x[part], metric)
    test = _predicted(model.fit(x, y), z, metric)
    return Tried(name=name, fold=fold, test=test, loss=_loss(fold, y, metric))


def _predicted(model: Any, x: Array, metric: str) -> Array:
    if metric == "rmse":
        return np.asarray(model.predict(x), dtype=np.float64)
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(x), dtype=np.float64)
        return chances if metric == "accuracy" else chances[:, 1]
    scores = np.asarray(model.decision_function(x), dtype=np.float64)
    return 1.0 / (1.0 + np.exp(-scores))


def _blend(top: list[Tried], y: Array, metric: str) -> Tried:
    fold = np.mean([t.fold for t in top], axis=0)
    return Tried(
        name="blend of " + ", ".join(t.name for t in top),
        fold=fold,
        test=np.mean([t.test for t in top], axis=0),
        loss=_loss(fold, y, metric),
    )


def _loss(given: Array, y: Array, metric: str) -> float:
    if metric == "rmse":
        return float(np.sqrt(np.mean((given - y) ** 2)))
    if metric == "accuracy":
        return float(np.mean(given.argmax(axis=1) != y))
    above = given[y == 1][:, None] - given[y == 0][None, :]
    return 1.0 - float(np.mean((above > 0) + 0.5 * (above == 0)))


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _matrix(rows: list[dict[str, str]]) -> Array:
    names = [name for name in rows[0] if name.startswith("f")]
    return np.array([[float(row[name]) for name in names] for row in rows])


def _write(path: Path, rows: list[dict[str, str]], given: Array, metric: str) -> None:
    values = given.argmax(axis=1) if metric == "accuracy" else given
    lines = [f"{row['id']},{value}" for row, value in zip(rows, values.tolist(), strict=True)]
    path.write_text("\n".join(["id,target", *lines]) + "\n", encoding="utf-8")
