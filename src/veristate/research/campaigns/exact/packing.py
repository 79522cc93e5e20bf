"""Circle packing in the unit square, exactly: the sum of the radii, or why the circles don't fit."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from veristate.research.campaigns.exact.rational import root_lower, root_upper, text_lower
from veristate.research.campaigns.exact.reading import UnusableError, read_solution, rows, tolerance
from veristate.research.tasks import Rejection, Score

Circle = tuple[Fraction, ...]  # x, y, r
_REPAIR_UPPER = Fraction(1, 10**4)


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The sum of the radii of `n` circles, or the first constraint that is broken by more than the tolerance."""
    try:
        circles = read(candidate, int(parameters["n"]))
        broken = first_broken(circles, tolerance(parameters))
    except UnusableError as error:
        return Rejection(reason=str(error))
    return Rejection(reason=broken) if broken else Score(metric=total(circles))


def audit(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The sum at tolerance 0; circles that overlap a little are first shrunk, all by the same amount, to fit."""
    try:
        circles = read(candidate, int(parameters["n"]))
    except UnusableError as error:
        return Rejection(reason=str(error))
    broken = first_broken(circles)
    if not broken:
        return Score(metric=total(circles))
    excess = overlap_upper(circles)
    if excess > _REPAIR_UPPER or excess > min(r for _, _, r in circles):
        return Rejection(reason=broken)
    fitted = shrunk(circles, excess)
    return Score(metric=total(fitted), repaired=True, details={"shrunk_by": text_lower(excess), "was": broken})


def read(candidate: Path, n: int) -> list[Circle]:
    """The circles of solution.json: {"circles": [[x, y, r], ...]}. Raises: UnusableError."""
    return rows(read_solution(candidate, "circles"), n, 3, "circles")


def total(circles: list[Circle]) -> str:
    """The sum of the radii as decimal text, rounded down where 40 decimals don't hold it."""
    return text_lower(sum((r for _, _, r in circles), Fraction(0)))


def first_broken(circles: list[Circle], forgiven: Fraction = Fraction(0)) -> str:
    """The first broken constraint in words, "" where all hold.

    Maths: r >= 0; r <= x, y <= 1 - r; (r_i + r_j)^2 <= |c_i - c_j|^2, which needs no root. Forgiven are lengths.
    """
    for i, (x, y, r) in enumerate(circles):
        if r < 0:
            return f"circle {i} has a negative radius"
        beyond = max(r - x, r - y, x + r - 1, y + r - 1)
        if beyond > forgiven:
            return f"circle {i} reaches {float(beyond):.3g} beyond the square (allowed: {float(forgiven):g})"
    for i, (x, y, r) in enumerate(circles):
        for j, (u, v, s) in enumerate(circles[:i]):
            reach = r + s - forgiven
            apart = (x - u) ** 2 + (y - v) ** 2
            if reach > 0 and reach**2 > apart:
                over = float(r + s - root_lower(apart))
                return f"circles {j} and {i} overlap by {over:.3g} (allowed: {float(forgiven):g})"
    return ""


def overlap_upper(circles: list[Circle]) -> Fraction:
    """By how much all radii must shrink at most so that everything fits, 0 where it does."""
    most = Fraction(0)
    for i, (x, y, r) in enumerate(circles):
        most = max(most, r - x, r - y, x + r - 1, y + r - 1)
        for u, v, s in circles[:i]:
            apart = (x - u) ** 2 + (y - v) ** 2
            if (r + s) ** 2 > apart:
                most = max(most, (r + s - root_lower(apart)) / 2)
    return most


def shrunk(circles: list[Circle], by: Fraction) -> list[Circle]:
    """The circles with smaller radii, rounded up to 40 decimals of shrinking."""
    step = root_upper(by * by)
    return [(x, y, max(Fraction(0), r - step)) for x, y, r in circles]
