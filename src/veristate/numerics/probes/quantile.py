"""How small a chi-squared variable may be: quantiles rounded down, proven in exact rational arithmetic."""

from fractions import Fraction
from functools import lru_cache
from math import factorial

from veristate.core import InputError

_BITS = 40
_MOST_DRAWS = 256


@lru_cache(maxsize=256)
def chi2_quantile_lower(probability: Fraction, draws: int) -> float:
    """The largest q of 40 significant bits that is proven to obey P(chi2_draws <= q) <= probability.

    Maths: for an even number 2a of draws P = e^-x sum_(k>=a) x^k / k!, x = q / 2. The series is cut with a geometric
    bound of its tail, e^x from below by its own series, and both are compared as fractions: nothing is rounded.
    Raises: InputError for a probability outside (0, 1/2], and for draws that are odd, below 2 or above 256.
    """
    if not 0 < probability <= Fraction(1, 2):
        raise InputError(f"a probability of {float(probability):.3g} is none in (0, 1/2]")
    if draws % 2 or not 2 <= draws <= _MOST_DRAWS:
        raise InputError(f"{draws} probes: give an even number from 2 to {_MOST_DRAWS}")
    low, high = Fraction(0), Fraction(draws)
    while not low or high - low > low / 2**_BITS:
        middle = _short((low + high) / 2) if low else _short(high / 2)
        if middle <= low or middle >= high:
            break
        if chi2_cdf_upper(middle, draws) <= probability:
            low = middle
        else:
            high = middle
    return float(low)


def chi2_cdf_upper(q: Fraction, draws: int) -> Fraction:
    """An upper bound of P(chi2_draws <= q), exact but for the tails of two series; relative excess below 2^-60.

    Raises: InputError where q is negative or above `draws`: only the lower half is needed here.
    """
    if not 0 <= q <= draws:
        raise InputError(f"q = {float(q):.3g} lies outside 0..{draws}")
    x, a = q / 2, draws // 2
    term, total, k = Fraction(1), Fraction(1), 0
    while term * 2**64 > total:
        k += 1
        term = _short(term * x / (a + k), 128, up=True)
        total += term
    ratio = x / (a + k + 1)  # below 1, since x <= a; each further term is at most so much of the one before
    total += term * ratio / (1 - ratio)
    below, step, n = Fraction(1), Fraction(1), 0
    while step * 2**64 > below:
        n += 1
        step = _short(step * x / n, 128)
        below += step
    return x**a / factorial(a) * total / below


def _short(value: Fraction, bits: int = _BITS, *, up: bool = False) -> Fraction:
    """`value` >= 0 cut (or raised) to so many significant bits, so that fractions stay small."""
    if not value:
        return value
    shift = bits - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * 2**shift if shift >= 0 else value / 2**-shift
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    return Fraction(whole, 2**shift) if shift >= 0 else Fraction(whole * 2**-shift)
