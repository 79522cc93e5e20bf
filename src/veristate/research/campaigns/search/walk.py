"""A walk of basin hops from Python: what is worked on, and the best so far."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.search.hopping import hop
from veristate.research.campaigns.search.problems import CONVEX, PACKING, RATIO, TRIANGLE, Problem

Vector = NDArray[np.float64]

PATIENCE = 300  # hops in a row that better nothing, before a new start
# The first penalty of the local solver: larger for problems with larger multipliers.
_PENALTY = {PACKING: 100.0, RATIO: 10.0, TRIANGLE: 10.0, CONVEX: 1.0}
_ROUNDS, _ITERATIONS, _ACCURACY = 10, 200, 1e-6


@dataclass(slots=True, kw_only=True)
class Walk:
    """The walk's place: `current` and its value, the hops since it was bettered; the best of all starts and its value.

    Values are the objective's to about six digits; `polish` gives the rest.
    """

    problem: Problem
    current: Vector
    value: float
    stalls: int
    best: Vector
    best_value: float
    hops: int = 0

    @classmethod
    def begun(cls, problem: Problem) -> "Walk":
        """A walk that has not begun: its first hops make a random start."""
        nowhere = np.zeros(len(problem.objective))
        return cls(
            problem=problem, current=nowhere, value=-np.inf, stalls=PATIENCE, best=nowhere.copy(), best_value=-np.inf
        )

    def go(self, hops: int, rng: np.random.Generator) -> bool:
        """Whether that many hops, or fewer where a start ended, bettered the best."""
        problem = self.problem
        self.value, self.stalls, made = hop(
            problem.kind, problem.n, problem.objective, problem.constraints, self.current, self.value, self.stalls,
            PATIENCE, hops, rng, _PENALTY[problem.kind], _ROUNDS, _ITERATIONS, _ACCURACY,
        )  # fmt: skip
        self.hops += made
        if self.value <= self.best_value + 1e-7:
            return False
        self.best, self.best_value = self.current.copy(), self.value
        return True
