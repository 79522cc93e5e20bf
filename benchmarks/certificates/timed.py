"""CPU seconds of each way beside a plain forward, and cost by the size of the table.

A forward takes a minute of a busy machine, in which its speed drifts by more than what is to be measured. So a plain
run of each batch stands right before or after, by turns, the one whose rows are exported; shares are of their sums.
"""

import os
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.certificates.case import Case, Data, perturbed
from benchmarks.record import Claim, note
from veristate.devices import prepare_process
from veristate.devices.certified import Exporter, Wanted, batch_spans, places_of
from veristate.numerics.probes import Export

ROUNDS = 5
SIZES = (1_000, 10_000, 100_000)


class Paired:
    """A suspect run that also makes a plain one of each batch, by turns before and after; CPU seconds of both."""

    def __init__(self, case: Case, trusted: int) -> None:
        self._case, self._trusted = case, trusted
        self.plain, self.exporting = 0.0, 0.0

    def __call__(self, member: int, batches: range, env: Any) -> tuple[np.ndarray, Export]:
        """The scores and the export; as `exported_run`."""
        predictor, model = self._case.predictor, self._case.predictor.models[member]
        exporter = Exporter(len(env.bonds), places_of(env, self._trusted), batch_spans(predictor, batches))
        scores = []
        for batch in batches:
            for exports in (True, False) if batch % 2 else (False, True):
                begun = time.process_time()
                with exporter.taking(model, batch) if exports else nullcontext():
                    given = predictor.run(member, batch)
                spent = time.process_time() - begun
                if exports:
                    self.exporting += spent
                    scores.append(given)
                else:
                    self.plain += spent
        begun = time.process_time()
        export = Export.fix(
            {name: [rows] for name, rows in exporter.rows.items()}, self._case.side.members[member].weights
        )
        self.exporting += time.process_time() - begun
        return np.concatenate(scores), export


def timed(case: Case, rounds: int) -> Data:
    """Shares of each way, in interleaved rounds of one process, one thread."""
    probed = {
        "probes": Wanted(strategy="probes"),
        "probes, 12 draws": Wanted(strategy="probes", draws=12),
        "probes, inputs alone trusted": Wanted(strategy="probes", trusted=1),
    }
    others = {
        "memo fp32 (C2)": Wanted(kind="C2", strategy="memo"),
        "memo fp64 (C1)": Wanted(strategy="memo"),
    }
    data: Data = {"rounds": rounds, "forward": [], "share": {}, "export": {}, "predicted_and_spent": {}}
    for number in range(rounds):
        plain = []
        for name, wanted in (*probed.items(), *others.items()):
            pair = Paired(case, wanted.trusted)
            begun = time.process_time()
            result = case.certify(wanted, pair if name in probed else None)
            spent = time.process_time() - begun
            if name in probed:
                plain.append(pair.plain)
                share = (spent - pair.plain) / pair.plain - 1
                data["export"].setdefault(name, []).append(pair.exporting / pair.plain - 1)
            else:  # makes no forward: over the one timed nearest to it
                share = spent / plain[-1]
            data["share"].setdefault(name, []).append(share)
            data["predicted_and_spent"].setdefault(name, []).append((result.predicted, result.spent))
        data["forward"].append(statistics.median(plain))
        note(f"round {number + 1}: { {name: round(found[-1], 3) for name, found in data['share'].items()} }")
    data["load"] = os.getloadavg()[0]
    return data


def scale(sizes: tuple[int, ...] = SIZES) -> list[Data]:
    """Cost and memory of certifying larger tables by one member, each in a process of its own."""
    found = []
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            found.append(alone.submit(certified_alone, size).result())
        note(f"scale: {found[-1]}")
    return found


def certified_alone(size: int) -> Data:
    """One table: the built-in one again and again, its molecules made isotopes. Memory is the peak above loading."""
    warnings.simplefilter("ignore")
    prepare_process("cpu", 1)
    case = Case(perturbed(size), members=1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here on
    before = _megabytes("VmRSS")
    result = case.certify(Wanted(strategy="probes", budget=size), case.suspect(2))
    return {
        "candidates": size,
        "microseconds_per_candidate": 1e6 * result.spent / size,
        "units_recomputed": result.narrowed.units_spent,
        "certified": result.narrowed.certified,
        "loaded_mb": before,
        "peak_growth_mb": _megabytes("VmHWM") - before,
    }


def _megabytes(name: str) -> float:
    """A figure of this process's memory, by its name in /proc."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def timed_claims(data: Data) -> list[Claim]:
    """What certifying costs over the forward."""
    label = "" if data["rounds"] >= ROUNDS else "PRELIMINARY, one round on a busy machine; "
    forward = statistics.median(data["forward"])
    shares = {name: statistics.median(found) for name, found in data["share"].items()}
    pairs = [pair for found in data["predicted_and_spent"].values() for pair in found]
    ratios = sorted(p / s for p, s in pairs)
    inputs_alone, twelve = (shares[f"probes, {name}"] for name in ("inputs alone trusted", "12 draws"))
    export = statistics.median(data["export"]["probes"])
    parts = (
        "export, environments, digests, probes, bounds, recomputation, decisions; each batch's plain run stands just "
        f"before or after the exporting one; forward {forward:.1f} CPU s, export alone {100 * export:.1f} %; inputs "
        f"alone trusted {100 * inputs_alone:.1f} %; 12 draws {100 * twelve:.1f} %"
    )
    return [
        Claim(
            claim="whole cost of certifying a clean fp32 pass, over the forward, end to end",
            measured=f"{100 * shares['probes']:.1f}",
            unit="% of the forward's CPU time",
            bar="<= 15; full recomputation 100+, memoised 20-28",
            met=shares["probes"] <= 0.15 if not label else None,
            detail=label + parts,
        ),
        Claim(
            claim="memoised full recomputation over a forward, fp32 with its bits",
            measured=f"{100 * shares['memo fp32 (C2)']:.1f}",
            unit="% of the forward's CPU time",
            bar="<= 45; prototype 41-53",
            met=shares["memo fp32 (C2)"] <= 0.45 if not label else None,
            detail=f"{label}with its qualification sample; FP64 for every exact value (C1): "
            f"{100 * shares['memo fp64 (C1)']:.1f} %",
        ),
        Claim(
            claim="the planner's predicted cost over the real one",
            measured=f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            unit="ratio, all strategies and rounds",
            bar="within 0.67 and 1.5",
            met=ratios[0] >= 0.67 and ratios[-1] <= 1.5 if not label else None,
            detail=label
            + "; ".join(
                f"{name}: predicted {found[-1][0]:.2f} s, really {found[-1][1]:.2f} s"
                for name, found in data["predicted_and_spent"].items()
            ),
        ),
    ]


def scale_claims(scaled: list[Data]) -> list[Claim]:
    """What a larger table costs."""
    costs = [row["microseconds_per_candidate"] for row in scaled]
    return [
        Claim(
            claim="cost per candidate from 10^3 to larger tables",
            measured=", ".join(f"{row['candidates']}: {row['microseconds_per_candidate']:.0f}" for row in scaled),
            unit="CPU microseconds a candidate and member",
            bar="at the largest size at most 1.1 times that at the smallest; memory bounded by the batch",
            met=costs[-1] <= 1.1 * costs[0]
            and scaled[-1]["peak_growth_mb"] < 1000
            and all(row["certified"] for row in scaled),
            detail=", ".join(
                f"{row['candidates']}: peak grew by {row['peak_growth_mb']:.0f} MB, {row['units_recomputed']} units, "
                f"{'certified' if row['certified'] else 'refused'}"
                for row in scaled
            )
            + "; one member; the table again and again, a drawn atom of each molecule made an isotope, so that no two "
            "are alike; the cost falls, for samples are timed for the plan whatever the size",
        ),
    ]
