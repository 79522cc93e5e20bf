"""Which single flipped bits of an output are found."""

import numpy as np

from benchmarks.detection.layers import SIMULATED, Layer, marks
from benchmarks.record import Claim, note
from veristate.devices.checking import float32_product
from veristate.numerics import BLOCK, Guard, check_elements

FLIPS, FLIP_SHAPES = 192, ((300, 300), (1024, 4096))


def bit_flips(K: int, N: int, dtype: str) -> dict[int, dict[str, float]]:
    """For each bit, the share of flips found by whole rows and columns, by blocks, with the screen, and by elements."""
    layer, rng, guard = Layer.of(K, N, dtype, bias=False), np.random.default_rng(K), Guard(product=float32_product)
    M, low = 16 * BLOCK, 16 if dtype == "bf16" else 0
    blocks, shares = np.arange(M // BLOCK), {}
    for bit in range(low, 32):
        counts = dict.fromkeys(("whole", "blocks", "screen", "elements"), 0)
        for _ in range(FLIPS // len(blocks)):
            call = layer.call(rng, M)
            rows, columns = BLOCK * blocks + rng.integers(BLOCK, size=len(blocks)), rng.permutation(N)[: len(blocks)]
            words = call.Y[rows, columns].view(np.uint32) ^ np.uint32(1 << bit)
            wrong = layer.changed(call, rows, columns, words.view(np.float32))
            whole, check = (guard.check(wrong, layer.arithmetic, block=b, seed=rng.bytes(8)) for b in (None, BLOCK))
            found = marks(check, rows, columns)
            counts["whole"] += int((whole.rows.flag[rows] | whole.columns.flag[0, 0, columns]).sum())
            counts["blocks"] += int((found["rows"] | found["blocks"]).sum())
            counts["screen"] += int((found["rows"] | found["blocks"] | found["screen"]).sum())
            counts["elements"] += int(check_elements(wrong, layer.arithmetic, rows).flag[blocks, columns].sum())
        shares[bit - low] = {name: value / FLIPS for name, value in counts.items()}
    note(f"bit flips {dtype} {K} to {N}: " + ", ".join(f"b{bit} {s['screen']:.2f}" for bit, s in shares.items()))
    return shares


def flip_claims(data: dict[str, dict[int, dict[str, float]]]) -> list[Claim]:
    """A row for each table of bit flips."""
    return [
        Claim(
            claim=f"single bit flips found, {shape}, from bit 0 up",
            measured=" ".join(f"{found['screen']:.2f}" for found in bits.values()),
            unit="share, with suspicion and escalation",
            bar="reported",
            met=None,
            detail=f"{SIMULATED}, {FLIPS} flips a bit; whole rows and columns "
            + " ".join(f"{found['whole']:.2f}" for found in bits.values())
            + "; blocks, by proof "
            + " ".join(f"{found['blocks']:.2f}" for found in bits.values())
            + "; every element for itself "
            + " ".join(f"{found['elements']:.2f}" for found in bits.values()),
        )
        for shape, bits in data.items()
    ]
