"""Heilbronn: the least area of the triangles that n points span, in the unit right triangle or in their own hull.

Both are affine invariant, so that the right triangle stands for the equilateral one. v = (x, y, t). `signs` keeps the
orientation of each triple while a local solution runs: the least area stays positive, so none of them may change.
`hull` keeps the points of the convex hull in order, which the orientations fix too.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Heilbronn(NamedTuple):
    """What stays fixed while a local solution runs: the orientation of each triple, and the hull counter-clockwise,
    with -1 after its last point.
    """

    n: int
    in_triangle: bool
    signs: Vector
    hull: Indices


def sizes(n: int, in_triangle: bool) -> tuple[int, int]:
    """The numbers of variables and of constraints."""
    triples = n * (n - 1) * (n - 2) // 6
    return 2 * n + 1, triples + (3 * n if in_triangle else 1)


@compiled
def twice_area(n: int, v: Vector, i: int, j: int, k: int) -> float:
    """Twice the signed area of the triangle of points i, j and k."""
    return float((v[j] - v[i]) * (v[n + k] - v[n + i]) - (v[k] - v[i]) * (v[n + j] - v[n + i]))


def settled(n: int, in_triangle: bool, v: Vector) -> Heilbronn:
    """The orientations and the hull of v."""
    i, j, k = _triples(n)
    x, y = v[:n], v[n : 2 * n]
    signs = np.where((x[j] - x[i]) * (y[k] - y[i]) >= (x[k] - x[i]) * (y[j] - y[i]), 1.0, -1.0)
    hull = np.full(n, -1)
    lowest = point = int(np.argmin(y))
    for count in range(n):
        hull[count] = point
        following = 0 if point else 1
        for other in range(n):
            if other != point and twice_area(n, v, point, following, other) < 0.0:
                following = other
        point = following
        if point == lowest:
            break
    return Heilbronn(n, in_triangle, signs, hull)


@cache
def _triples(n: int) -> tuple[Indices, Indices, Indices]:
    """The points i > j > k of each triple, in the order of the constraints."""
    listed = [(i, j, k) for i in range(n) for j in range(i) for k in range(j)]
    i, j, k = np.array(listed, dtype=np.int64).reshape(-1, 3).T
    return i, j, k


@compiled
def constraints(shape: Heilbronn, v: Vector, h: Vector) -> None:
    """Fills h: each oriented double area less t; then the triangle's sides, or 1 less the hull's double area."""
    n, in_triangle, signs, hull = shape.n, shape.in_triangle, shape.signs, shape.hull
    at = 0
    t = v[2 * n]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                h[at] = signs[at] * twice_area(n, v, i, j, k) - t
                at += 1
    if in_triangle:
        for i in range(n):
            h[at] = v[i]
            h[at + 1] = v[n + i]
            h[at + 2] = 1.0 - v[i] - v[n + i]
            at += 3
        return
    area = 0.0
    for c in range(n):
        if hull[c] < 0:
            break
        i = hull[c]
        j = hull[c + 1] if c + 1 < n and hull[c + 1] >= 0 else hull[0]
        area += v[i] * v[n + j] - v[j] * v[n + i]
    h[at] = 1.0 - area


@compiled
def pull_back(shape: Heilbronn, v: Vector, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
    n, in_triangle, signs, hull = shape.n, shape.in_triangle, shape.signs, shape.hull
    at = 0
    for i in range(n):
        for j in range(i):
            for k in range(j):
                if w[at] != 0.0:
                    s = w[at] * signs[at]
                    g[i] += s * (v[n + j] - v[n + k])
                    g[j] += s * (v[n + k] - v[n + i])
                    g[k] += s * (v[n + i] - v[n + j])
                    g[n + i] += s * (v[k] - v[j])
                    g[n + j] += s * (v[i] - v[k])
                    g[n + k] += s * (v[j] - v[i])
                    g[2 * n] -= w[at]
                at += 1
    if in_triangle:
        for i in range(n):
            g[i] += w[at] - w[at + 2]
            g[n + i] += w[at + 1] - w[at + 2]
            at += 3
        return
    for c in range(n):
        if hull[c] < 0:
            break
        i = hull[c]
        j = hull[c + 1] if c + 1 < n and hull[c + 1] >= 0 else hull[0]
        g[i] -= w[at] * v[n + j]
        g[j] += w[at] * v[n + i]
        g[n + i] += w[at] * v[j]
        g[n + j] -= w[at] * v[i]


def start(n: int, in_triangle: bool, rng: np.random.Generator) -> Vector:
    """Random points of the triangle, or of the square."""
    v = np.zeros(2 * n + 1)
    for i in range(n):
        v[i], v[n + i] = _place(in_triangle, rng)
    return v


def _place(in_triangle: bool, rng: np.random.Generator) -> tuple[float, float]:
    x, y = rng.random(), rng.random()
    return (1.0 - x, 1.0 - y) if in_triangle and x + y > 1.0 else (x, y)


def move(n: int, in_triangle: bool, v: Vector, rng: np.random.Generator) -> None:
    """Puts one point, or two, anywhere in the triangle or in the box of the others; or shakes all."""
    if rng.random() < 0.2:
        v[: 2 * n] += 0.1 * rng.random() * (rng.random(2 * n) - 0.5)
        return
    low_x, low_y = np.min(v[:n]), np.min(v[n : 2 * n])
    wide, high = np.max(v[:n]) - low_x, np.max(v[n : 2 * n]) - low_y
    for _ in range(1 + int(rng.random() < 0.4)):
        i, (x, y) = int(rng.integers(n)), _place(in_triangle, rng)
        v[i], v[n + i] = (x, y) if in_triangle else (low_x + wide * x, low_y + high * y)
