"""The four problems behind one door for the solver: maximise a linear objective where h(v) >= 0.

The type of a shape chooses the problem inside compiled code, so that only what is asked for is compiled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import by_type
from veristate.research.campaigns.search import heilbronn, packing, spread
from veristate.research.campaigns.search.heilbronn import Heilbronn
from veristate.research.campaigns.search.packing import Packing
from veristate.research.campaigns.search.spread import Spread

Vector = NDArray[np.float64]
Shape = Packing | Spread | Heilbronn
_MODULES: dict[type, Any] = {Packing: packing, Spread: spread, Heilbronn: heilbronn}

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


def settled(problem: Problem, v: Vector) -> Shape:
    """The problem as compiled code takes it, with what stays fixed while a local solution runs from v."""
    if problem.kind == PACKING:
        return Packing(problem.n)
    if problem.kind == RATIO:
        return Spread(problem.n)
    return heilbronn.settled(problem.n, problem.kind == TRIANGLE, v)


def constraints(shape: Shape, v: Vector, h: Vector) -> None:
    """Fills h with the constraints' values."""
    _MODULES[type(shape)].constraints(shape, v, h)


def pull_back(shape: Shape, v: Vector, w: Vector, g: Vector) -> None:
    """Adds to g the gradient of w . h."""
    _MODULES[type(shape)].pull_back(shape, v, w, g)


@by_type(constraints)
def _constraints(shape: Any, v: Any, h: Any) -> Any:
    function = _MODULES[shape.instance_class].constraints
    return lambda shape, v, h: function(shape, v, h)


@by_type(pull_back)
def _pull_back(shape: Any, v: Any, w: Any, g: Any) -> Any:
    function = _MODULES[shape.instance_class].pull_back
    return lambda shape, v, w, g: function(shape, v, w, g)


def start(problem: Problem, rng: np.random.Generator) -> Vector:
    """A random place to begin from."""
    if problem.kind == PACKING:
        return packing.start(problem.n, rng)
    if problem.kind == RATIO:
        return spread.start(problem.n, rng)
    return heilbronn.start(problem.n, problem.kind == TRIANGLE, rng)


def move(problem: Problem, v: Vector, rng: np.random.Generator) -> None:
    """Changes v by one random hop."""
    if problem.kind == PACKING:
        packing.move(problem.n, v, rng)
    elif problem.kind == RATIO:
        spread.move(problem.n, v, rng)
    else:
        heilbronn.move(problem.n, problem.kind == TRIANGLE, v, rng)
