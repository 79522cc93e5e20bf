"""The oracle of the CUDA guard's tests: a call's residuals and bounds in fractions, cell by cell."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from veristate.numerics import LinearArithmetic, bf16_arithmetic, fp16_arithmetic, fp32_arithmetic

# |R|, sum |x||w| + |b|, sum |Y|, sum |b| and the number of elements of a cell.
Cell = tuple[Fraction, Fraction, Fraction, Fraction, int]


@dataclass
class Call:
    """A call, the signs of its check [draws, M], and the arithmetic its outputs were computed in."""

    X: torch.Tensor
    W: torch.Tensor
    b: torch.Tensor | None
    Y: torch.Tensor
    signs: np.ndarray

    @property
    def arithmetic(self) -> LinearArithmetic:
        """What the layer is declared as."""
        bias = self.b is not None
        if self.Y.dtype == torch.bfloat16:
            return bf16_arithmetic(bias=bias)
        if self.Y.dtype == torch.float16:
            return fp16_arithmetic(bias=bias, flush=True)
        return fp32_arithmetic(bias=bias, flush=False)


def numbers(values: torch.Tensor) -> np.ndarray:
    """The values in float64, which holds them exactly."""
    return values.double().cpu().numpy()


def blocks_of(rows: int) -> list[slice]:
    """Rows in blocks of 32, the last one short."""
    return [slice(start, min(start + 32, rows)) for start in range(0, rows, 32)]


def exact_cells(call: Call) -> tuple[dict[Any, Cell], dict[Any, Cell]]:
    """The rows by (row,), the column cells by (draw, block, column); without those that hold an infinite output."""
    finite = torch.isfinite(call.Y).cpu().numpy()
    X, W, Y = ([[Fraction(v) for v in row] for row in numbers(a).tolist()] for a in (call.X, call.W, finite_part(call)))
    b = [Fraction(0)] * len(W) if call.b is None else [Fraction(v) for v in numbers(call.b).tolist()]
    M, K, N = len(X), len(X[0]), len(W)
    error = [[Y[i][j] - b[j] - sum(X[i][k] * W[j][k] for k in range(K)) for j in range(N)] for i in range(M)]
    size = [[abs(b[j]) + sum(abs(X[i][k] * W[j][k]) for k in range(K)) for j in range(N)] for i in range(M)]

    def cell(rows: range, columns: range, signs: list[int]) -> Cell:
        inside = [(i, j) for i in rows for j in columns]
        return (
            abs(sum((signs[i] * error[i][j] for i, j in inside), Fraction(0))),
            sum((size[i][j] for i, j in inside), Fraction(0)),
            sum((abs(Y[i][j]) for i, j in inside), Fraction(0)),
            sum((abs(b[j]) for _, j in inside), Fraction(0)),
            len(inside),
        )

    by_row = {(i,): cell(range(i, i + 1), range(N), [1] * M) for i in range(M) if finite[i].all()}
    by_column = {
        (draw, block, j): cell(range(M)[part], range(j, j + 1), [int(t) for t in signs])
        for draw, signs in enumerate(call.signs)
        for block, part in enumerate(blocks_of(M))
        for j in range(N)
        if finite[part, j].all()
    }
    return by_row, by_column


def finite_part(call: Call) -> torch.Tensor:
    """Y with zeros for what is no number."""
    return torch.where(torch.isfinite(call.Y), call.Y, 0.0)


def exact_bound(arithmetic: LinearArithmetic, terms: int, sums: tuple[Any, ...]) -> Fraction:
    """BioAgent-DF A.3, written out for the sums of a cell; without flushed operands, which only add to it."""
    products, stored, bias, elements = sums
    bound = Fraction(arithmetic.growth_minus_one_upper(terms)) * products
    if arithmetic.storage.precision < arithmetic.accumulate.precision:
        u = Fraction(arithmetic.storage.u) / (1 - Fraction(arithmetic.storage.u))
        bound += u * stored
        if arithmetic.bias == "separate":
            bound += u * ((1 + 2 * u) * stored + bias)
    return bound + elements * Fraction(arithmetic.absolute_upper(terms, 0.0))
