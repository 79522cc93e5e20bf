"""Claim: re-anchoring pays where the pay-off comes late. Same instances, seeds, evaluator queries with it and without.

Three small campaigns (`benchmarks/delayed`) with workers that search by themselves, restart themselves when they
stagnate, and keep their whole search in the workspace. Without re-anchoring every segment goes on from the live state.
Counted in evaluator queries, so neither the machine nor its load matters. Sizes and targets were chosen on other seeds,
looking at the arm without re-anchoring alone: it had to reach the target in some runs and not in all. A first version
of the evidence policy lost on seeds 1 to 12 (`FIRST_POLICY`); it was changed, and is measured here on seeds of its own.
"""

import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.record import HERE, Claim, note, write
from veristate.research import CampaignHome, CampaignOptions, objective_of, read_task, run_campaign

SEEDS, FIRST_SEED, DRAWS = 12, 101, 10_000
FULL, LIVE = "full engine", "without re-anchoring"
ARMS = {FULL: CampaignOptions(decider="policy"), LIVE: CampaignOptions(decider="none")}
FIRST_POLICY = {  # full engine minus without re-anchoring, mean and 95 % interval: best value, queries to target
    "detour": ("+0.50 [-0.17, +1.08]", "-1.00 [-14.92, +14.75]"),
    "dead_ends": ("-1.08 [-2.08, -0.17]", "-6.67 [-19.08, +3.25]"),
    "late_value": ("-36.67 [-38.75, -34.58]", "+3.00 [+0.33, +7.33]"),
}
LEFT_OUT = "the arm without job control is left out: these workers propose no job, so it would be the full engine again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One campaign, its target and its budget of evaluator queries."""

    kind: str
    what: str
    target: int
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign's outcome: queries to the target (None: never), the best value, and how often it went back."""

    arm: str
    kind: str
    seed: int
    to_target: int | None
    best: int
    queries: int
    segments: int
    restored: int


CAMPAIGNS = (
    Campaign(kind="detour", what="steps to the better look worse first", target=13, queries=80),
    Campaign(kind="dead_ends", what="paths that can't be lengthened", target=22, queries=80),
    Campaign(kind="late_value", what="an early state is worth more than the best one", target=100, queries=96),
)


def main() -> None:
    """Runs both arms on every seed and writes the figures after each one. `--short` takes three seeds."""
    started, seeds = time.time(), range(FIRST_SEED, FIRST_SEED + (3 if "--short" in sys.argv else SEEDS))
    runs: list[Run] = []
    for seed in seeds:
        with ThreadPoolExecutor(len(CAMPAIGNS) * len(ARMS)) as pool:
            runs += pool.map(lambda one: run(*one), [(campaign, arm, seed) for campaign in CAMPAIGNS for arm in ARMS])
        rows = [claim for campaign in CAMPAIGNS for claim in claims(campaign, runs)]
        data: dict[str, Any] = {"campaigns": [asdict(c) for c in CAMPAIGNS], "runs": [asdict(r) for r in runs]}
        write("estra_ablation", rows, data | {"first_policy_seeds_1_to_12": FIRST_POLICY}, started)


def run(campaign: Campaign, arm: str, seed: int) -> Run:
    """One campaign from its start to its target or the end of its queries."""
    options = ARMS[arm]
    with tempfile.TemporaryDirectory(prefix="veristate-ablation-") as above:
        folder = Path(above) / campaign.kind
        shutil.copytree(HERE / "delayed", folder, ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))
        toml = (folder / "task.toml").read_text(encoding="utf-8")
        for name, value in (("KIND", campaign.kind), ("SEED", seed), ("TARGET", campaign.target)):
            toml = toml.replace(name, str(value))
        (folder / "task.toml").write_text(toml.replace("QUERIES", str(campaign.queries)), encoding="utf-8")
        options = CampaignOptions(decider=options.decider, seed=seed)
        standing = run_campaign(CampaignHome(folder=Path(above) / "home"), read_task(folder), options).standing
    worker, objective = standing.workers["w0"], objective_of(standing)
    values = [int(str(card.metric)) for card in worker.cards if card.attempts]
    reached = next((i for i, value in enumerate(values, start=1) if value >= campaign.target), None)
    done = Run(
        arm=arm,
        kind=campaign.kind,
        seed=seed,
        to_target=reached,
        best=int(objective.best(map(str, values)) or 0),
        queries=standing.queries,
        segments=len(worker.segments),
        restored=sum(decided.content["restart"] != "live" for decided in worker.decisions),
    )
    note(f"{campaign.kind}, seed {seed}, {arm}: {done.best}, target at {done.to_target}")
    return done


def claims(campaign: Campaign, runs: list[Run]) -> list[Claim]:
    """The paired differences of one campaign with their intervals: best value, and queries to the target."""
    mine = {(r.arm, r.seed): r for r in runs if r.kind == campaign.kind}
    seeds = sorted({seed for _, seed in mine})
    bests = [mine[FULL, seed].best - mine[LIVE, seed].best for seed in seeds]
    times = [asked(mine[FULL, seed], campaign) - asked(mine[LIVE, seed], campaign) for seed in seeds]
    return [
        _claim(campaign, mine, seeds, bests, "best value", 1, lambda r: float(r.best)),
        _claim(campaign, mine, seeds, times, "queries to target", -1, lambda r: float(asked(r, campaign))),
    ]


def asked(found: Run, campaign: Campaign) -> int:
    """Queries to the target; the whole budget where it was not reached."""
    return found.to_target if found.to_target is not None else campaign.queries


def _claim(campaign: Campaign, mine: Any, seeds: Any, differences: Any, what: str, sign: int, value: Any) -> Claim:
    low, high = interval(differences)
    means = {arm: fmean(value(mine[arm, seed]) for seed in seeds) for arm in ARMS}
    reached = {arm: sum(mine[arm, seed].to_target is not None for seed in seeds) for arm in ARMS}
    return Claim(
        claim=f"{campaign.kind} ({campaign.what}): {what}, full engine minus without re-anchoring",
        measured=f"{fmean(differences):+.2f} [{low:+.2f}, {high:+.2f}]",
        unit="worth" if sign > 0 else "queries",
        bar="better with re-anchoring, 95 % interval clear of 0",
        met=low > 0 if sign > 0 else high < 0,
        detail=f"{means[FULL]:.1f} against {means[LIVE]:.1f}; target {campaign.target} reached in {reached[FULL]} "
        f"against {reached[LIVE]} of {len(seeds)}; {campaign.queries} queries; the first policy, on other seeds: "
        f"{FIRST_POLICY[campaign.kind][0 if sign > 0 else 1]}; {LEFT_OUT}",
    )


def interval(differences: list[int]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of paired differences."""
    draw = random.Random(0)
    means = sorted(fmean(draw.choices(differences, k=len(differences))) for _ in range(DRAWS))
    return means[round(0.025 * DRAWS)], means[round(0.975 * DRAWS) - 1]


if __name__ == "__main__":
    main()
