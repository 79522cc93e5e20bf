"""The worker of the query-budgeted search: a surrogate of what each letter at each site adds, and of pairs of letters.

A query shows one number for a whole batch. Each new batch keeps a part of the best one and adds variants that the
surrogate proposes; ridge regression on how often each letter, and each pair, occurs in a batch learns from the number.
"""

import json

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.landscape.gb1 import ALPHABET, FILE
from veristate.research.workers.bench import Bench

Array = NDArray[np.float64]
Batch = NDArray[np.int64]  # rows of four letters

_LETTERS = len(ALPHABET)
_HISTORY = "queries.json"
_KEPT = 0.5
_RIDGE = 0.02


def search(bench: Bench) -> str:
    """What was found, in words, when the queries or the time are spent."""
    size = int(bench.parameters["n"])
    rng = np.random.default_rng([bench.seed, bench.segment])
    path = bench.workspace / _HISTORY
    history: list[tuple[list[list[int]], float]] = json.loads(path.read_text()) if path.is_file() else []
    while bench.remaining_s() > 5.0 and bench.queries_left != 0:
        batch = proposed(history, size, rng)
        words = ["".join(ALPHABET[k] for k in row) for row in batch]
        (bench.workspace / FILE).write_text(json.dumps({"variants": words}) + "\n", encoding="utf-8")
        outcome = bench.submit(f"batch {len(history)}")
        if outcome.status == "refused":
            break
        if outcome.metric is not None:
            history.append((batch.tolist(), float(outcome.metric)))
            path.write_text(json.dumps(history) + "\n", encoding="utf-8")
    return f"{len(history)} queries; best {max((score for _, score in history), default=0.0):.4f}"


def proposed(history: list[tuple[list[list[int]], float]], size: int, rng: np.random.Generator) -> Batch:
    """The next batch: at random at first, then a part of the best batch and the surrogate's proposals."""
    if len(history) < 4:
        return _distinct(rng.integers(_LETTERS, size=(4 * size, 4)), size)
    weights = _surrogate(history)
    best = np.array(max(history, key=lambda query: query[1])[0])
    by_worth = best[np.argsort(-(_features(best) @ weights))]
    kept = by_worth[: int(_KEPT * size)]
    # Neighbours of what is kept, recombinations of it, and newcomers; the surrogate takes its pick, with some noise.
    pool = kept[rng.integers(len(kept), size=(40 * size, 4)), np.arange(4)]
    changed = rng.random(pool.shape) < 0.3
    pool[changed] = rng.integers(_LETTERS, size=int(changed.sum()))
    worth = _features(pool) @ weights
    worth += 0.5 * worth.std() * rng.standard_normal(len(pool))
    return _distinct(np.concatenate([kept, pool[np.argsort(-worth)], rng.integers(_LETTERS, size=(9 * size, 4))]), size)


def _surrogate(history: list[tuple[list[list[int]], float]]) -> Array:
    """Ridge weights from batches' mean features to their scores, by the dual since queries are fewer than features."""
    x = np.array([_features(np.array(batch)).mean(axis=0) for batch, _ in history])
    y = np.array([score for _, score in history])
    x, y = x - x.mean(axis=0), y - y.mean()
    gram = x @ x.T
    ridge = _RIDGE * max(float(np.trace(gram)) / len(y), 1e-12)
    weights: Array = x.T @ np.linalg.solve(gram + ridge * np.eye(len(y)), y)
    return weights


def _features(batch: Batch) -> Array:
    """One-hot letters of the four sites, then, at a third of the weight, of the six pairs of sites."""
    rows = np.arange(len(batch))
    made = np.zeros((len(batch), 4 * _LETTERS + 6 * _LETTERS**2))
    for site in range(4):
        made[rows, site * _LETTERS + batch[:, site]] = 1.0
    offset = 4 * _LETTERS
    for a in range(4):
        for b in range(a):
            made[rows, offset + batch[:, a] * _LETTERS + batch[:, b]] = 1.0 / 3.0
            offset += _LETTERS**2
    return made


def _distinct(pool: Batch, size: int) -> Batch:
    """The first `size` different rows."""
    _, first = np.unique(pool, axis=0, return_index=True)
    return pool[np.sort(first)[:size]]
