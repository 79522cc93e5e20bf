"""The local solver: an augmented Lagrangian whose inner problems L-BFGS solves (Nocedal and Wright, 7.2 and 17.4)."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.search.problems import Problem, Shape, constraints, pull_back, settled

Vector = NDArray[np.float64]

_PAIRS = 10  # of steps and gradient changes that L-BFGS keeps
_TRIALS = 30  # of a step's length


@compiled
def dot(a: Vector, b: Vector) -> float:
    """The inner product; a plain loop, which compiles faster than a library's call and is as fast on short vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def _largest(a: Vector) -> float:
    largest = 0.0
    for i in range(len(a)):
        largest = max(largest, abs(a[i]))
    return largest


@compiled
def _lagrangian(
    shape: Shape, c: Vector, v: Vector,
    multipliers: Vector, penalty: float, h: Vector, w: Vector, g: Vector,
) -> float:  # fmt: skip
    """The augmented Lagrangian at v, to be minimised; fills h, w = max(0, lambda - mu h) and gradient g."""
    constraints(shape, v, h)
    value = 0.0
    for i in range(len(c)):
        value -= c[i] * v[i]
        g[i] = 0.0
    for k in range(len(h)):
        w[k] = max(0.0, multipliers[k] - penalty * h[k])
        value += (w[k] * w[k] - multipliers[k] * multipliers[k]) / (2.0 * penalty)
    pull_back(shape, v, w, g)
    for i in range(len(c)):
        g[i] = -c[i] - g[i]
    return value


@compiled
def _add(p: Vector, scale: float, q: Vector) -> None:
    """Adds scale times q to p."""
    for i in range(len(p)):
        p[i] += scale * q[i]


@compiled
def _direction(g: Vector, ring: Vector, scalars: Vector, kept: int, p: Vector) -> None:
    """Fills p with minus the L-BFGS inverse Hessian times g.

    Steps lie in the ring's first rows, gradient changes in its last; `scalars` holds their products, and is scratch.
    """
    m = _PAIRS
    for i in range(len(p)):
        p[i] = -g[i]
    held = min(kept, m)
    for back in range(held):
        k = (kept - 1 - back) % m
        scalars[m + k] = dot(ring[k], p) / scalars[k]
        _add(p, -scalars[m + k], ring[m + k])
    if held:
        k = (kept - 1) % m
        _add(p, scalars[k] / dot(ring[m + k], ring[m + k]) - 1.0, p)
    for back in range(held - 1, -1, -1):
        k = (kept - 1 - back) % m
        _add(p, scalars[m + k] - dot(ring[m + k], p) / scalars[k], ring[k])


@compiled
def _minimise(
    shape: Shape, c: Vector, v: Vector, multipliers: Vector, penalty: float,
    iterations: int, tolerance: float, h: Vector, w: Vector, ring: Vector, scalars: Vector,
) -> None:  # fmt: skip
    """Moves v to a minimiser of the augmented Lagrangian; h and w are its values there."""
    g, p, trial, g_trial = ring[2 * _PAIRS], ring[2 * _PAIRS + 1], ring[2 * _PAIRS + 2], ring[2 * _PAIRS + 3]
    value = _lagrangian(shape, c, v, multipliers, penalty, h, w, g)
    kept = 0
    for _ in range(iterations):
        if _largest(g) < tolerance:
            return
        _direction(g, ring, scalars, kept, p)
        slope = dot(g, p)
        length = 1.0 if kept else min(1.0, 0.05 / np.sqrt(-slope))
        found, lower = np.inf, False
        for _ in range(_TRIALS if slope < 0.0 else 0):
            for i in range(len(v)):
                trial[i] = v[i] + length * p[i]
            found = _lagrangian(shape, c, trial, multipliers, penalty, h, w, g_trial)
            lower = found <= value + 1e-4 * length * slope
            if lower:
                break
            length *= max(0.1, min(0.5, -0.5 * length * slope / max(found - value - length * slope, 1e-300)))
        if not lower:
            if kept == 0:
                break
            kept = 0
            continue
        k = kept % _PAIRS
        for i in range(len(v)):
            ring[k, i], ring[_PAIRS + k, i] = trial[i] - v[i], g_trial[i] - g[i]
            v[i], g[i] = trial[i], g_trial[i]
        scalars[k] = dot(ring[k], ring[_PAIRS + k])
        if scalars[k] > 1e-14 * dot(ring[_PAIRS + k], ring[_PAIRS + k]):
            kept += 1
        value = found
    _lagrangian(shape, c, v, multipliers, penalty, h, w, g)


def local_solution(problem: Problem, v: Vector, penalty: float, rounds: int, iterations: int, accuracy: float) -> float:
    """The largest violation left; v becomes a local maximum of c . v under h(v) >= 0, to about that accuracy."""
    shape = settled(problem, v)
    multipliers, h, w = np.zeros((3, problem.constraints))
    ring, scalars = np.zeros((2 * _PAIRS + 4, len(v))), np.zeros(2 * _PAIRS)
    worst, tolerance = np.inf, 1e-2
    for _ in range(rounds):
        _minimise(shape, problem.objective, v, multipliers, penalty, iterations, tolerance, h, w, ring, scalars)
        multipliers[:] = w
        before, worst = worst, max(0.0, -float(h.min()))
        slack = max(worst, float(np.max(np.abs(h), where=w > 0.0, initial=0.0)))
        if slack < accuracy and tolerance <= accuracy * 10.0:
            break
        if worst > 0.25 * before:
            penalty *= 4.0
        tolerance = max(tolerance * 0.1, accuracy)
    return worst
