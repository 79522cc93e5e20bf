"""Bounds of rows and scores against exact values, again and again with fresh probes, healthy exports and spoiled."""

import os
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from benchmarks.certificates.case import Case, Data
from benchmarks.record import note
from veristate.devices.certified import export_rows, member_bounds
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, RowMap, Term, check_rows

REDRAWS, SCORED_REDRAWS, SPOTS = 36, 8, 12
DELTA = "1e-9"
# Bounds as a pass takes them; of exports as they are, wrong rows too, and of these with the further adjoint everywhere.
WAYS: dict[str, dict[str, float]] = {
    "score": {},
    "plain_score": {"wide": np.inf, "wrong": np.inf},
    "adjoint_score": {"wide": 0.0, "wrong": np.inf},
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


def validity(case: Case) -> Data:
    """Bounds against exact values, over and over with fresh probes, on healthy exports and on spoiled ones."""
    side = case.side
    env = side.environments(side.exported[0])
    counted = [f"{name}_{what}" for name in ("row", *WAYS) for what in ("checks", "violations")]
    data = dict.fromkeys((*counted, "spot_checks"), 0)
    tightest = np.inf
    for number, member in enumerate(side.members):
        _, healthy = case.suspect(2)(number, side.exported[0], env)
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
                    for kind, limits in WAYS.items():
                        found = member_bounds(member, env, account.draw(export), trusted=2, **limits)
                        missed = (found.lower > case.exact.lower[number]) | (found.upper < case.exact.upper[number])
                        data[f"{kind}_checks"] += len(found.lower)
                        data[f"{kind}_violations"] += int(missed.sum())
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
