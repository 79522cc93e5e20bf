"""The four problems behind one door for the solver: maximise a linear objective where h(v) >= 0.

A number chooses the problem, since compiled code keeps no functions as arguments from one process to the next.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.search import heilbronn, packing, spread

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

PACKING, RATIO, TRIANGLE, CONVEX = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Which problem, with how many points, and the objective's coefficients. `constraints` counts h."""

    kind: int
    n: int
    objective: Vector
    constraints: int


def problem(kind: int, n: int) -> Problem:
    """The problem of that kind for n circles or points."""
    if kind == PACKING:
        count, rows = packing.sizes(n)
    elif kind == RATIO:
        count, rows = spread.sizes(n)
    else:
        count, rows = heilbronn.sizes(n, kind == TRIANGLE)
    objective = np.zeros(count)
    if kind == PACKING:
        objective[2 * n :] = 1.0
    else:
        objective[-1] = -1.0 if kind == RATIO else 1.0
    return Problem(kind=kind, n=n, objective=objective, constraints=rows)


@compiled
def constraints(kind: int, n: int, v: Vector, signs: Vector, hull: Indices, h: Vector) -> None:
    """Fills h with the constraints' values."""
    if kind == PACKING:
        packing.constraints(n, v, h)
    elif kind == RATIO:
        spread.constraints(n, v, h)
    else:
        heilbronn.constraints(n, kind == TRIANGLE, v, signs, hull, h)


@compiled
def pull_back(kind: int, n: int, v: Vector, signs: Vector, hull: Indices, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
    if kind == PACKING:
        packing.pull_back(n, v, w, g)
    elif kind == RATIO:
        spread.pull_back(n, v, w, g)
    else:
        heilbronn.pull_back(n, kind == TRIANGLE, v, signs, hull, w, g)


@compiled
def settle(kind: int, n: int, v: Vector, signs: Vector, hull: Indices) -> None:
    """Fixes what stays fixed while a local solution runs from v: orientations and hull of a Heilbronn problem."""
    if kind >= TRIANGLE:
        heilbronn.orient(n, v, signs, hull)


@compiled
def start(kind: int, n: int, v: Vector, rng: np.random.Generator) -> None:
    """Fills v with a random place to begin from."""
    if kind == PACKING:
        packing.start(n, v, rng)
    elif kind == RATIO:
        spread.start(n, v, rng)
    else:
        heilbronn.start(n, kind == TRIANGLE, v, rng)


@compiled
def move(kind: int, n: int, v: Vector, rng: np.random.Generator) -> None:
    """Changes v by one random hop."""
    if kind == PACKING:
        packing.move(n, v, rng)
    elif kind == RATIO:
        spread.move(n, v, rng)
    else:
        heilbronn.move(n, kind == TRIANGLE, v, rng)
