"""Claim: a wrong score changes what an agent reads and cites, and putting the reference back undoes it.

Two studies, in `benchmarks/studies/`: a deterministic controller on all 300 claims, and SmolLM2-135M-Instruct, which is
poor at the task, at temperatures 0 and 0.8. Candidates are the scores rounded to BF16 and two classes of simulated
faults; no faulty accelerator was used. The model's study takes hours on a busy machine: it is kept attempt by attempt
in its run folder, and `--as-is` writes the figures of what is there without running anything.

    python -m benchmarks.scifact_study [--model-run FOLDER] [--controller-run FOLDER] [--as-is]
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import HERE, Claim, note, write
from veristate.audit import TopK, wilson
from veristate.audit.design import Condition
from veristate.audit.statistics import Group, Standing
from veristate.audit.study import (
    Bench,
    Ran,
    Series,
    StudyResults,
    StudySpec,
    as_json,
    deciders,
    open_bench,
    read_recorded,
    read_study,
    results_of,
    run_study,
    tables_of,
)
from veristate.audit.study.benches import faulty, reference_at
from veristate.audit.study.running import plan_of
from veristate.audit.study.spec import CaptureSpec
from veristate.audit.tasks import Data, load_task
from veristate.core import EnvironmentUnusableError, utc_now

STUDIES, RUNS = HERE / "studies", HERE.parent / "runs"
SEEDS, STATES = range(1, 17), range(4)
ROWS = {"case1": 1024, "case2": 8}
ENDPOINTS = ("retrieved membership", "retrieved order", "read membership", "cited membership", "verdict membership")
KEPT = ("captures", "tallies", "discordance", "recovery", "replacements", "partings", "same_requests", "metrics")


@dataclass(frozen=True)
class Study:
    """A study that ran, in a folder or as far as it got."""

    spec: StudySpec
    bench: Bench
    ran: Ran
    results: StudyResults
    tables: dict


def main() -> None:
    """Runs or reads the two studies and writes their figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-run", type=Path, default=RUNS / "scifact-model")
    parser.add_argument("--controller-run", type=Path, default=RUNS / "scifact-controller")
    parser.add_argument("--as-is", action="store_true")
    given = parser.parse_args()
    started = time.time()
    try:
        chosen = chosen_captures()
        controller = study("scifact_controller", given.controller_run, as_is=given.as_is)
        model = study("scifact_model", given.model_run, as_is=given.as_is)
    except EnvironmentUnusableError as error:
        note(f"skipped: {error}")
        return
    claims = [
        *controller_claims(controller),
        *[claim for series in model.results.series for claim in arm_claims(series, model)],
        rule_claim(chosen, (controller.spec, model.spec)),
    ]
    data = {
        "captures_by_changed_claims": chosen,
        "controller": figures(controller),
        "model": figures(model),
        "model_groups": [group for series in model.results.series for group in told_groups(series)],
    }
    write("scifact_study", claims, data, started)


def study(name: str, folder: Path, *, as_is: bool) -> Study:
    """One study, run to its end, or as it lies in its folder."""
    spec = read_study(STUDIES / f"{name}.toml")
    with deciders(spec.agent) as make_decider:
        bench = open_bench(spec, Data.from_environment(), make_decider)
        if as_is:
            held = read_recorded(folder)
            ran = Ran(plan=plan_of(spec, bench, held), executed=held, unplanned=0)
        else:
            ran = run_study(
                spec, bench, folder, clock=utc_now, announce=lambda plan: note(f"{name}: {plan.left} to run")
            )
    note(f"{name}: {len(ran.executed)} of {len(ran.plan.executions)} executions")
    results = results_of(spec, ran, bench.endpoints())
    tables = tables_of(bench.captures, results, bench.endpoints())
    return Study(spec=spec, bench=bench, ran=ran, results=results, tables=tables)


def figures(found: Study) -> dict:
    """The tables that the figures are read from."""
    told = as_json(found.spec, found.results, found.tables, complete=found.ran.complete)
    told["tables"] = {name: told["tables"][name] for name in KEPT}
    told["executions"] = [len(found.ran.executed), len(found.ran.plan.executions)]
    return told


def told_groups(series: Series) -> list[dict]:
    """Every group of a model's arm: who counts, and where the candidate and the repeat differ from the reference."""
    return [
        {
            "arm": series.arm,
            "capture": group.capture,
            "claim": group.task,
            "repeat": group.repeat,
            "standing": {name: group.standing(name) for name in ("H1", "H2", "C", "full")},
            "candidate_differs": differing(series, group, Condition.C),
            "repeat_differs": differing(series, group, Condition.H2),
            "restored_differs": differing(series, group, Condition.FULL),
        }
        for group in series.groups
    ]


def differing(series: Series, group: Group, condition: Condition) -> list[str] | None:
    """The endpoints on which a condition differs from H1, None where one of the two does not count."""
    if any(group.standing(name) is not Standing.COUNTED for name in (Condition.H1, condition)):
        return None
    endpoints = [summary.endpoint for summary in series.summaries]
    return [e.name for e in endpoints if e(group.path(condition)) != e(group.path(Condition.H1))]


def chosen_captures() -> dict[str, list[dict]]:
    """For each fault class how many claims retrieve another list under each seed and state, most first."""
    reference = reference_at(load_task("scifact", Data.from_environment()), "scores")
    endpoint = TopK(k=10)
    lists = endpoint(reference.values)
    found: dict[str, list[dict]] = {}
    for fault, rows in ROWS.items():
        made = []
        for seed in SEEDS:
            for state in STATES:
                spec = CaptureSpec(name="x", kind="fault", fault=fault, seed=seed, state=state, rows=rows)
                other = endpoint(faulty(reference.values, spec, "scores"))
                changed = sum(a != b for a, b in zip(lists, other, strict=True))
                made.append({"seed": seed, "state": state, "changed_claims": changed})
        found[fault] = sorted(made, key=lambda one: (-one["changed_claims"], one["seed"], one["state"]))
    return found


def rule_claim(chosen: dict[str, list[dict]], specs: tuple[StudySpec, ...]) -> Claim:
    """Whether the captures of the studies are those that the rule gives."""
    wanted = {fault: [(one["seed"], one["state"]) for one in ranked] for fault, ranked in chosen.items()}
    kept = all(
        (one.seed, one.state) in wanted[one.fault][: 1 if one.fault == "case1" else 2]
        for spec in specs
        for one in spec.captures
        if one.kind == "fault"
    )
    most = {fault: ranked[0]["changed_claims"] for fault, ranked in chosen.items()}
    return Claim(
        claim="captures are those with most changed lists, of 16 seeds in 4 states, chosen before any agent ran",
        measured=f"case1 {most['case1']}, case2 {most['case2']}",
        unit="claims of 300 that retrieve another list",
        bar="reported",
        met=None,
        detail=("the study files name them" if kept else "THE STUDY FILES NAME OTHERS")
        + "; exposure is likely by choice, so no share here says how often a fault matters",
    )


def controller_claims(found: Study) -> list[Claim]:
    """Full restoration, repeats, candidate and selective conditions of the deterministic agent."""
    (series,) = found.results.series
    complete = [g for g in series.groups if all(counted(g, name) for name in ("H1", "H2", "C", "full", "zero"))]
    back = sum(group.path("full") == group.path("H1") for group in complete)
    same = sum(group.path("H1") == group.path("H2") == group.path("zero") for group in complete)
    changed = sum(group.path("C") != group.path("H1") for group in complete)
    total = len(complete)
    claims = [
        Claim(
            claim="controller: full restoration returns the reference's whole path",
            measured=f"{back} of {total}",
            unit=f"complete, exposed groups of {len(series.groups)} (300 claims x {len(found.spec.captures)} captures)",
            bar="100 %",
            met=back == total > 0 and found.ran.complete,
            detail=f"the candidate's path differs in {changed} of them; retrieved, read, cited, actions and verdict",
        ),
        Claim(
            claim="controller: healthy repeat and zero treatment give the reference's whole path",
            measured=f"{same} of {total}",
            unit="groups",
            bar="100 %",
            met=same == total > 0,
        ),
    ]
    return claims + [capture_claim(series, one.name) for one in found.spec.captures]


def capture_claim(series: Series, capture: str) -> Claim:
    """What one capture changed for the controller, and what the selective conditions did about it."""
    groups = [group for group in series.groups if group.capture == capture]
    parts = []
    for summary in series.summaries:
        if summary.endpoint.name in ENDPOINTS:
            differs = sum(differs_on(summary.endpoint, group, "C") for group in groups)
            parts.append(f"{summary.endpoint.name} {differs}")
    changed = [group for group in groups if group.path("C") != group.path("H1")]
    selected = sum(group.path("selected") == group.path("H1") for group in changed)
    transplanted = sum(group.path("transplant") == group.path("C") for group in changed)
    return Claim(
        claim=f"controller under {capture}: claims whose endpoint is not the reference's",
        measured=", ".join(parts),
        unit=f"of {len(groups)} claims; its own repeat 0 on each",
        bar="reported",
        met=None,
        detail=f"{aggregates(series, capture)}; of {len(changed)} changed paths the minimal selection for the list "
        f"restores {selected} whole and transplants {transplanted} whole",
    )


def aggregates(series: Series, capture: str) -> str:
    """The mean of each evaluator's metric over a capture's claims, under the reference and under the candidate."""
    means: dict[str, list[float]] = {}
    for condition in (Condition.H1, Condition.C):
        mine = [done for (key, name), done in series.executed.items() if key[0] == capture and name == condition]
        for metric in dict(mine[0].metrics):
            means.setdefault(metric, []).append(sum(float(dict(done.metrics)[metric]) for done in mine) / len(mine))
    return ", ".join(f"{metric} {h:.4f} to {c:.4f}" for metric, (h, c) in means.items())


def arm_claims(series: Series, found: Study) -> list[Claim]:
    """One arm of the model: how many groups compare, and what differs beside its own repeat noise."""
    temperature = next(arm.temperature for arm in found.spec.arms if arm.name == series.arm)
    pairs = {(group.capture, group.task) for group in series.groups}
    who = f"SmolLM2-135M-Instruct, temperature {temperature:g}"
    tallies = series.summaries[0].tallies
    attempts = sum(t.attempts for t in tallies)
    enough = series.joint >= found.spec.least_groups
    claims = [
        Claim(
            claim=f"{who}: jointly complete, exposed groups",
            measured=f"{series.joint} of {len(series.groups)}",
            unit=f"groups of {len(pairs)} claim-capture pairs",
            bar=f"at least {found.spec.least_groups} groups and 8 pairs",
            met=enough and len(pairs) >= 8,
            detail=f"{attempts} attempts: {sum(t.counted for t in tallies)} counted, "
            f"{sum(t.incomplete for t in tallies)} incomplete, {sum(t.invalid for t in tallies)} invalid, "
            f"{sum(t.unexposed for t in tallies)} unexposed"
            + ("" if enough else "; a failed study")
            + ("" if found.ran.complete else f"; NOT COMPLETE, {progress(found)}"),
        )
    ]
    for summary in series.summaries:
        if summary.endpoint.name not in ENDPOINTS or not series.joint:
            continue
        d = summary.discordance
        interval = summary.crossed_interval
        crossed = "" if interval is None else f"; crossed bootstrap {interval.lower:+.3f} to {interval.upper:+.3f}"
        claims.append(
            Claim(
                claim=f"{who}: {summary.endpoint.name}, candidate / its own repeat against the reference",
                measured=f"{d.candidate} / {d.repeat} of {d.groups}",
                unit=f"groups; Wilson 95 % {shares(d.candidate, d.groups)} / {shares(d.repeat, d.groups)}",
                bar="reported",
                met=None,
                detail=f"excess {d.excess:+.3f}{crossed}; full restoration differs in {summary.restored} of {d.groups}",
            )
        )
    return claims


def progress(found: Study) -> str:
    """How many executions are finished."""
    return f"{len(found.ran.executed)} of {len(found.ran.plan.executions)} executions"


def counted(group: Group, condition: str) -> bool:
    """Whether a condition counts."""
    return group.standing(condition) is Standing.COUNTED


def differs_on(endpoint: object, group: Group, condition: str) -> bool:
    """Whether a condition's endpoint is not H1's."""
    return endpoint(group.path(condition)) != endpoint(group.path("H1"))


def shares(part: int, whole: int) -> str:
    """A Wilson interval in percent."""
    lower, upper = wilson(part, whole)
    return f"{100 * lower:.1f} to {100 * upper:.1f} %"


if __name__ == "__main__":
    main()
