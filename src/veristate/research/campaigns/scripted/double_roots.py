"""The worker of the uncertainty tasks: prescribe double roots, solve for the coefficients exactly, move the roots.

Maths: with K coefficients, K = 2 m + 1, m double roots s_1..s_m of q(s) = P(sqrt(s)) / s are K - 1 linear equations for
the coefficients up to scale. Divided by the double factors, q is left with degree K; its largest positive root is r^2.
Everything but that root is rational, so that a double root of the candidate is exactly double.
"""

import json
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

from veristate.research.campaigns.exact.polynomials import Polynomial, derivative, value
from veristate.research.campaigns.exact.reading import FILE
from veristate.research.campaigns.exact.uncertainty import hermite_in_squares, squared_root_upper
from veristate.research.workers.bench import Bench

Vector = NDArray[np.float64]


def search(bench: Bench) -> str:
    """What was found, in words: starts from a linear programme and at random, moved by the simplex."""
    count = int(bench.parameters["coefficients"])
    rng = np.random.default_rng([bench.seed, bench.segment])
    best, starts = np.inf, 0
    if bench.best is not None:
        best = 2.0 * np.pi * float(bench.best)
    while bench.remaining_s() > 5.0:
        starts += 1
        found, square = local_minimum(count, rng, programmed(count) if starts == 1 and bench.segment <= 1 else None)
        if square < best - 1e-11:
            coefficients = solved(rounded(found))
            # What floating point missed, the exact root shows before a query is spent.
            if coefficients is not None and float(squared_root_upper(coefficients)) < best - 1e-11:
                best = float(squared_root_upper(coefficients))
                text = json.dumps({"coefficients": [str(c) for c in coefficients]}, indent=0) + "\n"
                (bench.workspace / FILE).write_text(text, encoding="utf-8")
                bench.submit(f"double roots at {', '.join(f'{s:.6g}' for s in sorted(found))}")
    return f"{starts} starts; best r^2 near {best:.12f}"


def local_minimum(count: int, rng: np.random.Generator, start: Vector | None = None) -> tuple[Vector, float]:
    """Double roots that are a local minimum of r^2 for that many coefficients, and r^2 there.

    From `start`, or from the best of some random places.
    """
    screen, roots = Screen(count), (count - 1) // 2
    if start is None or len(start) != roots:
        tries = int(rng.choice([1, 10, 100]))
        drawn = [np.sort(2.0 * (screen.farthest / 2.0) ** rng.random(roots)) for _ in range(tries)]
        start = min(drawn, key=screen.squared_root)
    options = {"xatol": 1e-7, "fatol": 1e-13, "maxfev": 1500}
    found = minimize(screen.squared_root, start, method="Nelder-Mead", options=options)
    return found.x, float(found.fun)


class Screen:
    """r^2 for prescribed double roots in floating point: what the search compares before anything is solved exactly.

    Maths: in Hermite functions, orthonormal and far from overflow, the conditions are well-conditioned after each is
    scaled to length 1; their one null vector is P e^(-x^2/2). Its sign changes are read off a grid.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.farthest = 8.0 * count * 1.7  # the largest zero of H_4K lies below sqrt(8 K + 1)
        self._grid = np.linspace(0.05, np.sqrt(self.farthest), 3000)
        far = np.sqrt(np.geomspace(self.farthest, 1e10, 80))
        self._far = _hermite_functions(far, 4 * count, damped=False)[:, ::4]
        self._values = _hermite_functions(self._grid, 4 * count)[:, ::4]

    def squared_root(self, doubles: Vector) -> float:
        """r^2, or inf where the double roots are not apart, or lie outside."""
        ordered = np.sort(doubles)
        if ordered[0] < 0.5 or ordered[-1] > self.farthest or (np.diff(ordered) < 1e-3).any():
            return float("inf")
        x = np.sqrt(ordered)
        functions = _hermite_functions(np.append(x, 0.0), 4 * self.count + 1)
        n = np.arange(4 * self.count + 1)
        slopes = -np.sqrt((n + 1) / 2.0) * functions[:, 1:]
        slopes[:, 1:] += np.sqrt(n[1:] / 2.0) * functions[:, :-2]
        rows = np.concatenate([functions[:, :-1:4], slopes[:-1, ::4]])
        combination = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))[2][-1]
        # Where the leading coefficient vanishes, rounding the roots would turn its sign, and with it P far out.
        if abs(combination[-1]) < 1e-7:
            return float("inf")
        sign = np.sign(combination[-1])
        # A leading coefficient near zero may bring a last change of sign very far out.
        if ((self._far @ combination) * sign <= 0.0).any():
            return float("inf")
        apart = np.abs(self._grid[:, None] - x[None, :]).min(axis=1) > 0.01
        grid, positive = self._grid[apart], (self._values[apart] @ combination) * sign > 0.0
        negative = np.flatnonzero(~positive)
        if not len(negative):
            return float("inf")
        if negative[-1] == len(grid) - 1:
            return self.farthest
        low, high = grid[negative[-1]], grid[negative[-1] + 1]
        for _ in range(45):
            middle = (low + high) / 2.0
            value_there = _hermite_functions(np.array([middle]), 4 * self.count)[0, ::4] @ combination
            low, high = (low, middle) if value_there * sign > 0.0 else (middle, high)
        return float(high * high)


def programmed(count: int) -> Vector:
    """Double roots near those of the global optimum, in the resolution of a grid.

    Maths: for a given r, that P is not negative at any point of a grid beyond r is a linear programme for the
    coefficients; r is bisected between feasible and not. P touches zero where its double roots are.
    """
    at_zero = np.append(_hermite_functions(np.zeros(1), 4 * count)[0, ::4], 0.0)
    low, high, touching = 1.0, 4.0, np.linspace(5.0, 8.0 * count, (count - 1) // 2)
    for _ in range(20):
        square = (low + high) / 2.0
        s = np.concatenate([np.linspace(square, square + 6.0, 400), np.linspace(square + 6.01, 14.0 * count, 1500)])
        values = _hermite_functions(np.sqrt(s), 4 * count)[:, ::4]
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        rows = np.vstack([values, np.eye(count + 1)[-1]])
        found = linprog(
            -np.eye(count + 2)[-1],
            A_ub=np.hstack([-rows, np.ones((len(rows), 1))]),
            b_ub=np.zeros(len(rows)),
            A_eq=at_zero[None, :],
            b_eq=[0.0],
            bounds=[(-1.0, 1.0)] * (count + 1) + [(0.0, 1.0)],
            method="highs",
        )
        if found.status != 0 or not -found.fun > 1e-10:
            low = square
            continue
        high = square
        f = values @ found.x[:-1]
        dips = 1 + np.flatnonzero((f[1:-1] <= f[:-2]) & (f[1:-1] <= f[2:]) & (s[1:-1] > 1.05 * square))
        touching = np.sort(s[dips[np.argsort(f[dips])][: (count - 1) // 2]])
    return touching


def _hermite_functions(x: Vector, last: int, damped: bool = True) -> Vector:
    """The orthonormal Hermite functions 0 to `last` at each x, a row per x; without e^(-x^2/2) if not damped."""
    made = np.empty((len(x), last + 1))
    made[:, 0] = np.pi**-0.25 * (np.exp(-x * x / 2.0) if damped else 1.0)
    if last:
        made[:, 1] = np.sqrt(2.0) * x * made[:, 0]
    for n in range(1, last):
        made[:, n + 1] = np.sqrt(2.0 / (n + 1)) * x * made[:, n] - np.sqrt(n / (n + 1)) * made[:, n - 1]
    return made


def rounded(doubles: Vector) -> list[Fraction]:
    """The roots as multiples of 2^-30: r^2 is flat in them at its least, and short fractions are fast to work with."""
    return [Fraction(round(float(s) * 2**30), 2**30) for s in doubles]


def solved(doubles: list[Fraction]) -> list[Fraction] | None:
    """The coefficients c_0 = 1, c_1, .. that give q those double roots, exactly; None where there are none."""
    count = 2 * len(doubles) + 1
    basis = _basis(count)
    matrix: list[list[Fraction]] = []
    for s in doubles:
        matrix.append([value(q, s) for q in basis])
        matrix.append([value(derivative(q), s) for q in basis])
    rest = _gauss([[*row[1:], -row[0]] for row in matrix])
    return None if rest is None else [Fraction(1), *rest]


@lru_cache
def _basis(count: int) -> list[Polynomial]:
    """For each k below `count`: H_4k less the multiple of H_4count that makes it vanish at 0, over s."""
    last = hermite_in_squares(4 * count)
    made = []
    for k in range(count):
        h = hermite_in_squares(4 * k)
        factor = Fraction(h[0], last[0])
        made.append([(h[p] if p < len(h) else 0) - factor * last[p] for p in range(1, len(last))])
    return made


def _gauss(matrix: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of a square system whose last column is the right-hand side; None for a singular one."""
    size = len(matrix)
    for column in range(size):
        pivot = next((r for r in range(column, size) if matrix[r][column] != 0), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        lead = matrix[column][column]
        matrix[column] = [x / lead for x in matrix[column]]
        for row in range(size):
            factor = matrix[row][column]
            if row != column and factor:
                matrix[row] = [x - factor * y for x, y in zip(matrix[row], matrix[column], strict=True)]
    return [row[-1] for row in matrix]
