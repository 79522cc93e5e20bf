"""How scores are judged: ranked lists, classes, and the aggregate metrics that a paper would report of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from veristate.audit.tasks.task import Array, Indices, TaskOutcome

Floats = NDArray[np.float64]


def text_order(ids: Sequence[str]) -> Indices:
    """The positions of `ids` in text order: tables are held in it, so that position breaks ties as identifiers do."""
    return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.intp)


def best_columns(scores: NDArray[np.floating], k: int) -> Indices:
    """[rows, k]: the columns of each row's largest scores, best first, ties by the smaller column.

    Maths: only columns that reach a row's k-th largest value are sorted. Shapes: scores [rows, n], k from 1 to n.
    """
    reached = np.partition(scores, -k, axis=1)[:, -k]
    rows, columns = np.nonzero(scores >= reached[:, None])
    order = np.lexsort((columns, -scores[rows, columns], rows))
    starts = np.searchsorted(rows, np.arange(len(scores)))
    return np.asarray(columns[order][starts[:, None] + np.arange(k)], dtype=np.intp)


def rmse(predicted: NDArray[np.floating], measured: Floats) -> float:
    """The root of the mean squared difference, in float64."""
    return float(np.sqrt(np.mean((predicted.astype(np.float64) - measured) ** 2)))


def rank_correlation(predicted: NDArray[np.floating], measured: Floats) -> float:
    """Spearman's: the correlation of average ranks."""
    return float(np.corrcoef(rankdata(predicted), rankdata(measured))[0, 1])


def area_under_curve(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """The area under the receiver operating characteristic curve, ties counting one half."""
    ranks, count = rankdata(scores), int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(scores) - count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """One list of the k largest of [n, 1] scores; metrics over the rows `test`."""

    k: int
    measured: Floats
    test: Indices

    def __call__(self, scores: Array) -> TaskOutcome:
        """The list, and the error and rank correlation on the test rows."""
        predicted = scores[:, 0]
        tested, known = predicted[self.test], self.measured[self.test]
        metrics = (("RMSE", rmse(tested, known)), ("Spearman", rank_correlation(tested, known)))
        return TaskOutcome(lists=best_columns(predicted[None, :], self.k), labels=None, metrics=metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The class of each row: its largest score, the smaller class on a tie; accuracy over the rows `test`."""

    known: Indices
    test: Indices

    def __call__(self, scores: Array) -> TaskOutcome:
        """The classes, and their accuracy on the test rows."""
        labels = scores.argmax(axis=1)
        accuracy = float((labels[self.test] == self.known[self.test]).mean())
        return TaskOutcome(lists=None, labels=labels, metrics=(("accuracy", accuracy),))
