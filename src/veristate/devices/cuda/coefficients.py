"""The guard's inequality: what a cell's float64 sums must satisfy so that the definition is sure to pass it.

A cell adds n elements of Y. R is its exact residual, B = sum |x||w| + |b| and S = sum |Y| over its elements. The
definition passes a cell whose |R| is at most g B + c S + d |b| + n a: those are the terms of `LinearArithmetic`, and it
adds what its own float64 pass may be wrong by. The guard computes r, B', S' of R, B, S in any order, each within
gamma (B + S), gamma B, gamma S, where gamma = m u / (1 - m u), u = 2^-53 and m counts the roundings. So a cell with

    |r| <= (g (1 - 2 gamma) - 2 gamma) B' + (c (1 - 2 gamma) - 2 gamma) S' + (1 - 2 gamma) (d |b| + n a)

passes, m being twice what is needed, which pays for evaluating the right-hand side too. Products of two float32 and
their sums do not underflow in float64. Source: "streaming verification" of BioAgent-DF's site: the case "clear, below".
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from veristate.core import InputError
from veristate.numerics import FP32, LinearArithmetic

Products = Literal["float64", "float32"]
# Rows that one column check adds.
BLOCK = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCoefficients:
    """A cell provably passes when |residual| <= products B' + stored S' + bias |b|' + n absolute - kappa_absolute."""

    products: float
    stored: float
    bias: float
    absolute: float
    kappa_absolute: float

    def numbers(self) -> tuple[float, float, float, float, float]:
        """The five numbers in the order in which the kernels read them."""
        return (self.products, self.stored, self.bias, self.absolute, self.kappa_absolute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """The coefficients of whole rows, and of columns over blocks of rows multiplied in the format `products`."""

    rows: CellCoefficients
    columns: CellCoefficients
    products: Products

    @classmethod
    def of(
        cls, arithmetic: LinearArithmetic, *, terms: int, columns: int, largest_weight: float, products: Products
    ) -> "Coefficients":
        """The coefficients of a layer with K = `terms` and N = `columns`, `largest_weight` being its largest |w|.

        Maths: rows carry K + N roundings of sums over W, X and Y; columns K + `BLOCK`. float32 products err by at most
        gamma' B more, gamma' = gamma with m = K + 4, u = 2^-24, and by underflow, which flushes only where the
        declared arithmetic does.
        Raises: InputError for products in another format.
        """
        if products not in ("float64", "float32"):
            raise InputError(f"block sums are multiplied in float64 or float32, not in {products!r}")
        exact = _bound(arithmetic, terms, largest_weight)
        rows = _lowered(exact, terms + columns)
        if products == "float64":
            return cls(rows=rows, columns=_lowered(exact, terms + BLOCK), products=products)
        coarse = _gamma(terms + 4, 2.0**-24)
        left = exact.products - coarse
        underflow = terms * FP32.eta(flush=arithmetic.flush) * (largest_weight + 2) * (1 + coarse)
        # Underflow counts once for the residual and once for B', whose coefficient may exceed 1.
        kappa = underflow * (1 + max(1.0, abs(left)))
        narrow = replace(exact, products=_less(left, coarse), kappa_absolute=kappa)
        return cls(rows=rows, columns=_lowered(narrow, terms + BLOCK), products=products)


def _bound(arithmetic: LinearArithmetic, terms: int, largest_weight: float) -> CellCoefficients:
    """The coefficients of the declared bound, read off it one by one: it is linear in what it bounds.

    The largest weight stands for the largest operand, which may only make the bound larger.
    """

    def at(products: float = 0.0, stored: float = 0.0, bias: float = 0.0, elements: float = 0.0) -> float:
        return float(
            arithmetic.bound_upper(
                products, stored, bias, terms=terms, elements=elements, largest_operand=largest_weight
            )
        )

    return CellCoefficients(
        products=at(products=1.0),
        stored=at(stored=1.0),
        bias=at(bias=1.0),
        absolute=at(elements=1.0),
        kappa_absolute=0.0,
    )


def _lowered(exact: CellCoefficients, roundings: int) -> CellCoefficients:
    """The coefficients of computed sums, from those of exact ones."""
    gamma = _gamma(2 * (roundings + 32), 2.0**-53)
    return CellCoefficients(
        products=_less(exact.products, gamma) - 2 * gamma,
        stored=_less(exact.stored, gamma) - 2 * gamma,
        bias=_less(exact.bias, gamma),
        absolute=_less(exact.absolute, gamma),
        kappa_absolute=exact.kappa_absolute * (1 + 2 * gamma),
    )


def _less(coefficient: float, gamma: float) -> float:
    """A coefficient small enough for a sum that may have been computed too large or, below zero, too small."""
    return coefficient * (1 - 2 * gamma if coefficient > 0 else 1 + 2 * gamma)


def _gamma(roundings: int, unit: float) -> float:
    """The relative error of so many roundings; no bound, infinity, where they may add up to everything."""
    if roundings * unit >= 0.5:
        return math.inf
    return roundings * unit / (1 - roundings * unit)
