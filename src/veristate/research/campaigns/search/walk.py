"""Monotone basin hopping: a hop, a local solution, kept when it is better; a new start after many that were not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.search.augmented import local_solution
from veristate.research.campaigns.search.problems import CONVEX, PACKING, RATIO, TRIANGLE, Problem, move, start

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
        for _ in range(hops):
            fresh = self.stalls >= PATIENCE
            trial = start(self.problem, rng) if fresh else self.current.copy()
            if not fresh:
                move(self.problem, trial, rng)
            found = self._solved(trial)
            self.hops += 1
            if fresh or found > self.value + 1e-9:
                self.current, self.value, self.stalls = trial, found, 0
            else:
                self.stalls += 1
            if self.stalls >= PATIENCE:
                break
        if self.value <= self.best_value + 1e-7:
            return False
        self.best, self.best_value = self.current.copy(), self.value
        return True

    def _solved(self, v: Vector) -> float:
        """The objective of the local solution that v becomes; -inf where it did not become feasible."""
        worst = local_solution(self.problem, v, _PENALTY[self.problem.kind], _ROUNDS, _ITERATIONS, _ACCURACY)
        return float(self.problem.objective @ v) if worst < 10.0 * _ACCURACY else -np.inf
