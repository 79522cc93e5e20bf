"""Claim: re-anchoring and job control pay where the pay-off comes late. Same instances, seeds and budgets with and
without.

Re-anchoring: three small campaigns (`benchmarks/delayed`), each with two kinds of workers. One kind restarts itself
when it stagnates, the other climbs until it can't and ends its segment, as an agent that is out of ideas does. All keep
their whole search in the workspace. Without re-anchoring every segment goes on from the live state. Counted in
evaluator queries, so neither the machine nor its load matters. Sizes and targets were chosen on other seeds, those of
the first kind by the arm without re-anchoring alone: it had to reach the target in some runs and not in all. Three
earlier policies lost with it (`EARLIER`): they disturbed a worker that was still searching. The one measured here, on
seeds of its own, leaves such a worker alone.

Job control: six configurations train in long jobs that share one machine, for less time than all of them need. With job
control the worker proposes all of them for a short while each and then the best again; without it its proposals are
refused, and it starts processes of its own: one after the other to their ends, or all at once. Counted in seconds that
the jobs themselves keep by sleeping; the evaluator's queries are limited too.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.delayed.landscapes import ONSETS, reachable
from benchmarks.record import HERE, RESULTS, Claim, note, write
from veristate.research import CampaignHome, CampaignOptions, objective_of, read_task, run_campaign

SEEDS, FIRST_SEED, DRAWS = 12, 301, 10_000
FULL, LIVE = "full engine", "without re-anchoring"
IN_TURN, AT_ONCE = "without job control, one after the other", "without job control, all at once"
ARMS = {
    FULL: CampaignOptions(decider="policy"),
    LIVE: CampaignOptions(decider="none"),
    IN_TURN: CampaignOptions(jobs=False),
    AT_ONCE: CampaignOptions(jobs=False),
}
HOW = {FULL: "jobs", LIVE: "jobs", IN_TURN: "in turn", AT_ONCE: "at once"}
EARLIER = {  # full engine minus without re-anchoring on other seeds: three earlier policies, the third with turns told
    "detour": {
        "best": "+0.50 [-0.17, +1.08], -0.83 [-1.58, -0.08], -0.75 [-1.25, -0.25]",
        "queries": "-1.00, +8.50, +10.17",
    },
    "dead_ends": {
        "best": "-1.08 [-2.08, -0.17], -0.08 [-0.75, +0.67], +0.25 [-0.42, +1.00]",
        "queries": "-6.67, +3.25, -2.00",
    },
    "late_value": {
        "best": "-36.67 [-38.75, -34.58], -37.08 [-38.75, -35.00], -18.33 [-28.33, -7.92]",
        "queries": "+3.00, +0.92, -0.58",
    },
}
NEAR = 0.9  # of the best there is: what long jobs are timed to


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One campaign: its target and its budgets of evaluator queries and seconds, what the full engine is compared with,
    how many results a segment has, whether its worker is a plain one. A target of 0
    is that of the instance.
    """

    kind: str
    what: str
    target: int
    queries: int
    against: tuple[str, ...] = (LIVE,)
    stages: int = 6
    wall_s: float | None = None
    plain: bool = False

    @property
    def name(self) -> str:
        """What its runs are filed under."""
        return f"plain_{self.kind}" if self.plain else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign's outcome: queries to the target (None: never), the best value, how often it went back. Of long jobs
    the seconds to `NEAR` of the best there is, and how many of them were extended or stopped.
    """

    arm: str
    kind: str
    seed: int
    to_target: int | None
    best: int
    queries: int
    segments: int
    restored: int
    near_s: float | None = None
    extended: int = 0
    stopped: int = 0


def _plain(kind: str, what: str, target: int, queries: int) -> Campaign:
    return Campaign(kind=kind, what=what, target=target, queries=queries, stages=12, plain=True)


def _jobs(kind: str, what: str, wall_s: float) -> Campaign:
    return Campaign(kind=kind, what=what, target=0, queries=200, against=(IN_TURN, AT_ONCE), stages=1000, wall_s=wall_s)


CAMPAIGNS = (
    Campaign(kind="detour", what="steps to the better look worse first", target=13, queries=80),
    Campaign(kind="dead_ends", what="paths that can't be lengthened", target=22, queries=80),
    Campaign(kind="late_value", what="an early state is worth more than the best one", target=100, queries=96),
    _plain("detour", "steps to the better look worse first", 13, 96),
    _plain("dead_ends", "paths that can't be lengthened", 22, 96),
    _plain("late_value", "an early state is worth more than the best one", 100, 144),
    _jobs("long_jobs", "six trainings, time for four, their beginnings tell little", 48.0),
    _jobs("early_signs", "six trainings, time for three, their beginnings tell something", 36.0),
    _jobs("stalls", "six trainings, time for four, two of them hang", 48.0),
)


def main() -> None:
    """Runs the arms on every seed and writes the figures after each one. `--short` takes three seeds; `--only KIND`
    keeps what the last results say of the other campaigns.
    """
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--short", action="store_true")
    options.add_argument("--only", nargs="+", choices=[campaign.name for campaign in CAMPAIGNS])
    options.add_argument("--first-seed", type=int, default=FIRST_SEED)
    given = options.parse_args()
    started, seeds = time.time(), range(given.first_seed, given.first_seed + (3 if given.short else SEEDS))
    todo = [campaign for campaign in CAMPAIGNS if given.only is None or campaign.name in given.only]
    runs = [run for run in recorded() if given.only is not None and run.kind not in given.only]
    for seed in seeds:
        each = [(campaign, arm, seed) for campaign in todo for arm in (FULL, *campaign.against)]
        with ThreadPoolExecutor(len(each)) as pool:
            runs += pool.map(lambda one: run(*one), each)
        rows = [claim for campaign in CAMPAIGNS for claim in claims(campaign, runs)]
        data: dict[str, Any] = {"campaigns": [asdict(c) for c in CAMPAIGNS], "runs": [asdict(r) for r in runs]}
        write("estra_ablation", rows, data | {"earlier": EARLIER}, started)


def recorded() -> list[Run]:
    """The runs of the last results."""
    path = RESULTS / "estra_ablation.json"
    return [Run(**run) for run in json.loads(path.read_text())["data"]["runs"]] if path.is_file() else []


def run(campaign: Campaign, arm: str, seed: int) -> Run:
    """One campaign from its start to its target or the end of its budget."""
    best_end = reachable(campaign.kind, seed) if campaign.kind in ONSETS else 0
    target = campaign.target or best_end
    with tempfile.TemporaryDirectory(prefix="veristate-ablation-") as above:
        folder = Path(above) / campaign.kind
        shutil.copytree(HERE / "delayed", folder, ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))
        toml = (folder / "task.toml").read_text(encoding="utf-8")
        fixed = {
            "KIND": campaign.kind,
            "SEED": seed,
            "TARGET": target,
            "HOW": "plain" if campaign.plain else HOW[arm],
            "STAGES": campaign.stages,
        }
        for name, value in (fixed | {"QUERIES": campaign.queries}).items():
            toml = toml.replace(name, str(value))
        (folder / "task.toml").write_text(toml, encoding="utf-8")
        options = replace(ARMS[arm], seed=seed, wall_s=campaign.wall_s)
        standing = run_campaign(CampaignHome(folder=Path(above) / "home"), read_task(folder), options).standing
    worker, objective = standing.workers["w0"], objective_of(standing)
    judged = [card for card in worker.cards if card.attempts and card.metric is not None]
    values = [int(str(card.metric)) for card in judged]
    states = [change["state"] for change in standing.jobs]
    done = Run(
        arm=arm,
        kind=campaign.name,
        seed=seed,
        to_target=next((i for i, value in enumerate(values, start=1) if value >= target), None),
        best=int(objective.best(map(str, values)) or 0),
        queries=standing.queries,
        segments=len(worker.segments),
        restored=sum(decided.content["restart"] != "live" for decided in worker.decisions),
        near_s=next((float(card.spent_s) for card in judged if int(str(card.metric)) >= NEAR * best_end), None),
        extended=states.count("extended"),
        stopped=states.count("stopped"),
    )
    note(f"{campaign.name}, seed {seed}, {arm}: {done.best} of {target}, {done.near_s} s, {done.extended} extended")
    return done


def claims(campaign: Campaign, runs: list[Run]) -> list[Claim]:
    """The paired differences of one campaign with their intervals: best value, and queries or seconds to the target."""
    mine = {(r.arm, r.seed): r for r in runs if r.kind == campaign.name}
    rows = []
    for arm in campaign.against if mine else ():
        rows.append(_claim(campaign, mine, arm, "best value", 1, lambda r: float(r.best)))
        rows.append(_claim(campaign, mine, arm, *_time_of(campaign)))
    return rows


def _time_of(campaign: Campaign) -> tuple[str, int, Callable[[Run], float]]:
    """What is compared beside the best value: queries or seconds; the whole budget where it was not reached."""
    limit = campaign.wall_s
    if limit is not None:
        return f"seconds to {NEAR:.0%} of the best there is", -1, lambda r: r.near_s if r.near_s is not None else limit
    return "queries to target", -1, lambda r: float(r.to_target if r.to_target is not None else campaign.queries)


def _claim(
    campaign: Campaign,
    mine: Mapping[tuple[str, int], Run],
    arm: str,
    what: str,
    sign: int,
    value: Callable[[Run], float],
) -> Claim:
    seeds = sorted({seed for name, seed in mine if name == FULL} & {seed for name, seed in mine if name == arm})
    differences = [value(mine[FULL, seed]) - value(mine[arm, seed]) for seed in seeds]
    low, high = interval(differences)
    means = [fmean(value(mine[each, seed]) for seed in seeds) for each in (FULL, arm)]
    timed = campaign.wall_s is not None
    reached = [
        sum((r.near_s if timed else r.to_target) is not None for seed in seeds for r in [mine[each, seed]])
        for each in (FULL, arm)
    ]
    goal = f"{NEAR:.0%} of the best there is" if timed else f"target {campaign.target}"
    detail = (
        f"{means[0]:.1f} against {means[1]:.1f}; {goal} reached in {reached[0]} against {reached[1]} of {len(seeds)}"
    )
    if timed:
        extended, stopped = (sum(getattr(mine[FULL, seed], name) for seed in seeds) for name in ("extended", "stopped"))
        detail += f"; {campaign.wall_s:g} s; {extended} jobs extended, {stopped} stopped"
    else:
        detail += f"; {campaign.queries} queries"
        if not campaign.plain:
            detail += f"; earlier, on other seeds: {EARLIER[campaign.kind]['best' if sign > 0 else 'queries']}"
        detail += "; these workers propose no job: without job control it would be the full engine again"
    return Claim(
        claim=f"{campaign.name} ({campaign.what}): {what}, {FULL} minus {arm}",
        measured=f"{fmean(differences):+.2f} [{low:+.2f}, {high:+.2f}]",
        unit="worth" if sign > 0 else "s" if timed else "queries",
        bar="better with it, 95 % interval clear of 0",
        met=low > 0 if sign > 0 else high < 0,
        detail=detail,
    )


def interval(differences: list[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of paired differences."""
    draw = random.Random(0)
    means = sorted(fmean(draw.choices(differences, k=len(differences))) for _ in range(DRAWS))
    return means[round(0.025 * DRAWS)], means[round(0.975 * DRAWS) - 1]


if __name__ == "__main__":
    main()
