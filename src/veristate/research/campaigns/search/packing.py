"""Circles in the unit square. v = (x_1..x_n, y_1..y_n, r_1..r_n); h = pairs, then the four walls of each circle."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled

Vector = NDArray[np.float64]
_NEAR = 1e-12
_TRIES = 40


class Packing(NamedTuple):
    """The type by which compiled code knows this problem."""

    n: int


def sizes(n: int) -> tuple[int, int]:
    """The numbers of variables and of constraints."""
    return 3 * n, n * (n - 1) // 2 + 4 * n


@compiled
def constraints(shape: Packing, v: Vector, h: Vector) -> None:
    """Fills h: distances less both radii, then distances to the walls less the radius. Feasible where h >= 0."""
    n = shape.n
    k = 0
    for i in range(n):
        for j in range(i):
            h[k] = np.sqrt((v[i] - v[j]) ** 2 + (v[n + i] - v[n + j]) ** 2) - v[2 * n + i] - v[2 * n + j]
            k += 1
    for i in range(n):
        h[k] = v[i] - v[2 * n + i]
        h[k + 1] = v[n + i] - v[2 * n + i]
        h[k + 2] = 1.0 - v[i] - v[2 * n + i]
        h[k + 3] = 1.0 - v[n + i] - v[2 * n + i]
        k += 4


@compiled
def pull_back(shape: Packing, v: Vector, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
    n = shape.n
    k = 0
    for i in range(n):
        for j in range(i):
            if w[k] != 0.0:
                dx, dy = v[i] - v[j], v[n + i] - v[n + j]
                scale = w[k] / max(np.sqrt(dx * dx + dy * dy), _NEAR)
                g[i] += scale * dx
                g[j] -= scale * dx
                g[n + i] += scale * dy
                g[n + j] -= scale * dy
                g[2 * n + i] -= w[k]
                g[2 * n + j] -= w[k]
            k += 1
    for i in range(n):
        g[i] += w[k] - w[k + 2]
        g[n + i] += w[k + 1] - w[k + 3]
        g[2 * n + i] -= w[k] + w[k + 1] + w[k + 2] + w[k + 3]
        k += 4


def clearance(n: int, v: Vector, x: Vector, y: Vector, left_out: int) -> Vector:
    """The largest radii at the places (x, y) that touch neither a wall nor a circle other than the one left out."""
    others = np.arange(n) != left_out
    apart = np.hypot(x[:, None] - v[:n][others], y[:, None] - v[n : 2 * n][others]) - v[2 * n :][others]
    walls = np.minimum(np.minimum(x, 1.0 - x), np.minimum(y, 1.0 - y))
    room: Vector = np.minimum(walls, apart.min(axis=1, initial=np.inf))
    return room


def start(n: int, rng: np.random.Generator) -> Vector:
    """Random centres and small radii."""
    v = rng.random(3 * n)
    v[2 * n :] *= 0.3 / np.sqrt(n)
    return v


def move(n: int, v: Vector, rng: np.random.Generator) -> None:
    """Takes one circle out, or two, and puts each into the widest of some random places, or anywhere."""
    for _ in range(1 + int(rng.random() < 0.4)):
        i = int(rng.integers(n))
        x, y = rng.random((2, 1 if rng.random() < 0.3 else _TRIES))
        room = clearance(n, v, x, y, i)
        widest = int(np.argmax(room))
        v[i], v[n + i], v[2 * n + i] = x[widest], y[widest], max(room[widest], 0.01)
