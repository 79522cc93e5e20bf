"""Errors that cancel inside a block: what fresh random signs make of them."""

from typing import Any

import numpy as np

from benchmarks.detection.layers import SIMULATED, Layer
from benchmarks.record import Claim
from veristate.audit import wilson
from veristate.numerics import BLOCK, Guard

PAIR_TRIALS, PAIR_DRAWS = 8192, range(1, 9)


def pairs(draws: int) -> dict[str, Any]:
    """How many of the faults [[+e, -e], [-e, +e]] inside one block are flagged by that many draws; 0: all ones."""
    layer, rng, guard = Layer.of(32, 32, "bf16", bias=False), np.random.default_rng(draws), Guard(screen=None)
    caught, each = 0, 64
    for _ in range(PAIR_TRIALS // each):
        call = layer.call(rng, each * BLOCK)
        size = 8 * float(np.abs(call.Y).max())
        first, second = places(rng, each, BLOCK), places(rng, each, 32)
        rows = BLOCK * np.arange(each)[:, None] + first[:, [0, 0, 1, 1]]
        # What the storage format rounds off is within the bounds of sums that hold such values.
        wrong = layer.moved(call, rows, second[:, [0, 1, 0, 1]], size * np.array([1.0, -1.0, -1.0, 1.0]))
        check = guard.check(wrong, layer.arithmetic, seed=rng.bytes(8) if draws else None, draws=draws or 1)
        caught += int(check.columns.flag.any(axis=(0, 2)).sum())
        assert not check.rows.flag.any()
    low, high = wilson(caught, PAIR_TRIALS)
    return {"caught": caught, "trials": PAIR_TRIALS, "low": low, "high": high}


def places(rng: np.random.Generator, count: int, among: int) -> np.ndarray:
    """[count, 2]: two different places each."""
    first = rng.integers(among, size=count)
    return np.stack([first, (first + rng.integers(1, among, size=count)) % among], axis=1)


def pairs_claim(data: dict[int, dict[str, Any]]) -> Claim:
    """The row of cancelling pairs."""
    rates = {draws: found["caught"] / found["trials"] for draws, found in data.items()}
    met = rates[0] == 0 and all(data[s]["high"] >= 1 - 2.0**-s for s in PAIR_DRAWS)
    return Claim(
        claim=f"cancelling pairs [[+e, -e], [-e, +e]] inside a block, 1 to {max(PAIR_DRAWS)} sign draws",
        measured=", ".join(f"{rates[s]:.4f}" for s in PAIR_DRAWS),
        unit="share flagged",
        bar="1 - 2^-s within its 95 % interval; all ones 0",
        met=met,
        detail=f"{SIMULATED}, {PAIR_TRIALS} trials each; all ones {rates[0]:g}; "
        + ", ".join(f"s={s}: {data[s]['low']:.4f} to {data[s]['high']:.4f}" for s in PAIR_DRAWS),
    )
