"""Points in the plane whose largest distance is least in units of the smallest. v = (x, y, t); distances^2 in [1, t].

The objective is -t: the least squared ratio.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled

Vector = NDArray[np.float64]


class Spread(NamedTuple):
    """The type by which compiled code knows this problem."""

    n: int


def sizes(n: int) -> tuple[int, int]:
    """The numbers of variables and of constraints."""
    return 2 * n + 1, n * (n - 1)


@compiled
def constraints(shape: Spread, v: Vector, h: Vector) -> None:
    """Fills h: for each pair, its squared distance less 1, and t less it."""
    n = shape.n
    k = 0
    t = v[2 * n]
    for i in range(n):
        for j in range(i):
            d = (v[i] - v[j]) ** 2 + (v[n + i] - v[n + j]) ** 2
            h[k] = d - 1.0
            h[k + 1] = t - d
            k += 2


@compiled
def pull_back(shape: Spread, v: Vector, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
    n = shape.n
    k = 0
    for i in range(n):
        for j in range(i):
            if w[k] != 0.0 or w[k + 1] != 0.0:
                scale = 2.0 * (w[k] - w[k + 1])
                dx, dy = scale * (v[i] - v[j]), scale * (v[n + i] - v[n + j])
                g[i] += dx
                g[j] -= dx
                g[n + i] += dy
                g[n + j] -= dy
                g[2 * n] += w[k + 1]
            k += 2


def start(n: int, rng: np.random.Generator) -> Vector:
    """Random points at about the right distances."""
    return np.append(0.9 * np.sqrt(n) * rng.random(2 * n), float(n))


def move(n: int, v: Vector, rng: np.random.Generator) -> None:
    """Puts one point, or two, somewhere else within the spread of the others."""
    span = np.sqrt(v[2 * n])
    x, y = np.mean(v[:n]), np.mean(v[n : 2 * n])
    for _ in range(1 + int(rng.random() < 0.4)):
        i = int(rng.integers(n))
        v[i] = x + span * (rng.random() - 0.5)
        v[n + i] = y + span * (rng.random() - 0.5)
