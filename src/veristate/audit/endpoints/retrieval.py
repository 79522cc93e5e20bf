"""Retrieval metrics: Recall@k and nDCG@k, of Top-K lists over an array and of one list of documents."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.endpoints.ranking import Indices
from veristate.core import InputError

Floats = NDArray[np.float64]


def labels_along(top: Indices, gains: ArrayLike) -> Floats:
    """The relevance labels in the order of the list: what the metrics see of it.

    Shapes: top [q, k], gains [q, n]; the result [q, k].
    Source: BioAgent-DF B.2 (relevance-label sequence).
    """
    table = _require_gains(gains)
    if top.ndim != 2 or len(top) != len(table):
        raise InputError(f"lists of shape {top.shape} need gains of as many rows, not of shape {table.shape}")
    return np.take_along_axis(table, top, axis=1)


def recall_at(top: Indices, gains: ArrayLike) -> Floats:
    """Recall@k of each row: the share of its relevant columns (gain above 0) that the list of k holds.

    Shapes: top [q, k], gains [q, n]; the result [q].
    Raises: InputError for a row without a relevant column, and for gains that are negative or not finite.
    """
    found = (labels_along(top, gains) > 0).sum(axis=1)
    return np.asarray(found / (_require_gains(gains) > 0).sum(axis=1))


def ndcg_at(top: Indices, gains: ArrayLike) -> Floats:
    """nDCG@k of each row, for binary and for graded gains; equal label sequences give equal bits.

    Maths: DCG = sum over places i = 1..k of gain_i / log2(i + 1); divided by the DCG of the k largest gains. The list's
    own order is judged: ties were broken by identifier, not averaged.
    Shapes: top [q, k], gains [q, n]; the result [q].
    Raises: InputError as `recall_at` does.
    """
    table, count = _require_gains(gains), top.shape[-1]
    return _dcg(labels_along(top, gains)) / _dcg(-np.sort(-table, axis=1)[:, :count])


def list_recall(documents: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Recall@k of one list of documents, each at its first access; it may be shorter than k.

    Raises: InputError as `recall_at` does, and for k below 1.
    """
    top, row = _one_row(documents, gains, k)
    return float(recall_at(top, row)[0])


def list_ndcg(documents: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """nDCG@k of one list of documents, each at its first access; places past its end gain nothing.

    Raises: InputError as `recall_at` does, and for k below 1.
    """
    top, row = _one_row(documents, gains, k)
    return float(ndcg_at(top, row)[0])


def _one_row(documents: Sequence[str], gains: Mapping[str, float], k: int) -> tuple[Indices, Floats]:
    """The list as k columns of one row of gains: the documents, then empty places, then what was not retrieved."""
    if k < 1:
        raise InputError(f"a metric at {k} does not exist; give k of 1 or more")
    listed = list(dict.fromkeys(documents))[:k]
    row = np.zeros((1, k + len(gains)))
    row[0, : len(listed)] = [gains.get(document, 0.0) for document in listed]
    missed = [gain for document, gain in gains.items() if document not in set(listed)]
    row[0, k : k + len(missed)] = missed
    return np.arange(k, dtype=np.int64)[None, :], row


def _dcg(labels: Floats) -> Floats:
    return np.asarray((labels / np.log2(np.arange(2, labels.shape[1] + 2))).sum(axis=1))


def _require_gains(gains: ArrayLike) -> Floats:
    table = np.asarray(gains, dtype=np.float64)
    if table.ndim != 2:
        raise InputError(f"gains must have shape [queries, columns], not {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise InputError("gains must be finite and not negative")
    empty = np.flatnonzero(~(table > 0).any(axis=1))
    if empty.size:
        raise InputError(f"{empty.size} rows have no relevant column, row {empty[0]} first; no metric is defined there")
    return table
