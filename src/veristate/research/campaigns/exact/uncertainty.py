"""The uncertainty inequality's upper bound C4 <= r^2 / (2 pi), exactly.

P(x) = sum of c_k H_4k(x) for k = 0..K (physicists' Hermite polynomials); c_0..c_{K-1} are the candidate, c_K follows
from P(0) = 0, and the sign is such that P is positive at infinity. r is the largest positive root of P/x^2 at which it
changes sign. The number K of coefficients is fixed by the task, since more of them always give a lower bound.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from veristate.research.campaigns.exact.polynomials import (
    Polynomial,
    largest_positive_root_upper,
    odd_part,
    trimmed,
)
from veristate.research.campaigns.exact.rational import pi_bounds, text_upper
from veristate.research.campaigns.exact.reading import UnusableError, numbers, read_solution
from veristate.research.tasks import Rejection, Score

_WIDTH = Fraction(1, 10**45)


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The bound that the coefficients prove, rounded up at the 40th decimal, or why they prove none."""
    try:
        given = numbers(read_solution(candidate, "coefficients"), int(parameters["coefficients"]), "coefficients")
        square = squared_root_upper(given)
    except UnusableError as error:
        return Rejection(reason=str(error))
    return Score(metric=text_upper(square / (2 * pi_bounds()[0])))


def squared_root_upper(given: list[Fraction]) -> Fraction:
    """An upper bound on r^2. Raises: UnusableError where P vanishes, loses its leading term or never changes sign.

    Maths: in s = x^2, P = s q(s); r^2 is the largest positive root of odd multiplicity of q.
    """
    q = reduced_polynomial(given)
    if not q or len(q) < 2 * len(given):
        raise UnusableError("the last coefficient, which follows from P(0) = 0, vanishes; the bound would not count K")
    root = largest_positive_root_upper(odd_part(q), _WIDTH)
    if root is None:
        raise UnusableError("P/x^2 has no positive root at which it changes sign")
    return root


def reduced_polynomial(given: list[Fraction]) -> Polynomial:
    """q(s) = P(sqrt(s)) / s, lowest power first."""
    basis = [hermite_in_squares(4 * k) for k in range(len(given) + 1)]
    last = -sum((c * h[0] for c, h in zip(given, basis, strict=False)), Fraction(0)) / basis[-1][0]
    p = [Fraction(0)] * len(basis[-1])
    for c, h in zip([*given, last], basis, strict=True):
        for power, coefficient in enumerate(h):
            p[power] += c * coefficient
    return trimmed(p[1:])


def hermite_in_squares(degree: int) -> list[int]:
    """The coefficients of H_degree(x), of an even degree, as a polynomial in x^2."""
    before, now = [1], [0, 2]
    for k in range(1, degree):
        after = [0, *(2 * c for c in now)]
        for power, c in enumerate(before):
            after[power] -= 2 * k * c
        before, now = now, after
    return (now if degree else before)[::2]


audit = evaluate  # it is exact already
