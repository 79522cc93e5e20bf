"""Claim: blocks with a screen see single wrong elements of a tenth of the mean output at every width.

Every fault is simulated: a healthy torch product in which elements were changed. Sizes are in mean |Y|. A fault counts
as always found when it is at every one of 300 random places, at its size and at larger ones.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks.record import Claim, note, write
from veristate.audit import wilson
from veristate.core import Verdict
from veristate.devices.checking import float32_product, located_rows
from veristate.devices.faults import Site, fault_named
from veristate.numerics import (
    BLOCK,
    Guard,
    LinearArithmetic,
    LinearCheck,
    Operands,
    Screen,
    Weights,
    bf16_arithmetic,
    check_elements,
    draw_signs,
    fp32_arithmetic,
    round_to_bf16,
    wrong_elements,
)
from veristate.numerics.checksums import column_cells, row_cells

WIDTHS = (300, 1024, 4096)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# Rows of a call and the places at which a fault must be found: 30 calls with one in each of their ten blocks.
ROWS, PLACES = 320, 300
STEP = 1.02
# In the first calls larger ones are tried too: what is found at one size must be found at every larger one.
LARGER, LARGER_CALLS = (1.3, 4.0, 30.0, 1000.0), 3
SEEN_BAR = {"bf16": 0.1, "fp32": 0.01}
PAIR_TRIALS, PAIR_DRAWS = 8192, range(1, 9)
FLIPS, FLIP_SHAPES = 192, ((300, 300), (1024, 4096))
OBSERVATIONS, SESSION, MOLECULE_ROWS, FEATURES = 400, 128, (2000, 7001), (133, 147, 300, 300, 300)
# The share of Case 1 observations that whole rows and columns localised in the paper (I.4).
PAPER_SHARE = 695 / 991
# Only the last looks at elements.
GUARDS = {
    kind: Guard(product=float32_product, screen=screen)
    for kind, screen in (("rows", None), ("blocks", None), ("screen", Screen()))
}
SIMULATED = "simulated faults in healthy torch products"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer as torch initialises it, ready to be called and checked."""

    dtype: str
    weights: Weights
    layer: torch.nn.Linear
    arithmetic: LinearArithmetic

    @classmethod
    def of(cls, K: int, N: int, dtype: str, *, bias: bool) -> "Layer":
        """A layer of that shape."""
        layer = torch.nn.Linear(K, N, bias=bias).to(DTYPES[dtype])
        W, b = layer.weight.detach().float().numpy(), layer.bias.detach().float().numpy() if bias else None
        arithmetic = bf16_arithmetic(bias=bias) if dtype == "bf16" else fp32_arithmetic(bias=bias, flush=False)
        return cls(dtype=dtype, weights=Weights.of(W, b), layer=layer, arithmetic=arithmetic)

    def call(self, rng: np.random.Generator, M: int) -> Operands:
        """A healthy call on M rows of ordinary values."""
        X = torch.from_numpy(rng.standard_normal((M, self.weights.W.shape[1]), np.float32)).to(DTYPES[self.dtype])
        with torch.no_grad():
            return Operands.of(X.float().numpy(), self.weights, None, self.layer(X).float().numpy())

    def changed(self, call: Operands, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Operands:
        """The call with other values at some places, rounded to the format."""
        Y, values = call.Y.copy(), values.astype(np.float32)
        Y[rows, columns] = round_to_bf16(values) if self.dtype == "bf16" else values
        return Operands(X=call.X, weights=call.weights, Y=Y)

    def moved(self, call: Operands, rows: np.ndarray, columns: np.ndarray, moves: np.ndarray) -> Operands:
        """The call with some elements moved, as stored by at least so much."""
        before = call.Y[rows, columns].astype(np.float64)
        values = (before + moves).astype(np.float32)
        if self.dtype == "bf16":
            values = round_to_bf16(values)
            further = values + np.sign(moves) * np.spacing(np.abs(values)) * 2.0**16
            values = np.where(np.abs(values - before) < np.abs(moves), further, values)
        return self.changed(call, rows, columns, values)


def main() -> None:
    """Measures and writes the figures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started, data = time.time(), {}
    data["smallest"] = {
        f"{dtype} {width}{'' if bias else ', no bias'}": smallest(width, dtype, bias=bias)
        for width in WIDTHS
        for dtype in DTYPES
        for bias in (True, False)
    }
    data["pairs"] = {draws: pairs(draws) for draws in (0, *PAIR_DRAWS)}
    note(f"cancelling pairs: {data['pairs']}")
    data["localisation"] = localisation()
    note(f"localisation: {data['localisation']['observations']}")
    data["bit_flips"] = {f"{dtype} {K}x{N}": bit_flips(K, N, dtype) for dtype in DTYPES for K, N in FLIP_SHAPES}
    claims = [
        *smallest_claims(data["smallest"]),
        pairs_claim(data["pairs"]),
        *localisation_claims(data["localisation"]),
    ]
    write("detection_power", [*claims, *flip_claims(data["bit_flips"])], data, started)


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


def marks(check: LinearCheck, rows: np.ndarray, columns: np.ndarray) -> dict[str, np.ndarray]:
    """Whether the element at each place is found: by its row's sum, its block's, or as a proven or unresolved one."""
    elements = set(zip(check.elements.rows.tolist(), check.elements.columns.tolist(), strict=True))
    return {
        "rows": check.rows.flag[rows],
        "blocks": check.columns.flag[:, rows // check.block, columns].any(axis=0),
        "screen": np.array([place in elements for place in zip(rows.tolist(), columns.tolist(), strict=True)]),
    }


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


def localisation() -> dict[str, Any]:
    """What the guard localises of the simulated Case 1, of calls in which an element is provably wrong."""
    rng, guard, fault = np.random.default_rng(0), Guard(product=float32_product), fault_named("case1", 1)
    layers = {K: Layer.of(K, 300, "bf16", bias=True) for K in FEATURES}
    pool = {K: torch.from_numpy(np.maximum(rng.standard_normal((20_000, K), np.float32), 0)).bfloat16() for K in layers}
    names = ("calls", "events", "observations", "localised", "suspected", "elements", "found", "wary", "wary_found")
    counts, wary = dict.fromkeys(names, 0), False
    octaves: dict[int, list[int]] = {}
    sizes: list[tuple[float, bool, bool]] = []
    while counts["observations"] < OBSERVATIONS:
        wary &= counts["calls"] % SESSION > 0
        K, M = int(rng.choice(FEATURES)), int(rng.integers(*MOLECULE_ROWS))
        X = pool[K][(start := int(rng.integers(20_000 - M))) : start + M]
        with torch.no_grad():
            Y = layers[K].layer(X)
        before, number = len(fault.events), counts["calls"]
        fault.apply(Site(number=number, member=0, batch=0, layer="layer", shape=(M, 300)), Y)
        counts["calls"] += 1
        if len(fault.events) == before:
            continue
        counts["events"] += 1
        event, call = fault.events[-1], Operands.of(X.float().numpy(), layers[K].weights, None, Y.float().numpy())
        provable = check_elements(call, layers[K].arithmetic, event.rows).flag
        if provable.any():
            check = guard.check(call, layers[K].arithmetic, seed=rng.bytes(8))
            size = float(np.abs(event.residuals).max() / np.abs(call.Y).mean())
            add_observation(counts, octaves, check, event.rows, provable, size)
            whole = guard.check(call, layers[K].arithmetic, block=None)
            by_sums = whole.rows.flag[event.rows].any() or whole.columns.flag[0, 0, event.columns].any()
            sizes.append((size, bool(by_sums), localised(check, event.rows)))
            wary |= check.verdict() is Verdict.FLAG
            if wary:
                every = wrong_elements(call, layers[K].arithmetic, float32_product)
                check = replace(check, elements=every)
            counts["wary"] += localised(check, event.rows)
            counts["wary_found"] += found_of(check, event.rows, provable)
    by_size = {f"2^{k}": octaves[k] for k in sorted(octaves)}
    return {"observations": counts, "by_size": by_size, "as_in_the_paper": as_in_the_paper(sizes)}


def localised(check: LinearCheck, rows: np.ndarray) -> bool:
    """Whether one of the rows is among those in which a fault is proven."""
    return bool(np.isin(rows, np.flatnonzero(located_rows(check))).any())


def found_of(check: LinearCheck, rows: np.ndarray, provable: np.ndarray) -> int:
    """How many of the provable elements, a mask over [rows, N], the check names."""
    wanted, columns = np.nonzero(provable)
    return int(marks(check, rows[wanted], columns)["screen"].sum())


def as_in_the_paper(sizes: list[tuple[float, bool, bool]]) -> dict[str, float]:
    """What is localised among faults as large as the paper's: the smallest are left out until whole rows and columns,
    the paper's check, localise the share that they did there.
    """
    kept = sorted(sizes)
    while kept and sum(whole for _, whole, _ in kept) / len(kept) < PAPER_SHARE:
        kept = kept[1:]
    shares = [sum(seen[kind] for seen in kept) / max(len(kept), 1) for kind in (1, 2)]
    return {"observations": len(kept), "smallest": kept[0][0] if kept else 0.0, "whole": shares[0], "guard": shares[1]}


def add_observation(
    counts: dict[str, int], octaves: dict[int, list[int]], check: LinearCheck, rows: np.ndarray, provable: np.ndarray,
    size: float,
) -> None:  # fmt: skip
    """Adds what one check localised of the provable elements [rows, N] to the counts, and by the event's size."""
    right, found, wanted = localised(check, rows), found_of(check, rows, provable), int(provable.sum())
    values = (1, right, bool(np.isin(rows, check.elements.rows).any()) or right, wanted, found)
    for name, value in zip(("observations", "localised", "suspected", "elements", "found"), values, strict=True):
        counts[name] += int(value)
    octave = octaves.setdefault(int(np.floor(np.log2(size))), [0, 0, 0, 0])
    for n, value in enumerate((1, right, wanted, found)):
        octave[n] += int(value)


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


def localisation_claims(data: dict[str, Any]) -> list[Claim]:
    """The rows of localisation."""
    counts = data["observations"]
    share, elements = counts["localised"] / counts["observations"], counts["found"] / counts["elements"]
    low, high = wilson(counts["localised"], counts["observations"])
    matched = data["as_in_the_paper"]
    sizes = ", ".join(f"{size}: {n[1]}/{n[0]}" for size, n in data["by_size"].items())
    about = f"simulated Case 1, bf16, {MOLECULE_ROWS[0]} to {MOLECULE_ROWS[1] - 1} rows, {counts['calls']} calls"
    return [
        Claim(
            claim="calls with provably wrong elements whose fault is localised to a right row, by sums and screen",
            measured=f"{share:.3f}",
            unit="share of observations",
            bar="0.95; 695 of 991 in the paper, measured",
            met=share >= 0.95,
            detail=f"{about}, {counts['observations']} observations, {low:.3f} to {high:.3f}; by largest change in "
            f"mean |Y| {sizes}",
        ),
        Claim(
            claim="the same among faults as large as the paper's: those of which whole sums localise 70.1 %",
            measured=f"{matched['guard']:.3f}",
            unit="share of observations",
            bar="0.95",
            met=matched["guard"] >= 0.95,
            detail=f"{matched['observations']} observations of {matched['smallest']:.3g} mean |Y| and more; whole rows "
            f"and columns localise {matched['whole']:.3f} of them",
        ),
        Claim(
            claim="the same as a screening checks them: every element looked at once a fault was proven in the pass",
            measured=f"{counts['wary'] / counts['observations']:.3f}",
            unit="share of observations",
            bar="0.95",
            met=counts["wary"] >= 0.95 * counts["observations"],
            detail=f"{about}, passes of {SESSION} calls; {counts['wary_found'] / counts['elements']:.3f} of the wrong "
            "elements by their coordinates; costs a product more a call, of a device that was proven wrong",
        ),
        Claim(
            claim="provably wrong elements found by their coordinates",
            measured=f"{elements:.3f}",
            unit="share of elements",
            bar="0.95",
            met=elements >= 0.95,
            detail=f"{about}, {counts['elements']} elements; what isn't found lies below the rounding of a block's sum",
        ),
    ]


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


if __name__ == "__main__":
    main()
