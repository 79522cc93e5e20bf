"""Trials drawn from the bank's distances: the rules on the same executions, calibrated on other questions.

The guarantee of a calibration is over questions: one execution of each calibration question is exchangeable with one
of a question that is judged, several of one question are not with those of others. So a calibration has one execution
of each of its questions, drawn by itself, every stage its own; and since one split of the questions is a lottery, a
figure is the mean over many splits, its interval a bootstrap over the questions judged.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.questions.distances import Cell
from benchmarks.questions.fabrications import KINDS
from benchmarks.questions.rules import K, rules
from veristate.attest.challenge import Distances, Plan, calibrate, design, path_of

HONEST = "honest"
ALPHA = 0.05
FEWEST = 19  # questions that alpha .05 needs to calibrate with
CELL_EXECUTIONS = 60  # of each design cell
WEIGHTS = (2.0, 100.0)  # of the prior spread: every question has its own, or all have one
BOOTSTRAPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the questions that can be judged: the metric and the plan that the design chose, and the cells."""

    metric: str
    plan: Plan
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a rule said of one kind of executions: by question the trials, those accused, and the reruns of all."""

    trials: Mapping[str, int]
    accused: Mapping[str, int]
    reruns: int

    @classmethod
    def of(cls, rows: Iterable[tuple[str, bool, int]]) -> "Tally":
        """From question, whether it was accused, and reruns of each trial."""
        count, accused, reruns = Counter[str](), Counter[str](), 0
        for question, hit, used in rows:
            count[question] += 1
            accused[question] += hit
            reruns += used
        return cls(trials=count, accused=accused, reruns=reruns)

    @property
    def count(self) -> int:
        """All trials."""
        return sum(self.trials.values())

    @property
    def rate(self) -> float:
        """The share of the trials that were accused."""
        return sum(self.accused.values()) / self.count

    def interval(self, *, level: float = 0.95, seed: int = 5) -> tuple[float, float]:
        """Of the rate, from questions drawn with replacement."""
        trials = np.array(list(self.trials.values()))
        accused = np.array([self.accused[name] for name in self.trials])
        drawn = np.random.default_rng(seed).integers(0, len(trials), size=(BOOTSTRAPS, len(trials)))
        rates = accused[drawn].sum(axis=1) / trials[drawn].sum(axis=1)
        low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def executions(cell: Cell, metric: str, chance: random.Random, *, kind: str = HONEST) -> Distances:
    """One execution drawn without replacement: the commitment first, honest or a fabrication of that kind."""
    if kind == HONEST:
        return cell.execution(metric, chance.sample(range(cell.honest), K + 1))
    number = chance.choice([n for n, made in enumerate(cell.kinds) if made == kind])
    others = [place for place in range(cell.honest) if place != cell.made_from[number]]
    return cell.execution(metric, [cell.honest + number, *chance.sample(others, K)])


def design_power(cells: Sequence[Cell], metric: str, weight: float, *, seed: int = 6) -> float:
    """How many fabrications of all kinds the path test would catch on the design's own questions, each kind as much."""
    chance = random.Random(seed)
    drawn = [executions(cell, metric, chance) for cell in cells for _ in range(CELL_EXECUTIONS)]
    plan = design(drawn, alpha=ALPHA, reruns=K, weight=weight)
    critical = float(np.quantile([largest(plan, execution) for execution in drawn], 1 - ALPHA))
    found = [
        largest(plan, executions(cell, metric, chance, kind=kind)) > critical
        for kind in KINDS
        for cell in cells
        for _ in range(CELL_EXECUTIONS)
    ]
    return float(np.mean(found))


def largest(plan: Plan, execution: Distances) -> float:
    """M_K of an execution."""
    return plan.running(path_of(execution, plan.spread))[-1]


def stage_of(cells: Sequence[Cell], stage: str, *, metric: str | None = None, seed: int = 2) -> Stage:
    """A stage, its design made from the questions written for this repository, its trials from the public ones.

    The weight of the prior spread is the one with most power on the design's questions, and so is the metric where none
    is named.
    """
    usable = [cell for cell in cells if cell.stage == stage and cell.honest > K + 1]
    own = [cell for cell in usable if cell.question.startswith("own-")]
    chance = random.Random(f"{seed}/{stage}")
    named = [metric] if metric else list(own[0].distances)
    chosen, weight = max(product(named, WEIGHTS), key=lambda pair: design_power(own, *pair))
    drawn = [executions(cell, chosen, chance) for cell in own for _ in range(CELL_EXECUTIONS)]
    return Stage(
        metric=chosen,
        plan=design(drawn, alpha=ALPHA, reruns=K, weight=weight),
        cells=tuple(cell for cell in usable if cell not in own),
    )


def split(stage: Stage, chance: random.Random) -> tuple[list[Distances], list[Cell]]:
    """One execution of each of two thirds of the questions, to calibrate with; the cells of the others, to judge."""
    cells = chance.sample(stage.cells, len(stage.cells))
    first = max(FEWEST, 2 * len(cells) // 3)
    return [executions(cell, stage.metric, chance) for cell in cells[:first]], cells[first:]


def detectable(stage: Stage, *, splits: int = 20, seed: int = 4) -> float | None:
    """The middle of the least offsets found with power 0.8, over calibrations by different questions."""
    chance = random.Random(seed)
    found = [calibrate(stage.plan, split(stage, chance)[0]).detectable for _ in range(splits)]
    middle = sorted(2.0 if offset is None else float(offset) for offset in found)[splits // 2]
    return middle if middle <= 1 else None


def trials(stages: Sequence[Stage], *, splits: int, each: int, seed: int = 1) -> dict[str, dict[str, Tally]]:
    """What each rule said of each kind: `each` executions of a kind for each question judged, in every split."""
    told: dict[str, dict[str, list[tuple[str, bool, int]]]] = defaultdict(lambda: defaultdict(list))
    chance = random.Random(seed)
    for stage in stages:
        for _ in range(splits):
            calibration, judged = split(stage, chance)
            judges = rules(stage.plan, calibrate(stage.plan, calibration), calibration[:15])
            for question, kind, execution in _drawn(stage, judged, chance, each):
                for name, judge in judges.items():
                    told[name][kind].append((question, *judge(execution)))
    return {name: {kind: Tally.of(rows) for kind, rows in kinds.items()} for name, kinds in told.items()}


def _drawn(
    stage: Stage, cells: Sequence[Cell], chance: random.Random, each: int
) -> Iterator[tuple[str, str, Distances]]:
    for cell in cells:
        for kind in (HONEST, *KINDS):
            for _ in range(each):
                yield cell.question, kind, executions(cell, stage.metric, chance, kind=kind)
