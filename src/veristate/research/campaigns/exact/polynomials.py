"""Polynomials with rational coefficients, lowest power first: division, common divisors, sign changes, real roots."""

from fractions import Fraction
from itertools import pairwise

Polynomial = list[Fraction]


def trimmed(p: Polynomial) -> Polynomial:
    """The polynomial without leading zeros; [] is the zero polynomial."""
    end = len(p)
    while end and p[end - 1] == 0:
        end -= 1
    return p[:end]


def value(p: Polynomial, x: Fraction) -> Fraction:
    """p(x), by Horner's rule."""
    total = Fraction(0)
    for coefficient in reversed(p):
        total = total * x + coefficient
    return total


def derivative(p: Polynomial) -> Polynomial:
    """The derivative."""
    return [k * p[k] for k in range(1, len(p))]


def product(p: Polynomial, q: Polynomial) -> Polynomial:
    """The product."""
    made = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            made[i + j] += a * b
    return made


def divided(p: Polynomial, q: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder of p by q, which is not zero."""
    rest, quotient = list(p), [Fraction(0)] * max(1, len(p) - len(q) + 1)
    for shift in range(len(p) - len(q), -1, -1):
        factor = rest[shift + len(q) - 1] / q[-1]
        quotient[shift] = factor
        for k, coefficient in enumerate(q):
            rest[shift + k] -= factor * coefficient
    return trimmed(quotient), trimmed(rest[: len(q) - 1])


def common(p: Polynomial, q: Polynomial) -> Polynomial:
    """The greatest common divisor, with leading coefficient 1 (Euclid)."""
    while q:
        p, q = q, _monic(divided(p, q)[1])
    return _monic(p)


def odd_part(p: Polynomial) -> Polynomial:
    """The product of the factors of odd multiplicity: square-free, and its real roots are where p changes sign.

    Maths: Yun's square-free decomposition p = a_1 a_2^2 a_3^3 ...
    """
    repeated = common(p, derivative(p))
    b, c = divided(p, repeated)[0], divided(derivative(p), repeated)[0]
    odd, multiplicity = [Fraction(1)], 1
    while len(b) > 1:
        d = trimmed([x - y for x, y in _padded(c, derivative(b))])
        factor = common(b, d)
        if multiplicity % 2:
            odd = product(odd, factor)
        b, c = divided(b, factor)[0], divided(d, factor)[0]
        multiplicity += 1
    return odd


def largest_positive_root_upper(p: Polynomial, width: Fraction) -> Fraction | None:
    """An upper bound, within `width`, on the largest positive root of a square-free polynomial; None without one.

    Maths: bisection by the number of roots above a point, from Sturm's chain; p has none above Cauchy's bound.
    """
    chain = [p, derivative(p)]
    while len(chain[-1]) > 1:
        rest = divided(chain[-2], chain[-1])[1]
        if not rest:
            break
        chain.append([-x / abs(rest[-1]) for x in rest])
    at_infinity = _changes([q[-1] for q in chain])
    low, high = Fraction(0), 1 + max(abs(x / p[-1]) for x in p)
    if _changes([value(q, low) for q in chain]) == at_infinity:
        return None
    while high - low > width:
        middle = (low + high) / 2
        # Roots in (middle, infinity).
        if _changes([value(q, middle) for q in chain]) > at_infinity:
            low = middle
        else:
            high = middle
    return high


def _changes(values: list[Fraction]) -> int:
    signs = [v > 0 for v in values if v]
    return sum(a != b for a, b in pairwise(signs))


def _monic(p: Polynomial) -> Polynomial:
    return [x / p[-1] for x in p] if p else p


def _padded(p: Polynomial, q: Polynomial) -> list[tuple[Fraction, Fraction]]:
    size = max(len(p), len(q))
    zero = Fraction(0)
    return [(p[k] if k < len(p) else zero, q[k] if k < len(q) else zero) for k in range(size)]
