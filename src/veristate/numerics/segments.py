"""The segmented sum of A.3: parts of a product summed in float32, rounded to a narrow format, and added up."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.formats import FP32, Format

FloatArray = NDArray[np.float64]

# Twice the unit roundoff of float32 covers accumulators that cut. A.3 calls it u_32.
ACCUMULATION_UNIT = 2 * FP32.u
# For the rounding of the bound's own evaluation, in float64.
OUTWARD = 1 + 2.0**-40


def gamma_upper(count: int, unit: float) -> float:
    """An upper bound of gamma_n(u) = n u / (1 - n u); infinite where n u reaches 1."""
    return count * unit / (1 - count * unit) * OUTWARD if count * unit < 1 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedSum:
    """How a product of K terms is split: consecutive parts of `lengths` terms, each summed in float32 and rounded to
    `intermediate` (None leaves that rounding out), added up in `across`, stored in `storage`.

    This is the model of a known split. Where only its number of parts is known, `segmented_arithmetic` declares it.

    Raises: InputError when a length is below 1 or there is none.
    Source: BioAgent-DF A.3, the PBMC diagnosis.
    """

    lengths: tuple[int, ...]
    intermediate: Format | None
    across: Format
    storage: Format
    flush: bool = False

    def __post_init__(self) -> None:
        if min(self.lengths, default=0) < 1:
            raise InputError(f"parts of {self.lengths} terms: each needs 1 or more, and there must be one")

    @staticmethod
    def split(terms: int, nominal: int) -> tuple[int, ...]:
        """The lengths of parts of `nominal` terms, the last cut to what is left."""
        return tuple(min(nominal, terms - start) for start in range(0, terms, nominal))

    def accumulation_upper(self, products: Any, terms: int) -> Any:
        """The relative accumulation contribution of a part: gamma_{2K+4}(2^-23) sum |x||w|, for K = `terms`."""
        return gamma_upper(2 * terms + 4, ACCUMULATION_UNIT) * products

    def bound_upper(self, X: NDArray[Any], W: NDArray[Any], Y: NDArray[Any]) -> FloatArray:
        """[M, N], an upper bound of |Y - X W^T| of an honest segmented computation, element by element.

        Maths: part j, p_j exactly, is off by s_j = a_j + u_r (|p_j| + a_j) + absolute, a_j = gamma_{2K_j+4}(2^-23) B_j;
        the sum of J parts by sum s_j + ((1 + 2 u_across)^(J-1) - 1) sum (|p_j| + s_j); storing by u' |Y|,
        u' = u / (1 - u).
        Shapes: X [M, K], W [N, K], Y [M, N]; K = sum of lengths. Dtypes: any float format; computed in float64.
        Raises: InputError when the lengths don't add up to K.
        """
        if sum(self.lengths) != X.shape[1] or X.shape[1] != W.shape[1]:
            raise InputError(f"parts of {self.lengths} terms don't make the {X.shape[1]} and {W.shape[1]} of X and W")
        error = np.zeros((len(X), len(W)))
        magnitude = np.zeros_like(error)
        for x, w in self._parts(X, W):
            partial, products = np.abs(x @ w.T), np.abs(x) @ np.abs(w).T * OUTWARD
            partial += gamma_upper(x.shape[1] + 2, 2.0**-53) * products  # the radius of the float64 reference
            off = self._part_upper(partial, products, x, w)
            error += off
            magnitude += partial + off
        count = len(self.lengths)
        growth = math.expm1((count - 1) * math.log1p(2 * self.across.u)) * OUTWARD
        absolute = count * self.across.eta(flush=self.flush) * (1 + growth) + self.storage.eta(flush=self.flush)
        stored = self.storage.u / (1 - self.storage.u) * np.abs(np.asarray(Y, dtype=np.float64))
        return np.asarray((error + growth * magnitude + stored + absolute) * OUTWARD)

    def _parts(self, X: NDArray[Any], W: NDArray[Any]) -> Iterator[tuple[FloatArray, FloatArray]]:
        start = 0
        for length in self.lengths:
            columns = slice(start, start + length)
            yield X[:, columns].astype(np.float64), W[:, columns].astype(np.float64)
            start += length

    def _part_upper(self, partial: FloatArray, products: FloatArray, x: FloatArray, w: FloatArray) -> FloatArray:
        """What one part can be off by: its accumulation, its underflow, its rounding to the intermediate format."""
        terms = x.shape[1]
        smallest = FP32.smallest_normal if self.flush else 0.0
        largest = max(np.abs(x).max(initial=0.0), np.abs(w).max(initial=0.0))
        absolute = (2 * terms + 2) * FP32.eta(flush=self.flush) + 2 * terms * smallest * largest
        growth = 1 + gamma_upper(2 * terms + 4, ACCUMULATION_UNIT)
        off = self.accumulation_upper(products, terms) + growth * absolute
        if self.intermediate is not None:
            off = off + self.intermediate.u * (partial + off) + self.intermediate.eta(flush=self.flush)
        return np.asarray(off)
