"""From the solver's arrays to candidates as text that hold exactly: what is rounded is rounded to the feasible side."""

import json
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.exact.packing import overlap_upper, shrunk
from veristate.research.campaigns.exact.rational import root_lower, text_lower
from veristate.research.campaigns.search.problems import PACKING, TRIANGLE, Problem

Vector = NDArray[np.float64]
_DIGITS = 20


def as_text(problem: Problem, v: Vector) -> str:
    """solution.json for that solution. Radii are shrunk, points drawn in, until the exact check holds."""
    n = problem.n
    if problem.kind == PACKING:
        circles = [tuple(Fraction(float(v[k * n + i])) for k in range(3)) for i in range(n)]
        circles = [(x, y, max(r, Fraction(0))) for x, y, r in circles]
        return _json("circles", shrunk(circles, overlap_upper(circles)))
    points = [(Fraction(float(v[i])), Fraction(float(v[n + i]))) for i in range(n)]
    if problem.kind == TRIANGLE:
        points = [_equilateral(x, y) for x, y in points]
    return _json("points", points)


def _equilateral(x: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
    """The point of the equilateral triangle for one of the right triangle, on the inner side of its edges."""
    x, y = max(x, Fraction(0)), max(y, Fraction(0))
    over = max(Fraction(1), x + y)
    x, y = x / over, y / over
    across = Fraction(text_lower(x + y / 2, _DIGITS))
    highest = root_lower(3 * min(across, 1 - across) ** 2, _DIGITS)
    return across, min(Fraction(text_lower(root_lower(3 * y * y / 4, 30), _DIGITS)), highest)


def _json(key: str, found: list[tuple[Fraction, ...]] | list[tuple[Fraction, Fraction]]) -> str:
    # Coordinates of doubles end within 60 decimals for all but tiny numbers; radii are rounded down at 30.
    written = [[text_lower(value, 30 if column == 2 else 60) for column, value in enumerate(row)] for row in found]
    return json.dumps({key: written}, indent=0) + "\n"
