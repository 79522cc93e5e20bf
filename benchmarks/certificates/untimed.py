"""Units recomputed, equal bits, faulty passes, violations of bounds: everything that no clock decides."""

from typing import Any

import numpy as np

from benchmarks.certificates.case import Case, Data
from benchmarks.certificates.validity import WAYS, cancelling, validity
from benchmarks.record import Claim, note
from veristate.decisions import decide, ensemble_mean
from veristate.devices import fault_named
from veristate.devices.certified import Wanted, graphs_of, memoised_scores, ordered_environments

FAULTS = (("case1", 1), ("case2", 7), ("case2", 3))
RECIPES = {"first bond depth trusted": (2, 16), "inputs alone trusted": (1, 16)}


def untimed(case: Case) -> Data:
    """Everything that no clock decides."""
    healthy = case.forward()
    note("healthy pass done")
    data: Data = {"units": int(healthy.size), "clean": {}, "faults": {}}
    for name, (trusted, draws) in RECIPES.items():
        wanted = Wanted(strategy="probes", trusted=trusted, draws=draws)
        data["clean"][name] = each_way(case, wanted, case.suspect(trusted), healthy)
        note(f"clean, {name}: {data['clean'][name]}")
    data["memo"] = memo_equal(case, healthy)
    note(f"memoised fp32: {data['memo']}")
    planted: dict[str, Any] = {f"{kind} seed {seed}": (fault_named(kind, seed), None) for kind, seed in FAULTS}
    planted |= {f"cancelling pairs of {d} in 70 rows of each member": (None, cancelling(d)) for d in (0.01, 4.0)}
    for name, (fault, change) in planted.items():
        data["faults"][name] = each_way(case, Wanted(strategy="probes"), case.suspect(2, fault, change), healthy)
        note(f"{name}: {data['faults'][name]}")
    data["validity"] = validity(case)
    note(f"validity: {data['validity']}")
    return data


def each_way(case: Case, wanted: Wanted, suspect: Any, healthy: np.ndarray) -> Data:
    """What a pass came to; and the units it takes, of the same run, when wrong rows are left as they are, with the
    further adjoint and without.
    """
    runs: dict[Any, Any] = {}

    def kept(member: int, batches: range, env: Any) -> Any:
        if (member, batches) not in runs:
            runs[member, batches] = suspect(member, batches, env)
        return runs[member, batches]

    found = told(case, case.certify(wanted, kept), healthy)
    for name, limits in (("units_adjoint", {"wrong": np.inf}), ("units_plain", {"wrong": np.inf, "wide": np.inf})):
        other = case.certify(wanted, kept, **limits)
        found[name] = other.narrowed.units_spent
        found["violations"] += case.violations(other.narrowed.box)
        found["right"] = found["right"] and other.narrowed.decisions == case.truth
    return found


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
        "rows_evaluated": found.evaluated // len(case.side.members[0].step.W),
    }


def memo_equal(case: Case, healthy: np.ndarray) -> Data:
    """How many candidates have the bits of the healthy run in its own geometry, in every member."""
    batches = range(len(case.predictor.batches))
    env = ordered_environments(graphs_of(case.predictor, batches), case.side.members[0].depth)
    scores = np.stack([memoised_scores(case.predictor, m, batches, env) for m in range(len(healthy))])
    return {"equal": int((scores.view(np.uint32) == healthy.view(np.uint32)).all(axis=0).sum()), "of": healthy.shape[1]}


def before(found: Data, units: int) -> str:
    """What the fault did to the scores: nothing at all where only exports were changed."""
    if not found["units_with_other_bits"]:
        return "exports alone are wrong, scores untouched"
    share = 100 * found["units_with_other_bits"] / units
    return f"{share:.2f} % have other bits, {'right' if found['right_before'] else 'WRONG'} before"


def untimed_claims(data: Data) -> list[Claim]:
    """Units, equal bits, faulty passes, validity."""
    units = data["units"]
    shares = {name: found["units_recomputed"] / units for name, found in data["clean"].items()}
    all_right = all(f["certified"] and f["right"] for f in data["clean"].values())
    worst, best = max(shares.values()), min(shares.values())
    faults, validity_ = data["faults"], data["validity"]
    refused_or_right = all(f["right"] if f["certified"] else True for f in faults.values())
    violations = sum(f["violations"] for f in (*data["clean"].values(), *faults.values()))
    scored = sum(validity_[f"{way}_checks"] for way in WAYS)
    missed = sum(validity_[f"{way}_violations"] for way in WAYS)
    return [
        Claim(
            claim="clean fp32 pass, C1, delta 1e-9: units recomputed to certify both rules",
            measured=f"{100 * best:.2f} (first bond depth trusted), {100 * worst:.2f} (inputs alone trusted)",
            unit=f"% of {units} units",
            bar="<= 0.5; paper: 100",
            met=worst <= 0.005 and all_right,
            detail="; ".join(
                f"{n}: {f['units_recomputed']} units in {f['rounds']} rounds, {f['units_plain']} without the further "
                f"adjoint, {f['rows_evaluated']} rows evaluated"
                for n, f in data["clean"].items()
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
            unit="passes (both classes of faults; cancelling pairs in exports alone)",
            bar="none certified wrongly",
            met=refused_or_right,
            detail="; ".join(
                f"{n}: {100 * f['units_recomputed'] / units:.2f} % of units recomputed, {before(f, units)}"
                for n, f in faults.items()
            ),
        ),
        Claim(
            claim="units recomputed under those faults: wrong rows evaluated; left as they are, with the further "
            "adjoint (T2) and without (T1)",
            measured="; ".join(
                f"{100 * min(shares):.2f} to {100 * max(shares):.2f}"
                for name in ("units_recomputed", "units_adjoint", "units_plain")
                for shares in [[f[name] / units for f in faults.values()]]
            ),
            unit=f"% of {units} units",
            bar="rows evaluated at most 1 % and no more units than without",
            met=all(
                f["rows_evaluated"] <= 0.01 * f["rows_checked"] and f["units_recomputed"] <= f["units_plain"]
                for f in faults.values()
            ),
            detail="; ".join(
                f"{n}: {f['units_recomputed']}, {f['units_adjoint']}, {f['units_plain']} units, "
                f"{f['rows_evaluated']} of {f['rows_checked']} rows evaluated"
                for n, f in faults.items()
            ),
        ),
        Claim(
            claim="violations of a row bound or a score bound",
            measured=f"{validity_['row_violations']} in {validity_['row_checks']:.3g}, {missed} in {scored:.3g}",
            unit="row checks, score bounds",
            bar="0 in 10^7 and 10^5",
            met=validity_["row_violations"] + missed + violations == 0
            and validity_["row_checks"] >= 10**7
            and scored >= 10**5,
            detail="fresh probes each time, healthy and spoiled exports, against FP64; a third of the scores as a pass "
            "bounds them, a third with wrong rows left as they are, a third of such with the further adjoint for every "
            f"candidate; {validity_['spot_checks']} row errors again in mpmath; tightest bound "
            f"{validity_['tightest_bound_over_error']:.2f} times its error",
        ),
    ]
