"""Integer operands whose products and partial sums are exact in every order, and the results a host computes for them.

No row of A and no column of B holds more than its pattern's magnitudes, so the largest sum of absolute products follows
from the magnitudes alone and holds for every seed. Results are computed by numpy in int64, never by the probed device.
Source: BioAgent-DF A.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Pattern = Literal["positive", "signed", "balanced", "wide-left", "wide-right"]
# Most magnitudes have at most this many bits, so that thousands of their products fit below the limit.
_LAW_BITS = 8
# Columns of A that hold the wide values of a wide pattern, one a row.
_WIDE_COLUMNS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerOperands:
    """A [M, K], B [K, N] and A B [M, N], int64. `largest_sum` is proven: no sum of |a||b| along K exceeds it."""

    A: IntArray
    B: IntArray
    product: IntArray
    largest_sum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The significand bits of A's and of B's values, and the `limit` that every sum of |a||b| stays below."""

    left: int
    right: int
    limit: int


def draw_operands(
    pattern: Pattern, shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator
) -> IntegerOperands:
    """The operands of `pattern` for a product [M, K] by [K, N], `shape` being (M, K, N).

    positive: every value above zero, so that a lost term shows. signed: random signs. balanced: the second half of K
    takes back what the first has added but for single units, so that results are small and storage hides little.
    wide-left, wide-right: one value a row of A (a column of B) with all its bits set or clear, times plus or minus one.
    Raises: ValueError when the limit leaves no room for K terms.
    """
    if pattern == "wide-right":  # wide-left read the other way round
        M, K, N = shape
        flipped = Widths(left=widths.right, right=widths.left, limit=widths.limit)
        right, left, largest = _wide_left((N, K, M), flipped, rng)
        A, B = np.ascontiguousarray(left.T), np.ascontiguousarray(right.T)
    else:
        A, B, largest = _DRAWS[pattern](shape, widths, rng)
    return IntegerOperands(A=A, B=B, product=exact_product(A, B), largest_sum=largest)


def exact_product(A: IntArray, B: IntArray) -> IntArray:
    """[M, N], A B in int64: integer instructions, no floating-point unit and no BLAS."""
    return np.asarray(np.einsum("ik,jk->ij", A, np.ascontiguousarray(B.T)))


@lru_cache(maxsize=64)
def magnitudes(terms: int, bits: int, power: int) -> tuple[int, ...]:
    """[terms] values from 1 to 2^bits - 2, ascending: a power law of at most 8 bits, and two values of all `bits` whose
    bits below the leading one are each other's complement: together they set and clear every one of them.
    """
    top = 2 ** min(bits, _LAW_BITS) - 2
    law = [max(1, top * i**power // terms**power) for i in range(1, terms - 1)]
    return tuple(sorted([*law, *complements(bits)]))


def complements(bits: int) -> tuple[int, int]:
    """The two values of `bits` bits that alternate below the leading one, as 11010 and 10101; the larger comes last."""
    hidden = 1 << (bits - 1)
    fraction = hidden - 1
    low = int("01" * 32, 2) & fraction
    pair = (hidden | low, hidden | (low ^ fraction))
    return min(pair), max(pair)


def _fitted(
    terms: int, widths: Widths, largest: Callable[[tuple[int, ...], tuple[int, ...]], int]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Magnitudes for A's rows and B's columns whose `largest` sum is below the limit, and that sum.

    Raises: ValueError.
    """
    power = 1
    while power <= terms:
        left, right = magnitudes(terms, widths.left, power), magnitudes(terms, widths.right, power)
        found = largest(left, right)
        if found < widths.limit:
            return left, right, found
        power *= 2
    raise ValueError(f"{terms} products of {widths.left} by {widths.right} bits don't fit below {widths.limit}")


def _aligned(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """The largest sum of products over all ways to pair: that of the sorted values (rearrangement inequality)."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def _shuffled(values: tuple[int, ...], count: int, rng: np.random.Generator, *, signed: bool) -> IntArray:
    """[count, len(values)]: each row the values in an order of its own, with random signs if `signed`."""
    rows = rng.permuted(np.tile(np.array(values, dtype=np.int64), (count, 1)), axis=1)
    return rows * rng.choice(np.array([-1, 1]), rows.shape) if signed else rows


Drawn = tuple[IntArray, IntArray, int]


def _dense(shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator, *, signed: bool) -> Drawn:
    M, K, N = shape
    left, right, largest = _fitted(K, widths, _aligned)
    return _shuffled(left, M, rng, signed=signed), _shuffled(right, N, rng, signed=signed).T, largest


def _positive(shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator) -> Drawn:
    return _dense(shape, widths, rng, signed=False)


def _signed(shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator) -> Drawn:
    return _dense(shape, widths, rng, signed=True)


def _balanced(shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator) -> Drawn:
    """A = [H, H + D], B = [G; E - G], with one +-1 in each column of D and each row of E."""
    M, K, N = shape
    half = K // 2

    def largest(left: tuple[int, ...], right: tuple[int, ...]) -> int:
        return _aligned(left, right) + sum((a + 1) * (b + 1) for a, b in zip(left, right, strict=True))

    left, right, found = _fitted(half, widths, largest)
    H, G = _shuffled(left, M, rng, signed=True), _shuffled(right, N, rng, signed=True).T
    D, E = np.zeros_like(H), np.zeros_like(G)
    # No row of D and no column of E has its second entry before all have their first: both have full rank.
    D[rng.permutation(half) % M, np.arange(half)] = rng.choice([-1, 1], half)
    E[np.arange(half), rng.permutation(half) % N] = rng.choice([-1, 1], half)
    return np.hstack([H, H + D]), np.vstack([G, E - G]), found


def _wide_left(shape: tuple[int, int, int], widths: Widths, rng: np.random.Generator) -> Drawn:
    """Sixteen columns of A hold one wide value a row, their rows of B plus or minus one; the rest is narrow."""
    M, K, N = shape
    low, high = complements(widths.left)
    wide = rng.integers(1 << (widths.left - 1), high, size=M, endpoint=True)
    wide[:2] = low, high
    columns = np.zeros((M, _WIDE_COLUMNS), dtype=np.int64)
    columns[np.arange(M), np.arange(M) % _WIDE_COLUMNS] = wide * rng.choice([-1, 1], M)
    ones = rng.choice(np.array([-1, 1]), (_WIDE_COLUMNS, N))
    bits = min(widths.right, _LAW_BITS)
    narrow = Widths(left=bits, right=bits, limit=widths.limit - high)
    rest_left, rest_right, largest = _dense((M, K - _WIDE_COLUMNS, N), narrow, rng, signed=True)
    order = rng.permutation(K)
    return np.hstack([columns, rest_left])[:, order], np.vstack([ones, rest_right])[order], largest + high


_DRAWS: dict[str, Callable[[tuple[int, int, int], Widths, np.random.Generator], Drawn]] = {
    "positive": _positive,
    "signed": _signed,
    "balanced": _balanced,
    "wide-left": _wide_left,
}
