"""Monotone basin hopping: a hop, a local solution, kept when it is better; a new start after many that were not."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.search.augmented import dot, local_solution
from veristate.research.campaigns.search.problems import move, settle, start

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


@compiled
def _solve(
    kind: int, n: int, c: Vector, v: Vector, signs: Vector, hull: Indices, rows: int,
    penalty: float, rounds: int, iterations: int, accuracy: float,
) -> float:  # fmt: skip
    """The objective of the local solution that v becomes; -inf where it did not become feasible."""
    settle(kind, n, v, signs, hull)
    worst = local_solution(kind, n, c, v, signs, hull, rows, penalty, rounds, iterations, accuracy)
    if not worst < 10.0 * accuracy:
        return -np.inf
    return dot(c, v)


@compiled
def hop(
    kind: int, n: int, c: Vector, rows: int, current: Vector, value: float, stalls: int, patience: int, hops: int,
    rng: np.random.Generator, penalty: float, rounds: int, iterations: int, accuracy: float,
) -> tuple[float, int, int]:  # fmt: skip
    """The value of `current`, how often in a row no hop bettered it, and the hops made.

    Starts anew when `stalls` has reached `patience`; stops early at a start's end, so that its best can be kept.
    """
    signs = np.zeros(n * (n - 1) * (n - 2) // 6)
    hull = np.full(n, -1)
    trial = current.copy()
    if stalls >= patience:
        start(kind, n, current, rng)
        value = _solve(kind, n, c, current, signs, hull, rows, penalty, rounds, iterations, accuracy)
        stalls = 0
    for done in range(hops):
        if stalls >= patience:
            return value, stalls, done
        trial[:] = current
        move(kind, n, trial, rng)
        found = _solve(kind, n, c, trial, signs, hull, rows, penalty, rounds, iterations, accuracy)
        if found > value + 1e-9:
            current[:] = trial
            value = found
            stalls = 0
        else:
            stalls += 1
    return value, stalls, hops
