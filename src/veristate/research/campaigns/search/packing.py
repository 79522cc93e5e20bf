"""Circles in the unit square. v = (x_1..x_n, y_1..y_n, r_1..r_n); h = pairs, then the four walls of each circle."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled

Vector = NDArray[np.float64]
_NEAR = 1e-12


def sizes(n: int) -> tuple[int, int]:
    """The numbers of variables and of constraints."""
    return 3 * n, n * (n - 1) // 2 + 4 * n


@compiled
def constraints(n: int, v: Vector, h: Vector) -> None:
    """Fills h: distances less both radii, then distances to the walls less the radius. Feasible where h >= 0."""
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
def pull_back(n: int, v: Vector, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
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


@compiled
def clearance(n: int, v: Vector, x: float, y: float, left_out: int) -> float:
    """The largest radius at (x, y) that touches neither a wall nor a circle other than the one left out."""
    room = min(min(x, 1.0 - x), min(y, 1.0 - y))
    for j in range(n):
        if j != left_out:
            room = min(room, np.sqrt((x - v[j]) ** 2 + (y - v[n + j]) ** 2) - v[2 * n + j])
    return room


@compiled
def start(n: int, v: Vector, rng: np.random.Generator) -> None:
    """Fills v with random centres and small radii."""
    for i in range(n):
        v[i] = rng.random()
        v[n + i] = rng.random()
        v[2 * n + i] = 0.3 / np.sqrt(n) * rng.random()


@compiled
def move(n: int, v: Vector, rng: np.random.Generator) -> None:
    """Takes one circle out, or two, and puts each into the widest of some random places, or anywhere."""
    for _ in range(1 + int(rng.random() < 0.4)):
        i = int(rng.random() * n)
        tries = 1 if rng.random() < 0.3 else 40
        widest = -1.0
        for _ in range(tries):
            x, y = rng.random(), rng.random()
            room = clearance(n, v, x, y, i)
            if room > widest or tries == 1:
                widest, v[i], v[n + i] = room, x, y
        v[2 * n + i] = max(widest, 0.01)
