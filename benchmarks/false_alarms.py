"""Claim: no false alarm on healthy linear layers, element by element, over a dozen families of operands.

Every product is computed by torch, in fp32, bf16 and fp16, with and without a bias. Each element is held against its
own bound, in FP64; then the guard checks rows and blocks with signs drawn after the output, and its screen may raise
suspicions. 10^9 elements, 10^10 with --soak.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.record import Claim, note, write
from veristate.devices.checking import float32_product
from veristate.numerics import (
    Guard,
    LinearArithmetic,
    Operands,
    Weights,
    bf16_arithmetic,
    check_elements,
    fp16_arithmetic,
    fp32_arithmetic,
)

ELEMENTS, SOAK = 10**9, 10**10
ANCHORS = "0 in 16 passes in the paper; V-ABFT 0 in 10^6 rows"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# What float16 can hold: scales are drawn from this many decades instead of 12.
DECADES = {"fp32": 12.0, "bf16": 12.0, "fp16": 2.0}
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Family = Callable[[np.random.Generator, int, int, int, float], Arrays]


def normal(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Ordinary operands: outputs of about 1."""
    scale = np.float32(K**-0.5)
    return tuple(rng.standard_normal(s, np.float32) * c for s, c in (((M, K), 1), ((N, K), scale), (N, scale)))  # type: ignore[return-value]


def cancelling(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Outputs far below their products: the second half of the terms nearly undoes the first."""
    X, W, b = normal(rng, M, K, N, decades)
    half = K // 2
    X[:, half : 2 * half] = -X[:, :half] * (1 + 2.0**-6 * rng.integers(-1, 2, (M, half))).astype(np.float32)
    W[:, half : 2 * half] = W[:, :half]
    return X * np.float32(10 ** (decades / 4)), W, b * np.float32(1e-3)


def subnormal(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Operands and outputs around the smallest normal number of the format."""
    X, W, b = normal(rng, M, K, N, decades)
    smallest = np.float32(2.0**-126 if decades > 2 else 2.0**-14)
    return X * smallest, W, b * smallest


def row_scales(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Rows that differ by many orders of magnitude."""
    X, W, b = normal(rng, M, K, N, decades)
    return X * scales(rng, (M, 1), decades), W, b


def term_scales(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Terms that differ by many orders of magnitude."""
    X, W, b = normal(rng, M, K, N, decades)
    return X * scales(rng, (1, K), decades), W, b


def relu(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Operands as a ReLU leaves them: many zeros, no negative."""
    X, W, b = normal(rng, M, K, N, decades)
    return np.maximum(X - np.float32(0.5), 0), W, b


def one_row(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """A single row: a matrix times a vector, for which libraries have other kernels."""
    return normal(rng, 1, K, N * 16, decades)


def zeros(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Rows, columns and terms of zeros among others."""
    X, W, b = normal(rng, M, K, N, decades)
    X[rng.random(M) < 0.5], W[rng.random(N) < 0.3], X[:, rng.random(K) < 0.3] = 0, 0, 0
    return X, W, b


def positive(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Only positive operands, whose partial sums only grow."""
    return tuple(rng.uniform(1, 2, shape).astype(np.float32) for shape in ((M, K), (N, K), N))  # type: ignore[return-value]


def large(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Operands of 10^18, outputs near the largest number; of 10^1.5 in float16."""
    X, W, b = normal(rng, M, K, N, decades)
    size = np.float32(10 ** (decades * 1.5)) if decades > 2 else np.float32(30)
    return X * size, W * size, b * size


def heavy_tails(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Student's t with two degrees of freedom: single operands outweigh all others."""
    X, W = (rng.standard_t(2, shape).clip(-1e3, 1e3).astype(np.float32) for shape in ((M, K), (N, K)))
    return X, W * np.float32(K**-0.5), rng.standard_normal(N, np.float32)


def correlated(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Rows that are nearly alike, so that their roundings may be too."""
    X, W, b = normal(rng, M, K, N, decades)
    return rng.standard_normal((1, K), np.float32) * 3 + X * np.float32(0.2), W, b


def one_hot(rng: np.random.Generator, M: int, K: int, N: int, decades: float) -> Arrays:
    """Features that are 0 or 1, as those of atoms and bonds are."""
    _, W, b = normal(rng, M, K, N, decades)
    return (rng.random((M, K)) < 0.08).astype(np.float32), W, b


FAMILIES: dict[str, Family] = {
    f.__name__: f
    for f in (
        normal, cancelling, subnormal, row_scales, term_scales, relu, one_row, zeros, positive, large, heavy_tails,
        correlated, one_hot,
    )
}  # fmt: skip


def scales(rng: np.random.Generator, shape: tuple[int, int], decades: float) -> np.ndarray:
    """Factors spread over plus and minus that many decades."""
    return (10.0 ** rng.uniform(-decades, decades, shape)).astype(np.float32)


def main() -> None:
    """Computes and checks until enough elements are seen, and writes the figures."""
    torch.set_num_threads(1)
    started, wanted = time.time(), SOAK if "--soak" in sys.argv else ELEMENTS
    guard, rng = Guard(product=float32_product), np.random.default_rng(0)
    counts: dict[str, dict[str, dict[str, float]]] = {name: {} for name in DTYPES}
    total, said = 0, 0
    while total < wanted:
        for dtype in DTYPES:
            for family in FAMILIES:
                found = counts[dtype].setdefault(family, {})
                for biased in (True, False):
                    total += add(found, call_of(rng, family, dtype, biased), guard, rng.bytes(8))
        if total * 10 // wanted > said:
            said = total * 10 // wanted
            note(f"{total:.2e} elements of {wanted:.0e}")
    write(
        "false_alarms",
        claims_of(counts),
        {"families": counts},
        started,
    )


def call_of(rng: np.random.Generator, family: str, dtype: str, biased: bool) -> tuple[Operands, LinearArithmetic]:
    """A healthy call of a random shape, computed by torch, with its declared arithmetic."""
    M, N, K = (int(2 ** rng.uniform(low, high)) for low, high in ((8, 12.5), (6, 9.5), (5, 9)))
    X, W, b = (torch.from_numpy(a).to(DTYPES[dtype]) for a in FAMILIES[family](rng, M, K, N, DECADES[dtype]))
    with torch.no_grad():
        Y = torch.nn.functional.linear(X, W, b if biased else None)
    X, W, b, Y = (a.float().numpy() for a in (X, W, b, Y))
    arithmetic = {
        "fp32": fp32_arithmetic(bias=biased, flush=False),
        "bf16": bf16_arithmetic(bias=biased),
        "fp16": fp16_arithmetic(bias=biased, flush=False),
    }[dtype]
    return Operands.of(X, Weights.of(W, b if biased else None), None, Y), arithmetic


def add(found: dict[str, float], healthy: tuple[Operands, LinearArithmetic], guard: Guard, seed: bytes) -> int:
    """Checks a call element by element and by the guard, and adds what was found. Returns its number of elements."""
    call, arithmetic = healthy
    elements = check_elements(call, arithmetic)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = float(np.nanmax(elements.residual / elements.bound, initial=0.0))
    check = guard.check(call, arithmetic, seed=seed)
    cells = check.rows.flag.size + check.columns.flag.size
    for name, value in {
        "calls": 1,
        "elements": call.Y.size,
        "element_alarms": int((elements.flag | elements.inapplicable).sum()),
        "cells": cells,
        "cell_alarms": sum(int((kind.flag | kind.inapplicable).sum()) for kind in (check.rows, check.columns)),
        "left_to_the_definition": cells if check.undecided is None else check.undecided,
        "examined": check.elements.examined,
        "unresolved": int((~check.elements.proven).sum()),
    }.items():
        found[name] = found.get(name, 0) + value
    for name, value in (("largest_residual", largest), ("loudest", check.elements.loudest)):
        found[name] = max(found.get(name, 0.0), value)
    return call.Y.size


def claims_of(counts: dict[str, dict[str, dict[str, float]]]) -> list[Claim]:
    """The rows, with the family nearest to its bound named."""

    def total(name: str, skip: tuple[str, ...] = ()) -> int:
        return sum(int(f[name]) for d in counts.values() for family, f in d.items() if family not in skip)

    def top(name: str, dtype: str) -> str:
        family = max(counts[dtype], key=lambda f: counts[dtype][f][name])
        return f"{counts[dtype][family][name]:.3g} {dtype} ({family})"

    def tops(name: str) -> str:
        return ", ".join(top(name, dtype) for dtype in counts)

    elements, cells = total("elements"), total("cells")
    alarms, cell_alarms, unresolved = total("element_alarms"), total("cell_alarms"), total("unresolved")
    examined = total("examined") / elements
    ordinary = ("subnormal",)
    left = total("left_to_the_definition", ordinary) / total("cells", ordinary)
    about = f"{len(FAMILIES)} families, {total('calls')} torch products in {', '.join(counts)}"
    return [
        Claim(
            claim="false alarms, every healthy element against its own bound",
            measured=f"{alarms} in {elements:.3g}",
            unit="elements flagged or not applicable",
            bar=f"0 in 10^9; {ANCHORS}",
            met=alarms == 0 and elements >= ELEMENTS,
            detail=f"{about}; largest residual over its bound {tops('largest_residual')}",
        ),
        Claim(
            claim="false alarms, rows and blocks of 32 with fresh signs",
            measured=f"{cell_alarms} in {cells:.3g}",
            unit="sums flagged or not applicable",
            bar="0",
            met=cell_alarms == 0,
            detail=f"{about}; {left:.2g} of the sums were left to the definition, not counting subnormal operands",
        ),
        Claim(
            claim="suspicions of healthy elements that stay unresolved",
            measured=f"{unresolved} in {elements:.3g}",
            unit="elements",
            bar="0",
            met=unresolved == 0,
            detail=f"above the statistical screen, below the bound; loudest share of the screen {tops('loudest')}",
        ),
        Claim(
            claim="healthy elements looked at one by one",
            measured=f"{examined:.2g}",
            unit="share of elements",
            bar="under 0.001",
            met=examined < 1e-3,
            detail=f"most in bf16 {share(counts, 'bf16')}, in fp32 {share(counts, 'fp32')}",
        ),
    ]


def share(counts: dict[str, dict[str, dict[str, Any]]], dtype: str) -> str:
    """The family of a format in which most elements are examined, and their share."""
    shares = {family: found["examined"] / found["elements"] for family, found in counts[dtype].items()}
    family = max(shares, key=lambda f: shares[f])
    return f"{shares[family]:.2g} ({family})"


if __name__ == "__main__":
    main()
