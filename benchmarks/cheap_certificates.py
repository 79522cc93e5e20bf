"""Claim: a pass is certified for a few percent of its cost, with a stated failure probability, or refused.

The five hERG members over the built-in table, fp32, batches of 64, one thread. Untimed rows: units recomputed, equal
bits, faulty passes, violations of bounds. Timed rows are interleaved rounds in one process, and want a quiet machine.

  --untimed      only the untimed rows; timed ones are kept from an earlier run
  --timed        only the timed rows; untimed ones are kept
  --preliminary  one timed round, and the rows say so
"""

import csv
import json
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from benchmarks.record import RESULTS, Claim, note, write
from veristate.core import Rule
from veristate.decisions import Box, Question, decide, ensemble_mean
from veristate.devices import Candidates, PredictorSpec, fault_named, load_predictor, prepare_process
from veristate.devices.certified import (
    TrustedSide,
    Wanted,
    certify_pass,
    export_rows,
    exported_run,
    graphs_of,
    member_bounds,
    memoised_scores,
    ordered_environments,
)
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, RowMap, Term, check_rows
from veristate.screening.cases import herg

TOP, ROUNDS, REDRAWS, SCORED_REDRAWS, SPOTS = 402, 5, 36, 8, 12
DELTA = "1e-9"
FAULTS = (("case1", 1), ("case2", 7), ("case2", 3))
RECIPES = {"first bond depth trusted": (2, 16), "inputs alone trusted": (1, 16)}
Data = dict[str, Any]


def main() -> None:
    """Runs what the flags say and writes the figures."""
    warnings.simplefilter("ignore")
    started, flags = time.time(), set(sys.argv[1:])
    prepare_process("cpu", 1)
    data = _earlier()
    case = Case.of(_table())
    if "--timed" not in flags:
        data["untimed"] = untimed(case)
    if "--untimed" not in flags:
        data["timed"] = timed(case, 1 if "--preliminary" in flags else ROUNDS, scaled="--preliminary" not in flags)
    write("cheap_certificates", claims_of(data), data, started)


class Case:
    """The predictor, its trusted side, the question, and the exact enclosures and decisions."""

    def __init__(self, candidates: Candidates, members: int | None = None) -> None:
        paths = tuple(map(str, herg.herg_files().members))[:members]
        digests = herg.MEMBER_DIGESTS[:members]
        spec = PredictorSpec(
            kind="chemprop", dtype="fp32", device="cpu", batch=64, members=paths, digests=digests, output=herg.OUTPUT
        )
        self.predictor = load_predictor(spec, candidates)
        self.side = TrustedSide.of(self.predictor)
        top = max(TOP * len(candidates.ids) // 2845, 1)
        rules = (Rule(kind="top_k", count=top), Rule(kind="threshold", threshold="0.5"))
        self.question = Question(rules=rules, ids=candidates.ids)
        self.exact: Box
        self.truth: tuple = ()

    @classmethod
    def of(cls, candidates: Candidates) -> "Case":
        """The case with its exact enclosures."""
        case = cls(candidates)
        case.exact = case.side.everything()
        scores = ensemble_mean((case.exact.lower + case.exact.upper) / 2, 1.0)
        case.truth = tuple(decide(rule, scores, candidates.ids) for rule in case.question.rules)
        return case

    def suspect(self, trusted: int, fault: Any = None, change: Callable[[Export, int], Export] | None = None) -> Any:
        """The suspect's run; `change` stands for what a device may do to its exports."""

        def run(member: int, batches: range, env: Any) -> tuple[np.ndarray, Export]:
            weights = self.side.members[member].weights
            scores, export = exported_run(
                self.predictor, member, batches, env, trusted=trusted, weights=weights, fault=fault
            )
            return scores, export if change is None else change(export, member)

        return run

    def certify(self, wanted: Wanted, suspect: Any) -> Any:
        """One certified pass, from nothing."""
        self.side._kept.clear()
        return certify_pass(self.question, self.side, suspect, wanted, entropy=os.urandom, clock=time.process_time)

    def forward(self) -> np.ndarray:
        """A plain pass."""
        batches = range(len(self.predictor.batches))
        return np.stack(
            [np.concatenate([self.predictor.run(m, b) for b in batches]) for m in range(len(self.predictor.models))]
        )

    def violations(self, box: Box) -> int:
        """Enclosures that miss the exact value: those that don't meet what FP64 proves."""
        return int(((box.upper < self.exact.lower) | (box.lower > self.exact.upper)).sum())


def untimed(case: Case) -> Data:
    """Everything that no clock decides."""
    healthy = case.forward()
    note("healthy pass done")
    data: Data = {"units": int(healthy.size), "clean": {}, "faults": {}}
    for name, (trusted, draws) in RECIPES.items():
        found = case.certify(Wanted(strategy="probes", trusted=trusted, draws=draws), case.suspect(trusted))
        data["clean"][name] = told(case, found, healthy)
        note(f"clean, {name}: {data['clean'][name]}")
    data["memo"] = memo_equal(case, healthy)
    note(f"memoised fp32: {data['memo']}")
    planted: dict[str, Any] = {f"{kind} seed {seed}": (fault_named(kind, seed), None) for kind, seed in FAULTS}
    planted |= {f"cancelling pairs of {d} in 70 rows of each member": (None, cancelling(d)) for d in (0.01, 4.0)}
    for name, (fault, change) in planted.items():
        found = case.certify(Wanted(strategy="probes"), case.suspect(2, fault, change))
        data["faults"][name] = told(case, found, healthy)
        note(f"{name}: {data['faults'][name]}")
    data["validity"] = validity(case)
    note(f"validity: {data['validity']}")
    return data


def told(case: Case, found: Any, healthy: np.ndarray) -> Data:
    """What one certified pass came to."""
    narrowed = found.narrowed
    suspect = ensemble_mean(np.nan_to_num(found.scores.astype(np.float64), nan=0.0), 1.0)
    return {
        "certified": narrowed.certified,
        "right": narrowed.decisions == case.truth,
        "right_before": tuple(decide(r, suspect, case.question.ids) for r in case.question.rules) == case.truth,
        "units_recomputed": narrowed.units_spent,
        "candidates_recomputed": int(narrowed.done.any(axis=0).sum()),
        "rounds": len(narrowed.rounds),
        "units_with_other_bits": int((found.scores.view(np.uint32) != healthy.view(np.uint32)).sum()),
        "violations": case.violations(narrowed.box),
        "rows_checked": found.rows_checked,
    }


def cancelling(size: float) -> Callable[[Export, int], Export]:
    """A device that adds and takes away the same in 70 rows: blind spots of plain row sums."""

    def change(export: Export, member: int) -> Export:
        rng = np.random.default_rng(member)
        values = {name: rows.copy() for name, rows in export.values.items()}
        for name in values:
            rows = rng.choice(len(values[name]), 35, replace=False)
            values[name][rows, 17] += np.float32(size)
            values[name][rows, 201] -= np.float32(size)
        return Export.fix({name: [rows] for name, rows in values.items()}, export.weights)

    return change


def memo_equal(case: Case, healthy: np.ndarray) -> Data:
    """How many candidates have the bits of the healthy run in its own geometry, in every member."""
    batches = range(len(case.predictor.batches))
    env = ordered_environments(graphs_of(case.predictor, batches), case.side.members[0].depth)
    scores = np.stack([memoised_scores(case.predictor, m, batches, env) for m in range(len(healthy))])
    return {"equal": int((scores.view(np.uint32) == healthy.view(np.uint32)).all(axis=0).sum()), "of": healthy.shape[1]}


def validity(case: Case) -> Data:
    """Bounds against exact values, over and over with fresh probes, on healthy exports and on spoiled ones."""
    side = case.side
    env = side.environments(side.stretches[0])
    data = {"row_checks": 0, "row_violations": 0, "score_checks": 0, "score_violations": 0, "spot_checks": 0}
    tightest, scored = np.inf, 0
    for number, member in enumerate(side.members):
        _, healthy = case.suspect(2)(number, side.stretches[0], env)
        for export in (healthy, cancelling(0.01)(healthy, number)):
            layers = row_maps(member, env, export)
            errors = {name: row_errors(export.values[name], layer) for name, layer in layers.items()}
            data["spot_checks"] += spot_checks(export, layers, errors)
            for redraw in range(REDRAWS // 2):
                account = ProbeAccount(ProbePlan(delta=DELTA, rows=5 * export_rows(env, 2)), os.urandom)
                probes = account.draw(export)
                for name, layer in layers.items():
                    eps = check_rows(probes, name, layer, weights=member.weights).eps
                    data["row_checks"] += len(eps)
                    data["row_violations"] += int((eps < errors[name]).sum())
                    tightest = min(tightest, float((eps / np.maximum(errors[name], 1e-300)).min()))
                if redraw < SCORED_REDRAWS // 2:
                    found = member_bounds(member, env, account.draw(export), trusted=2)
                    exact_low, exact_high = case.exact.lower[number], case.exact.upper[number]
                    data["score_checks"] += len(found.lower)
                    data["score_violations"] += int(((found.lower > exact_low) | (found.upper < exact_high)).sum())
                    scored += 1
        note(f"validity, member {number}: {data}")
    return data | {"tightest_bound_over_error": tightest}


def row_maps(member: Any, env: Any, export: Export) -> dict[str, RowMap]:
    """The exact maps of both exported layers, from inputs that stand as numbers."""
    start = env.start_rows.astype(np.float64) @ member.start.W.T + member.start.b
    first, second = env.bonds[1], env.bonds[2]
    inner = start[first.known] + summed(start, first.index) @ member.step.W.T
    features = env.feature_rows.astype(np.float64) @ member.features.W.T + member.features.b
    bond = Term(W=member.step.W, inputs=inner, index=second.index, slope=0.0)
    atom = Term(W=member.message.W, inputs=export.values["a2"], index=env.atoms.index, slope=0.0)
    return {
        "a2": RowMap(terms=(bond,), bias=member.step.b, known=start, known_index=second.known),
        "o": RowMap(terms=(atom,), known=features, known_index=env.atoms.features),
    }


def summed(rows: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rectified rows added up, plainly."""
    padded = np.concatenate([np.maximum(rows.astype(np.float64), 0), np.zeros((1, rows.shape[1]))])
    return sum(padded[index[:, d]] for d in range(index.shape[1]))


def row_errors(y: np.ndarray, layer: RowMap) -> np.ndarray:
    """Row errors in FP64, formed in full: a second implementation, its rounding (1e-13) a millionth of them."""
    term = layer.terms[0]
    exact = layer.known[layer.known_index] + summed(term.inputs, term.index) @ term.W.T
    if layer.bias is not None:
        exact += layer.bias
    return np.linalg.norm(y.astype(np.float64) - exact, axis=1) * (1 - 1e-9)


def spot_checks(export: Export, layers: dict[str, RowMap], errors: dict[str, np.ndarray]) -> int:
    """Some of those row errors again in mpmath with 40 digits. Raises: AssertionError where FP64 was off by 1e-6."""
    rng = np.random.default_rng(1)
    done = 0
    with mpmath.workdps(40):
        for name, layer in layers.items():
            term = layer.terms[0]
            for i in rng.choice(len(errors[name]), SPOTS // 2, replace=False):
                rows = [term.inputs[q].tolist() for q in term.index[i] if q >= 0]
                x = [mpmath.fsum(max(mpmath.mpf(v), 0) for v in column) for column in zip(*rows, strict=True)]
                bias = [0.0] * len(term.W) if layer.bias is None else layer.bias.tolist()
                known = layer.known[layer.known_index[i]].tolist()
                square = mpmath.mpf(0)
                for y, c, b, w in zip(export.values[name][i].tolist(), known, bias, term.W.tolist(), strict=True):
                    square += (y - mpmath.mpf(c) - b - (mpmath.fdot(zip(w, x, strict=True)) if x else 0)) ** 2
                true = mpmath.sqrt(square)
                assert abs(true - errors[name][i]) <= 1e-6 * true, (name, i)
                done += 1
    return done


def timed(case: Case, rounds: int, *, scaled: bool) -> Data:
    """CPU seconds of each way, in interleaved rounds of one process, one thread; and cost by the size of the table."""
    ways: dict[str, Callable[[], Any]] = {
        "forward": case.forward,
        "probes": lambda: case.certify(Wanted(strategy="probes"), case.suspect(2)),
        "probes, 12 draws": lambda: case.certify(Wanted(strategy="probes", draws=12), case.suspect(2)),
        "probes, inputs alone trusted": lambda: case.certify(Wanted(strategy="probes", trusted=1), case.suspect(1)),
        "memo fp32 (C2)": lambda: case.certify(Wanted(kind="C2", strategy="memo"), None),
        "memo fp64 (C1)": lambda: case.certify(Wanted(strategy="memo"), None),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    predicted: dict[str, list[tuple[float, float]]] = {name: [] for name in ways if name != "forward"}
    for number in range(rounds):
        for name, way in ways.items():
            begun = time.process_time()
            result = way()
            seconds[name].append(time.process_time() - begun)
            if name != "forward":
                predicted[name].append((result.predicted, result.spent))
        note(f"round {number + 1}: { {name: round(values[-1], 2) for name, values in seconds.items()} }")
    data = {"rounds": rounds, "seconds": seconds, "predicted_and_spent": predicted, "load": os.getloadavg()[0]}
    return data | {"scale": scale((1_000, 10_000, 100_000) if scaled else (1_000, 10_000))}


def scale(sizes: tuple[int, ...]) -> list[Data]:
    """Cost and memory of certifying larger tables by one member: the table repeated, molecules with a salt added."""
    found = []
    for size in sizes:
        case = Case(_repeated(size), members=1)
        case.side = replace_stretch(case, 2816)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = case.certify(Wanted(strategy="probes", budget=size), case.suspect(2))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found.append(
            {
                "candidates": size,
                "microseconds_per_candidate": 1e6 * result.spent / size,
                "units_recomputed": result.narrowed.units_spent,
                "certified": result.narrowed.certified,
                "peak_growth_mb": (after - before) / 1024,
            }
        )
        note(f"scale: {found[-1]}")
    return found


def replace_stretch(case: Case, stretch: int) -> TrustedSide:
    """The same trusted side in stretches of so many candidates."""
    side = TrustedSide.of(case.predictor, stretch)
    assert isinstance(side, TrustedSide)
    return side


def _table() -> Candidates:
    with herg.herg_table().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Candidates(ids=tuple(row["id"] for row in rows), inputs=tuple(row["smiles"] for row in rows))


def _repeated(size: int) -> Candidates:
    table, salts = _table(), (".Cl", ".Br", ".O", ".[Na+]", ".CO", ".CCO", ".OC(=O)C", ".CS(=O)(=O)O")
    n = len(table.ids)
    inputs = [table.inputs[i % n] + (salts[i // n % len(salts)] if i >= n else "") for i in range(size)]
    return Candidates(ids=tuple(f"m{i:06}" for i in range(size)), inputs=tuple(inputs))


def _earlier() -> Data:
    path = RESULTS / "cheap_certificates.json"
    return json.loads(path.read_text(encoding="utf-8"))["data"] if path.exists() else {}


def claims_of(data: Data) -> list[Claim]:
    """The rows that there are figures for."""
    claims = untimed_claims(data["untimed"]) if "untimed" in data else []
    return claims + (timed_claims(data["timed"]) if "timed" in data else [])


def untimed_claims(data: Data) -> list[Claim]:
    """Units, equal bits, faulty passes, validity."""
    units = data["units"]
    shares = {name: found["units_recomputed"] / units for name, found in data["clean"].items()}
    all_right = all(f["certified"] and f["right"] for f in data["clean"].values())
    worst, best = max(shares.values()), min(shares.values())
    faults, validity_ = data["faults"], data["validity"]
    refused_or_right = all(f["right"] if f["certified"] else True for f in faults.values())
    violations = sum(f["violations"] for f in (*data["clean"].values(), *faults.values()))
    return [
        Claim(
            claim="clean fp32 pass, C1, delta 1e-9: units recomputed to certify both rules",
            measured=f"{100 * best:.2f} (first bond depth trusted), {100 * worst:.2f} (inputs alone trusted)",
            unit=f"% of {units} units",
            bar="<= 0.5; paper: 100",
            met=worst <= 0.005 and all_right,
            detail="; ".join(
                f"{n}: {f['units_recomputed']} units in {f['rounds']} rounds" for n, f in data["clean"].items()
            ),
        ),
        Claim(
            claim="memoised full recomputation, fp32: bits of the run in its own geometry",
            measured=f"{data['memo']['equal']} of {data['memo']['of']}",
            unit="candidates, every member equal",
            bar="all",
            met=data["memo"]["equal"] == data["memo"]["of"],
        ),
        Claim(
            claim="faulty passes certified to the right decisions, or refused",
            measured=f"{sum(f['certified'] and f['right'] for f in faults.values())} of {len(faults)}",
            unit="passes (both classes of faults, cancelling pairs)",
            bar="none certified wrongly",
            met=refused_or_right,
            detail="; ".join(
                f"{n}: {100 * f['units_recomputed'] / units:.2f} % of units recomputed, "
                f"{100 * f['units_with_other_bits'] / units:.2f} % have other bits, "
                f"{'right' if f['right_before'] else 'WRONG'} before"
                for n, f in faults.items()
            ),
        ),
        Claim(
            claim="violations of a row bound or a score bound",
            measured=f"{validity_['row_violations']} in {validity_['row_checks']:.3g}, "
            f"{validity_['score_violations']} in {validity_['score_checks']:.3g}",
            unit="row checks, score bounds",
            bar="0 in 10^7 and 10^5",
            met=validity_["row_violations"] + validity_["score_violations"] + violations == 0
            and validity_["row_checks"] >= 10**7
            and validity_["score_checks"] >= 10**5,
            detail=f"fresh probes each time, healthy and spoiled exports, against FP64; {validity_['spot_checks']} row "
            f"errors again in mpmath; tightest bound {validity_['tightest_bound_over_error']:.2f} times its error",
        ),
    ]


def timed_claims(data: Data) -> list[Claim]:
    """What certifying costs over the forward."""
    label = "" if data["rounds"] >= ROUNDS else "PRELIMINARY, one round on a busy machine; "
    seconds = data["seconds"]
    forward = statistics.median(seconds["forward"])

    def over(name: str) -> float:
        """The median over the rounds of what the way costs beside a forward, where it makes one itself, by that."""
        own = 1.0 if name.startswith("probes") else 0.0
        return statistics.median(w / f - own for w, f in zip(seconds[name], seconds["forward"], strict=True))

    shares = {name: over(name) for name in seconds if name != "forward"}
    pairs = [pair for found in data["predicted_and_spent"].values() for pair in found]
    ratios = sorted(p / s for p, s in pairs)
    scaled = data["scale"]
    costs = [row["microseconds_per_candidate"] for row in scaled]
    return [
        Claim(
            claim="whole cost of certifying a clean fp32 pass, over the forward, end to end",
            measured=f"{100 * shares['probes']:.1f}",
            unit="% of the forward's CPU time",
            bar="<= 15; full recomputation 100+, memoised 20-28",
            met=shares["probes"] <= 0.15 if not label else None,
            detail=f"{label}export, environments, digests, probes, bounds, recomputation, decisions; forward "
            f"{forward:.1f} CPU s; inputs alone trusted {100 * shares['probes, inputs alone trusted']:.1f} %"
            + (f"; 12 draws {100 * shares['probes, 12 draws']:.1f} %" if "probes, 12 draws" in shares else ""),
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
            bar="reported",
            met=None,
            detail=label,
        ),
        Claim(
            claim="cost per candidate from 10^3 to larger tables",
            measured=", ".join(f"{row['candidates']}: {row['microseconds_per_candidate']:.0f}" for row in scaled),
            unit="CPU microseconds a candidate and member",
            bar="flat from 10^3 to 10^5 (within a factor 1.5), memory bounded by the batch",
            met=max(costs) <= 1.5 * min(costs) and scaled[-1]["peak_growth_mb"] < 1000
            if scaled[-1]["candidates"] >= 10**5 and not label
            else None,
            detail=label
            + ", ".join(f"{row['candidates']}: peak grew by {row['peak_growth_mb']:.0f} MB" for row in scaled),
        ),
    ]


if __name__ == "__main__":
    main()
