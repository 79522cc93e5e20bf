"""Claim: the fast check gives the definition's flags, cell by cell, at thresholds one last bit below and above too."""

import time

import numpy as np
import torch

from benchmarks.record import Claim, note, write
from veristate.numerics import (
    Guard,
    LinearArithmetic,
    Operands,
    bf16_arithmetic,
    check_linear,
    fp32_arithmetic,
    round_to_bf16,
)
from veristate.numerics.kernels import native, passes

CELLS, THRESHOLDS = 2_000_000, 6_000


def main() -> None:
    """Compares until enough cells and thresholds were seen, with each kernel in turn."""
    started, rng = time.time(), np.random.default_rng(5)
    kernels = {"numba": None} | ({"c": native.native} if native.native is not None else {})
    counts = {name: {"cells": 0, "thresholds": 0, "flagged": 0, "different": 0} for name in kernels}
    while (
        min(c["cells"] for c in counts.values()) < CELLS or min(c["thresholds"] for c in counts.values()) < THRESHOLDS
    ):
        call, arithmetic = healthy(rng)
        seed, draws = rng.bytes(8), int(rng.integers(1, 4))
        for Y in (call.Y, *around_a_threshold(call, arithmetic, rng, seed, draws)):
            judged = Operands(X=call.X, weights=call.weights, Y=Y)
            wanted = check_linear(judged, arithmetic, seed=seed, draws=draws)
            for name, kernel in kernels.items():
                passes.native = kernel
                add(counts[name], judged, arithmetic, wanted, draws, threshold=Y is not call.Y)
    passes.native = native.native
    note(str(counts))
    write("flag_identity", [claim(name, found) for name, found in counts.items()], {"counts": counts}, started)


def healthy(rng: np.random.Generator) -> tuple[Operands, LinearArithmetic]:
    """A random layer call by torch, in float32 or bfloat16, of a random scale and sign pattern."""
    M, K, N = (int(n) for n in rng.integers((1, 3, 1), (120, 500, 90)))
    X, W, b = (torch.from_numpy(rng.standard_normal(s, dtype=np.float32)) for s in ((M, K), (N, K), (N,)))
    X *= float(10.0 ** rng.uniform(-6, 6))
    X = X.relu() if rng.random() < 0.4 else X
    narrow = rng.random() < 0.4
    X, W, b = (a.bfloat16() if narrow else a for a in (X, W, b))
    Y = torch.nn.functional.linear(X, W, b)
    call = Operands.of(X.float().numpy(), W.float().numpy(), b.float().numpy(), Y.float().numpy())
    return call, bf16_arithmetic(bias=True) if narrow else fp32_arithmetic(bias=True, flush=bool(rng.random() < 0.5))


def around_a_threshold(
    call: Operands, arithmetic: LinearArithmetic, rng: np.random.Generator, seed: bytes, draws: int
) -> list[np.ndarray]:
    """Outputs with one element at the last value that the definition passes, at the next, and one step further out."""
    i, j = int(rng.integers(call.Y.shape[0])), int(rng.integers(call.Y.shape[1]))
    sign = rng.choice([-1.0, 1.0])

    def moved(steps: int) -> np.ndarray:
        Y = call.Y.copy()
        word = np.float32(abs(Y[i, j])).view(np.int32) + np.int64(steps)
        Y[i, j] = np.float32(sign) * np.int32(min(word, 0x7F7FFFFF)).view(np.float32)
        return Y if arithmetic.storage.precision == 24 else np.where(Y == call.Y, Y, round_to_bf16(Y))

    def flagged(steps: int) -> bool:
        check = check_linear(
            Operands(X=call.X, weights=call.weights, Y=moved(steps)), arithmetic, seed=seed, draws=draws
        )
        return bool(check.columns.flag.any() or check.rows.flag.any())

    low, high = 0, 1 << 30
    if flagged(low) or not flagged(high):
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if flagged(middle) else (middle, high)
    return [moved(low - 1), moved(low), moved(high), moved(high + 1)]


def add(
    found: dict[str, int], call: Operands, arithmetic: LinearArithmetic, wanted: object, draws: int, *, threshold: bool
) -> None:
    """Compares one check's masks with the definition's."""
    check = Guard().check(call, arithmetic, seed=wanted.seed, draws=draws)
    for ours, theirs in ((check.rows, wanted.rows), (check.columns, wanted.columns)):
        found["cells"] += theirs.flag.size
        found["flagged"] += int(theirs.flag.sum())
        found["different"] += int((ours.flag != theirs.flag).sum() + (ours.inapplicable != theirs.inapplicable).sum())
    found["thresholds"] += threshold


def claim(name: str, found: dict[str, int]) -> Claim:
    """One kernel's row."""
    return Claim(
        claim=f"flags of the fast check that differ from the definition's, {name} kernel",
        measured=str(found["different"]),
        unit=f"of {found['cells']:,} cells",
        bar="0 in 10^5",
        met=found["different"] == 0 and found["cells"] >= 100_000,
        detail=f"{found['thresholds']:,} checks with one output at the last value that passes, the next, and one step "
        f"to either side; {found['flagged']:,} cells flagged; the faults are simulated",
    )


if __name__ == "__main__":
    main()
