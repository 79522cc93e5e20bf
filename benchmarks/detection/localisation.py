"""Which rows and elements the checks name, of calls in which an element is provably wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.detection.layers import Layer, marks
from benchmarks.record import Claim
from veristate.audit import wilson
from veristate.core import Verdict
from veristate.devices.checking import float32_product, located_rows
from veristate.devices.faults import Site, fault_named
from veristate.numerics import Guard, LinearCheck, Operands, check_elements, wrong_elements

OBSERVATIONS, SESSION, MOLECULE_ROWS, FEATURES = 400, 128, (2000, 7001), (133, 147, 300, 300, 300)
# The share of Case 1 observations that whole rows and columns localised in the paper (I.4).
PAPER_SHARE = 695 / 991


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
