"""Heilbronn: the least area of the triangles that n points span, in the unit right triangle or in their own hull.

Both are affine invariant, so that the right triangle stands for the equilateral one. v = (x, y, t). `signs` keeps the
orientation of each triple while a local solution runs: the least area stays positive, so none of them may change.
`hull` keeps the points of the convex hull in order, which the orientations fix too.
"""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


def sizes(n: int, in_triangle: bool) -> tuple[int, int]:
    """The numbers of variables and of constraints."""
    triples = n * (n - 1) * (n - 2) // 6
    return 2 * n + 1, triples + (3 * n if in_triangle else 1)


@compiled
def twice_area(n: int, v: Vector, i: int, j: int, k: int) -> float:
    """Twice the signed area of the triangle of points i, j and k."""
    return float((v[j] - v[i]) * (v[n + k] - v[n + i]) - (v[k] - v[i]) * (v[n + j] - v[n + i]))


@compiled
def orient(n: int, v: Vector, signs: Vector, hull: Indices) -> None:
    """Fills the orientations of all triples, and the hull counter-clockwise with -1 after its last point."""
    at = 0
    for i in range(n):
        for j in range(i):
            for k in range(j):
                signs[at] = 1.0 if twice_area(n, v, i, j, k) >= 0.0 else -1.0
                at += 1
    lowest = 0
    for i in range(n):
        if v[n + i] < v[n + lowest]:
            lowest = i
    hull[:] = -1
    point, count = lowest, 0
    while count < n:
        hull[count] = point
        count += 1
        following = 0 if point != 0 else 1
        for i in range(n):
            if i != point and twice_area(n, v, point, following, i) < 0.0:
                following = i
        point = following
        if point == lowest:
            break


@compiled
def constraints(n: int, in_triangle: bool, v: Vector, signs: Vector, hull: Indices, h: Vector) -> None:
    """Fills h: each oriented double area less t; then the triangle's sides, or 1 less the hull's double area."""
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
def pull_back(n: int, in_triangle: bool, v: Vector, signs: Vector, hull: Indices, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
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


@compiled
def start(n: int, in_triangle: bool, v: Vector, rng: np.random.Generator) -> None:
    """Fills v with random points of the triangle, or of the square."""
    for i in range(n):
        _place(n, in_triangle, v, i, rng)
    v[2 * n] = 0.0


@compiled
def _place(n: int, in_triangle: bool, v: Vector, i: int, rng: np.random.Generator) -> None:
    x, y = rng.random(), rng.random()
    if in_triangle and x + y > 1.0:
        x, y = 1.0 - x, 1.0 - y
    v[i], v[n + i] = x, y


@compiled
def move(n: int, in_triangle: bool, v: Vector, rng: np.random.Generator) -> None:
    """Puts one point, or two, anywhere in the triangle or in the box of the others; or shakes all."""
    if rng.random() < 0.2:
        width = 0.1 * rng.random()
        for i in range(2 * n):
            v[i] += width * (rng.random() - 0.5)
        return
    low_x, low_y = np.min(v[:n]), np.min(v[n : 2 * n])
    wide, high = np.max(v[:n]) - low_x, np.max(v[n : 2 * n]) - low_y
    for _ in range(1 + int(rng.random() < 0.4)):
        i = int(rng.random() * n)
        _place(n, in_triangle, v, i, rng)
        if not in_triangle:
            v[i], v[n + i] = low_x + wide * v[i], low_y + high * v[n + i]
