"""The largest distance of n points in units of the smallest, exactly: its square is a ratio of rationals."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from veristate.research.campaigns.exact.rational import root_upper, text_upper
from veristate.research.campaigns.exact.reading import UnusableError, read_solution, rows
from veristate.research.tasks import Rejection, Score


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The ratio of `n` points in the plane, rounded up at the 40th decimal, or why there is none."""
    try:
        points = rows(read_solution(candidate, "points"), int(parameters["n"]), 2, "points")
    except UnusableError as error:
        return Rejection(reason=str(error))
    square = squared_ratio(points)
    if square is None:
        return Rejection(reason="two points are the same; all distances must be positive")
    return Score(metric=text_upper(root_upper(square)), details={"squared_ratio": text_upper(square)})


def squared_ratio(points: list[tuple[Fraction, ...]]) -> Fraction | None:
    """The largest squared distance over the smallest, None where two points coincide."""
    squares = [sum(((a - b) ** 2 for a, b in zip(p, q, strict=True)), Fraction(0)) for p, q in combinations(points, 2)]
    return max(squares) / min(squares) if min(squares) else None


audit = evaluate  # it is exact already
