"""The local solver: an augmented Lagrangian whose inner problems L-BFGS solves (Nocedal and Wright, 7.2 and 17.4)."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.search.problems import constraints, pull_back

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

_PAIRS = 10  # of steps and gradient changes that L-BFGS keeps


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
def _violation(h: Vector) -> float:
    worst = 0.0
    for k in range(len(h)):
        worst = max(worst, -h[k])
    return worst


@compiled
def _lagrangian(
    kind: int, n: int, c: Vector, v: Vector, signs: Vector, hull: Indices,
    multipliers: Vector, penalty: float, h: Vector, w: Vector, g: Vector,
) -> float:  # fmt: skip
    """The augmented Lagrangian at v, to be minimised; fills h, w = max(0, lambda - mu h) and gradient g."""
    constraints(kind, n, v, signs, hull, h)
    value = 0.0
    for i in range(len(c)):
        value -= c[i] * v[i]
        g[i] = 0.0
    for k in range(len(h)):
        w[k] = max(0.0, multipliers[k] - penalty * h[k])
        value += (w[k] * w[k] - multipliers[k] * multipliers[k]) / (2.0 * penalty)
    pull_back(kind, n, v, signs, hull, w, g)
    for i in range(len(c)):
        g[i] = -c[i] - g[i]
    return value


@compiled
def _direction(g: Vector, steps: Vector, changes: Vector, curvatures: Vector, kept: int, p: Vector) -> None:
    """Fills p with minus the L-BFGS inverse Hessian times g. Rows of `steps` and `changes` lie in a ring."""
    m = len(curvatures)
    alpha = np.zeros(m)
    p[:] = -g
    held = min(kept, m)
    for back in range(held):
        k = (kept - 1 - back) % m
        alpha[k] = dot(steps[k], p) / curvatures[k]
        p -= alpha[k] * changes[k]
    if held:
        k = (kept - 1) % m
        p *= curvatures[k] / dot(changes[k], changes[k])
    for back in range(held - 1, -1, -1):
        k = (kept - 1 - back) % m
        p += (alpha[k] - dot(changes[k], p) / curvatures[k]) * steps[k]


@compiled
def _minimise(
    kind: int, n: int, c: Vector, v: Vector, signs: Vector, hull: Indices,
    multipliers: Vector, penalty: float, iterations: int, tolerance: float, h: Vector, w: Vector,
) -> int:  # fmt: skip
    """The iterations taken; v becomes a minimiser of the augmented Lagrangian, h and w its values there."""
    size = len(c)
    steps, changes, curvatures = np.zeros((_PAIRS, size)), np.zeros((_PAIRS, size)), np.zeros(_PAIRS)
    g, p, trial, g_trial = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    value = _lagrangian(kind, n, c, v, signs, hull, multipliers, penalty, h, w, g)
    kept = 0
    for iteration in range(iterations):
        if _largest(g) < tolerance:
            return iteration
        _direction(g, steps, changes, curvatures, kept, p)
        slope = dot(g, p)
        if slope >= 0.0:
            kept = 0
            p[:] = -g
            slope = -dot(g, g)
        length = 1.0 if kept else min(1.0, 0.05 / np.sqrt(-slope))
        for _ in range(30):
            trial[:] = v + length * p
            found = _lagrangian(kind, n, c, trial, signs, hull, multipliers, penalty, h, w, g_trial)
            if found <= value + 1e-4 * length * slope:
                break
            length *= max(0.1, min(0.5, -0.5 * length * slope / max(found - value - length * slope, 1e-300)))
        else:
            if kept == 0:
                break
            kept = 0
            continue
        k = kept % _PAIRS
        steps[k] = trial - v
        changes[k] = g_trial - g
        curvatures[k] = dot(steps[k], changes[k])
        if curvatures[k] > 1e-14 * dot(changes[k], changes[k]):
            kept += 1
        v[:] = trial
        g[:] = g_trial
        value = found
    _lagrangian(kind, n, c, v, signs, hull, multipliers, penalty, h, w, g)
    return iterations


@compiled
def local_solution(
    kind: int, n: int, c: Vector, v: Vector, signs: Vector, hull: Indices, rows: int,
    penalty: float, rounds: int, iterations: int, accuracy: float,
) -> float:  # fmt: skip
    """The largest violation left; v becomes a local maximum of c . v under h(v) >= 0, to about that accuracy."""
    multipliers, h, w = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    worst = np.inf
    tolerance = 1e-2
    for _ in range(rounds):
        _minimise(kind, n, c, v, signs, hull, multipliers, penalty, iterations, tolerance, h, w)
        multipliers[:] = w
        before, worst = worst, _violation(h)
        slack = worst
        for k in range(rows):
            if w[k] > 0.0:
                slack = max(slack, abs(h[k]))
        if slack < accuracy and tolerance <= accuracy * 10.0:
            break
        if worst > 0.25 * before:
            penalty *= 4.0
        tolerance = max(tolerance * 0.1, accuracy)
    return worst
