"""Sequential linear programming: from a local solution good to six digits to one that is good to all sixteen."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from veristate.research.campaigns.search.problems import Problem, Shape, constraints, pull_back, settled

Vector = NDArray[np.float64]


def polished(problem: Problem, v: Vector, first_step: float = 1e-4) -> Vector:
    """A better solution near v, whose constraints hold to about 1e-16; v itself where no linear programme is solved.

    Maths: maximise c.d under h + J d >= 0, |d| <= step, with steps that fall tenfold: where v is a vertex of the active
    constraints this is Newton's method. Lengths are given in steps, so that the solver's tolerance shrinks with them.
    """
    shape = settled(problem, v)
    now, h, step = v.copy(), np.zeros(problem.constraints), first_step
    while step > 1e-13:
        constraints(shape, now, h)
        near = h < 50.0 * step + 1e-6
        jacobian = _jacobian(problem, shape, now, np.flatnonzero(near))
        found = linprog(
            -problem.objective, A_ub=-jacobian, b_ub=h[near] / step, bounds=(-1.0, 1.0), method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        if found.status == 0:
            now = now + step * found.x
        step *= 0.1
    return now


def _jacobian(problem: Problem, shape: Shape, v: Vector, which: NDArray[np.int64]) -> Vector:
    made, weights = np.zeros((len(which), len(v))), np.zeros(problem.constraints)
    for row, k in enumerate(which):
        weights[k] = 1.0
        pull_back(shape, v, weights, made[row])
        weights[k] = 0.0
    return made
