"""The smallest single wrong elements that are always found, by whole rows, by blocks and with the screen."""

import numpy as np

from benchmarks.detection.layers import DTYPES, GUARDS, SIMULATED, Layer, marks
from benchmarks.record import Claim, note
from veristate.numerics import BLOCK, draw_signs
from veristate.numerics.checksums import column_cells, row_cells

WIDTHS = (300, 1024, 4096)
# Rows of a call and the places at which a fault must be found: 30 calls with one in each of their ten blocks.
ROWS, PLACES = 320, 300
STEP = 1.02
# In the first calls larger ones are tried too: what is found at one size must be found at every larger one.
LARGER, LARGER_CALLS = (1.3, 4.0, 30.0, 1000.0), 3
SEEN_BAR = {"bf16": 0.1, "fp32": 0.01}


class Trial:
    """One fault in each block of a healthy call, of any size in mean |Y|, and whether all of them are found."""

    def __init__(self, layer: Layer, rng: np.random.Generator) -> None:
        self.layer, self.call, self.seed = layer, layer.call(rng, ROWS), rng.bytes(8)
        self.blocks = np.arange(ROWS // BLOCK)
        self.rows = BLOCK * self.blocks + rng.integers(BLOCK, size=len(self.blocks))
        self.columns = rng.integers(self.call.Y.shape[1], size=len(self.blocks))
        self.unit = float(np.abs(self.call.Y).mean())
        self.sides = self.unit * rng.choice([-1.0, 1.0], len(self.blocks))

    def found(self, kind: str, size: float) -> bool:
        """Whether every fault is found, when all are of that size, by that kind of check."""
        wrong = self.layer.moved(self.call, self.rows, self.columns, size * self.sides)
        check = GUARDS[kind].check(wrong, self.layer.arithmetic, seed=self.seed)
        return bool(marks(check, self.rows, self.columns)[kind].all())

    def least(self, kind: str, known: float) -> float:
        """The least size, at least `known`, at which all are found."""
        if known and self.found(kind, known):
            return known
        low = high = known or 1e-5
        while not self.found(kind, high):
            low, high = high, high * 4
        while high > low * STEP:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if self.found(kind, middle) else (middle, high)
        return high

    def allowed(self) -> dict[str, float]:
        """What the bounds of the healthy cells at these places allow, at most."""
        signs, arithmetic = draw_signs(ROWS, self.seed)[0], self.layer.arithmetic
        rows = row_cells(self.call, arithmetic, self.rows)
        blocks = column_cells(self.call, arithmetic, signs, BLOCK, self.blocks, self.columns)
        return {"rows": float(rows.bound.max()) / self.unit, "blocks": float(blocks.bound.max()) / self.unit}


def smallest(width: int, dtype: str, *, bias: bool) -> dict[str, float]:
    """The smallest single-element faults that are always found, in mean |Y|, and what the cells' own bounds allow."""
    layer, rng = Layer.of(width, width, dtype, bias=bias), np.random.default_rng(width)
    known, allowed = dict.fromkeys(GUARDS, 0.0), {"rows": 0.0, "blocks": 0.0}
    for number in range(PLACES // (ROWS // BLOCK)):
        trial = Trial(layer, rng)
        for kind in known:
            known[kind] = trial.least(kind, known[kind])
            assert number >= LARGER_CALLS or all(trial.found(kind, known[kind] * larger) for larger in LARGER)
        allowed = {kind: max(value, allowed[kind]) for kind, value in trial.allowed().items()}
    known |= {f"{kind}_allowed": value for kind, value in allowed.items()}
    note(f"{dtype} {width}{'' if bias else ' no bias'}: " + ", ".join(f"{k} {v:.3g}" for k, v in known.items()))
    return known


def smallest_claims(data: dict[str, dict[str, float]]) -> list[Claim]:
    """Rows of the smallest faults: by whole rows, by blocks, with the screen."""
    claims = []
    for dtype in DTYPES:
        own = {key.removeprefix(f"{dtype} "): found for key, found in data.items() if key.startswith(dtype)}

        def across(kind: str) -> str:
            return "; ".join(f"{key}: {found[kind]:.3g}" for key, found in own.items())  # noqa: B023

        excess = max(found["blocks"] / found["blocks_allowed"] for found in own.values())
        worst = max(found["screen"] for found in own.values())
        anchor = "; 1.2 to 22 before" if dtype == "bf16" else ""
        claims += [
            Claim(
                claim=f"smallest fault always flagged by whole rows, {dtype}",
                measured=f"{min(f['rows'] for f in own.values()):.2g} to {max(f['rows'] for f in own.values()):.3g}",
                unit="mean |Y|",
                bar=f"reported{anchor}",
                met=None,
                detail=f"{SIMULATED}, K = N, {PLACES} places; {across('rows')}",
            ),
            Claim(
                claim=f"smallest fault always flagged by blocks of {BLOCK}, by proof alone, {dtype}",
                measured=f"{excess:.3g}",
                unit="times what the bounds of these cells allow",
                bar="1.2",
                met=excess <= 1.2,
                detail=f"{SIMULATED}; in mean |Y| {across('blocks')}",
            ),
            Claim(
                claim=f"smallest fault always seen, with suspicion and escalation, {dtype}",
                measured=f"{worst:.2g}",
                unit="mean |Y|, at the worst width",
                bar=f"{SEEN_BAR[dtype]}",
                met=worst <= SEEN_BAR[dtype],
                detail=f"{SIMULATED}: the right element is proven wrong or left unresolved; {across('screen')}",
            ),
        ]
    return claims
