"""Roots and decimal text with a known direction: what ends in _lower is never above the truth, _upper never below."""

from fractions import Fraction
from math import isqrt

DIGITS = 40  # after the decimal point


def root_lower(square: Fraction, digits: int = DIGITS) -> Fraction:
    """The square root, rounded down to that many decimals."""
    scale = 10**digits
    return Fraction(isqrt(square.numerator * scale * scale // square.denominator), scale)


def root_upper(square: Fraction, digits: int = DIGITS) -> Fraction:
    """The square root, rounded up to that many decimals."""
    low = root_lower(square, digits)
    return low if low * low == square else low + Fraction(1, 10**digits)


def text_lower(value: Fraction, digits: int = DIGITS) -> str:
    """The value as a decimal, rounded down; exact where that many decimals suffice."""
    return _text(value.numerator * 10**digits // value.denominator, digits)


def text_upper(value: Fraction, digits: int = DIGITS) -> str:
    """The value as a decimal, rounded up; exact where that many decimals suffice."""
    return _text(-(-value.numerator * 10**digits // value.denominator), digits)


def _text(scaled: int, digits: int) -> str:
    whole, part = divmod(abs(scaled), 10**digits)
    written = f"{'-' if scaled < 0 else ''}{whole}.{part:0{digits}d}".rstrip("0")
    return written + "0" if written.endswith(".") else written


def pi_bounds(digits: int = 60) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound on pi.

    Maths: Machin, pi = 16 atan(1/5) - 4 atan(1/239); an alternating series lies between two partial sums in a row.
    """
    low_5, high_5 = _arctan_bounds(5, digits)
    low_239, high_239 = _arctan_bounds(239, digits)
    return 16 * low_5 - 4 * high_239, 16 * high_5 - 4 * low_239


def _arctan_bounds(inverse: int, digits: int) -> tuple[Fraction, Fraction]:
    total, k = Fraction(0), 0
    while True:
        term = Fraction(1, (2 * k + 1) * inverse ** (2 * k + 1))
        before, total = total, total + (term if k % 2 == 0 else -term)
        if term < Fraction(1, 10 ** (digits + 3)):
            return min(before, total), max(before, total)
        k += 1
