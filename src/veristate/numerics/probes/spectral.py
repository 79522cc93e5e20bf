"""Spectral norms from above: proven by repeated squaring, with no trust in a power iteration."""

from math import frexp, ldexp, sqrt

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import InputError
from veristate.numerics.probes.rounding import LOST_LENGTH, Floats, gamma_upper
from veristate.numerics.probes.sums import squared_norms

_SQUARINGS = 12
_SLACK = 1 + 2.0**-40


def spectral_norm_upper(matrix: ArrayLike) -> float:
    """An upper bound of the largest singular value, within about one part in 1,000 of it for hundreds of columns.

    Maths: with A_0 = A and A_(j+1) = fl(A_j^T A_j), |A_j|^2 <= |A_(j+1)| + gamma_n |A_j|_F^2, and the last norm is at
    most the Frobenius norm. Twelve squarings take a factor sqrt(rank) to its 4096th root. Every A_j is scaled by a
    power of two, which is exact; all roundings are charged outward.
    Raises: InputError for what is no finite matrix.
    """
    A = np.array(matrix, dtype=np.float64)
    if A.ndim != 2 or not np.isfinite(A).all():
        raise InputError(f"a spectral norm needs a finite matrix, not {A.shape} with infinities or NaN")
    if not A.any():
        return 0.0
    A = A.T if A.shape[0] < A.shape[1] else A
    steps: list[tuple[int, float]] = []
    for _ in range(_SQUARINGS):
        A, exponent = _scaled(A)
        rounding = gamma_upper(len(A)) * _frobenius_upper(A) ** 2 + len(A) * 2.0**-1000
        steps.append((exponent, rounding * _SLACK))
        A = A.T @ A
    bound = _frobenius_upper(A)
    for exponent, rounding in reversed(steps):
        bound = ldexp(sqrt(bound + rounding) * _SLACK, exponent)
    return bound


def row_norms_upper(matrix: ArrayLike) -> Floats:
    """Upper bounds of the Euclidean norms of the rows. Shapes: [n, k] to [n]. Dtypes: computed in FP64."""
    A = np.asarray(matrix)
    return norms_upper(squared_norms(A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)), A.shape[1])


def norms_upper(squares: Floats, width: int) -> Floats:
    """Upper bounds of the norms of rows of that width from their sums of squares, added in any order.

    Maths: sqrt(s + t) <= sqrt(s) + sqrt(t), with t what underflow took from the squares.
    """
    norms = np.sqrt(squares)
    norms *= 1 + (width + 8) * 2.0**-52
    norms += LOST_LENGTH
    return np.asarray(norms)


def _scaled(A: Floats) -> tuple[Floats, int]:
    """A divided by a power of two near its Frobenius norm, and the exponent of it."""
    exponent = frexp(float(np.sqrt(np.sum(A * A))))[1]
    return np.ldexp(A, -exponent), exponent


def _frobenius_upper(A: Floats) -> float:
    return float(np.sqrt(np.sum(A * A)) * (1 + (A.size + 8) * 2.0**-52))
