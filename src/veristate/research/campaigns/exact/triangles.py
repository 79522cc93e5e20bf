"""Heilbronn's problem, exactly: the least area of the triangles that n points span, as a share of a whole."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from veristate.research.campaigns.exact.rational import root_lower, text_lower
from veristate.research.campaigns.exact.reading import UnusableError, read_solution, rows
from veristate.research.tasks import Rejection, Score

Point = tuple[Fraction, ...]
_MIDDLE = (Fraction(1, 2), Fraction(289, 1000))


def evaluate_triangle(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The least area over that of the equilateral triangle (0, 0), (1, 0), (1/2, sqrt(3)/2) that holds the points.

    Maths: inside where y >= 0, y^2 <= 3 x^2 with x >= 0, and y^2 <= 3 (1 - x)^2 with x <= 1: rationals throughout. The
    share is 2 D / sqrt(3) for a double area D, rounded down at the 40th decimal.
    """
    try:
        points = rows(read_solution(candidate, "points"), int(parameters["n"]), 2, "points")
    except UnusableError as error:
        return Rejection(reason=str(error))
    outside = first_outside(points)
    if outside is not None:
        return Rejection(reason=f"point {outside} lies outside the triangle; there is no tolerance")
    return Score(metric=share_of_triangle(points))


def audit_triangle(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """As the evaluator; points that lie outside by rounding are first drawn to the middle, which shrinks every area."""
    judged = evaluate_triangle(candidate, parameters)
    if isinstance(judged, Score) or "outside" not in judged.reason:
        return judged
    points = rows(read_solution(candidate, "points"), int(parameters["n"]), 2, "points")
    for digits in range(18, 6, -1):
        by = Fraction(1, 10**digits)
        drawn: list[Point] = [(x + by * (_MIDDLE[0] - x), y + by * (_MIDDLE[1] - y)) for x, y in points]
        if first_outside(drawn) is None:
            return Score(metric=share_of_triangle(drawn), repaired=True, details={"drawn_in_by": text_lower(by)})
    return judged


def first_outside(points: list[Point]) -> int | None:
    """The first point outside the equilateral triangle, None when all are in it."""
    for index, (x, y) in enumerate(points):
        if y < 0 or not 0 <= x <= 1 or y * y > 3 * min(x, 1 - x) ** 2:
            return index
    return None


def share_of_triangle(points: list[Point]) -> str:
    """The least area over the equilateral triangle's, as text rounded down."""
    least = least_double_area(points)
    return text_lower(root_lower(4 * least * least / 3))


def evaluate_convex(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The least area over that of the points' convex hull, rounded down at the 40th decimal."""
    try:
        points = rows(read_solution(candidate, "points"), int(parameters["n"]), 2, "points")
    except UnusableError as error:
        return Rejection(reason=str(error))
    whole = double_area(hull(points))
    if not whole:
        return Rejection(reason="the points lie on one line")
    return Score(metric=text_lower(least_double_area(points) / whole))


def least_double_area(points: list[Point]) -> Fraction:
    """Twice the area of the smallest triangle of three of the points."""
    return min(abs(turn(a, b, c)) for a, b, c in combinations(points, 3))


def turn(a: Point, b: Point, c: Point) -> Fraction:
    """Twice the signed area of a triangle."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])


def hull(points: list[Point]) -> list[Point]:
    """The corners of the convex hull, counter-clockwise (Andrew's monotone chain)."""
    ordered = sorted(set(points))
    sides: list[list[Point]] = []
    for run in (ordered, ordered[::-1]):
        side: list[Point] = []
        for point in run:
            while len(side) > 1 and turn(side[-2], side[-1], point) <= 0:
                side.pop()
            side.append(point)
        sides.append(side[:-1])
    return sides[0] + sides[1]


def double_area(corners: list[Point]) -> Fraction:
    """Twice the area of a polygon given counter-clockwise."""
    following = corners[1:] + corners[:1]
    return sum((a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, following, strict=True)), Fraction(0))


audit_convex = evaluate_convex  # it is exact already
