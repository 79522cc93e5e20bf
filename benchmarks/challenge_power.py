"""Claim: fabrications of the same input are caught with a stated rate of false accusation, in few reruns.

Every rule judges the same trials. Two populations: a synthetic family, which is simulated and not fitted to anybody's
data (6-dimensional outputs, log-normal spread of median .25 and offset of median .40); and, with `--bank FOLDER`,
outputs of the question pipeline's small model (`python -m benchmarks.questions.bank FOLDER`), with fabrications that
take words of the input and run nothing. Plans, calibrations and trials come from different executions; of the bank,
from different questions, and fewer than seven questions a part give no figure.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.questions.bank import saved
from benchmarks.questions.pipeline import STAGES, Question, own_questions, public_questions, retrieve
from benchmarks.record import Claim, note, write
from veristate.attest.challenge import (
    Calibration,
    Distances,
    Finding,
    Plan,
    Wealth,
    calibrate,
    challenge,
    design,
    matched,
    median_distance,
    metric_named,
    rerun_seeds,
    spread_ratio,
)
from veristate.audit import wilson

ALPHA, K, LONGEST = 0.05, 5, 10
DESIGN, CALIBRATION, HONEST, FABRICATED = 60, 200, 2000, 1000
RECORDERS, CHALLENGES = 400, 150
TAU = 0.6  # a fixed threshold as the paper calibrates it once for all executions
Judge = Callable[[Distances], tuple[bool, int]]


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bank", type=Path, default=None)
    options = parser.parse_args()
    started = time.time()
    claims = synthetic_claims()
    if options.bank is not None:
        claims += bank_claims(options.bank)
    write("challenge_power", claims, {"alpha": ALPHA, "k": K, "longest": LONGEST}, started)


# ---- the synthetic family


def synthetic(rng: np.random.Generator, *, offset: bool = False, outputs: int = LONGEST + 1) -> Distances:
    """Distances of one execution's outputs; with `offset` the first is a fabrication of the same input."""
    spread = 0.25 * np.exp(rng.normal(0, 0.4))
    points = rng.normal(0, spread / np.sqrt(12), size=(outputs, 6))
    if offset:
        direction = rng.normal(size=6)
        points[0] += 0.4 * np.exp(rng.normal(0, 0.2)) * direction / np.linalg.norm(direction)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.minimum(apart, 1.0).tolist()


def synthetic_claims() -> list[Claim]:
    """All rules on one set of trials; then many challenges of one recorder."""
    rng = np.random.default_rng(7)
    plan = design([synthetic(rng) for _ in range(DESIGN)], alpha=ALPHA, reruns=LONGEST)
    calibration = calibrate(plan, [synthetic(rng) for _ in range(CALIBRATION)])
    honest = [synthetic(rng) for _ in range(HONEST)]
    fabricated = [synthetic(rng, offset=True) for _ in range(FABRICATED)]
    few = [synthetic(rng) for _ in range(15)]
    claims = []
    for name, judge in rules(plan, calibration, few).items():
        claims.append(rule_claim(f"simulated family: {name}", judge, honest, fabricated, bar=name.startswith("path")))
        note(f"{claims[-1].claim}: {claims[-1].measured}")
    return claims + recorder_claims(rng)


def rules(plan: Plan, calibration: Calibration, few: Sequence[Distances]) -> dict[str, Judge]:
    """What judges a commitment from its distances: whether it is accused, and after how many reruns."""
    constant = matched([median_distance(d, K) for d in few])
    kappa = matched([spread_ratio(d, K, floor=float(plan.spread.floor)) for d in few])
    return {
        f"fixed threshold {TAU} on the median, k = {K}": lambda d: (median_distance(d, K) > TAU, K),
        f"constant matched to zero of {len(few)} honest rejections, k = {K}": lambda d: (
            median_distance(d, K) > constant,
            K,
        ),
        f"per-execution ratio, an approximation of the paper's, zero of {len(few)}, k = {K}": lambda d: (
            spread_ratio(d, K, floor=float(plan.spread.floor)) > kappa,
            K,
        ),
        f"path test, alpha {ALPHA}, up to {plan.reruns} reruns": lambda d: by_path(d, plan, calibration),
    }


def by_path(distances: Distances, plan: Plan, calibration: Calibration) -> tuple[bool, int]:
    """The path test as the package runs it: outputs are stood for by their numbers."""
    answers = iter(range(1, len(distances)))
    judgement = challenge(
        b"0",
        lambda _seed: b"%d" % next(answers),
        rerun_seeds(b"bench", plan.reruns),
        metric=lambda a, b: distances[int(a)][int(b)],
        plan=plan,
        calibration=calibration,
    )
    return judgement.finding is Finding.INCONSISTENT, judgement.reruns


def rule_claim(
    name: str, judge: Judge, honest: Sequence[Distances], fabricated: Sequence[Distances], *, bar: bool
) -> Claim:
    """Power and rate of one rule, each with its Wilson interval."""
    false, true = ([judge(d) for d in trials] for trials in (honest, fabricated))
    caught, accused = sum(hit for hit, _ in true), sum(hit for hit, _ in false)
    mean = np.mean([reruns for _, reruns in (*false, *true)])
    rate = accused / len(honest)
    low, high = wilson(accused, len(honest))
    power_low, power_high = wilson(caught, len(fabricated))
    return Claim(
        claim=f"same-input fabrications caught, {name}",
        measured=f"{caught / len(fabricated):.3f} at {rate:.3f}",
        unit="power at rate of false accusation",
        bar=f"rate <= {ALPHA}, mean reruns <= 4" if bar else "reported",
        met=bool(rate <= ALPHA and mean <= 4) if bar else None,
        detail=(
            f"{caught} of {len(fabricated)} ({power_low:.3f} to {power_high:.3f}), {accused} of {len(honest)} honest "
            f"({low:.4f} to {high:.4f}); {mean:.2f} reruns on average"
        ),
    )


def recorder_claims(rng: np.random.Generator) -> list[Claim]:
    """Many challenges of one recorder: full fabricators, and honest ones watched over all of their challenges."""
    plan = design([synthetic(rng, outputs=K + 1) for _ in range(DESIGN)], alpha=0.01, reruns=K)

    def score(*, offset: bool) -> float:
        distances = synthetic(rng, offset=offset, outputs=K + 1)
        calibrated = calibrate(plan, [distances])
        return float(calibrated.largest[0])

    reference = [score(offset=False) for _ in range(CALIBRATION)]

    def until(*, offset: bool) -> int | None:
        wealth = Wealth(reference)
        for number in range(1, CHALLENGES + 1):
            wealth.add(score(offset=offset), 1 - rng.random())
            if wealth.accuses(0.01):
                return number
        return None

    needed = [until(offset=True) for _ in range(100)]
    found = [number for number in needed if number is not None]
    honest = sum(until(offset=False) is not None for _ in range(RECORDERS))
    middle = float(np.median([n or CHALLENGES + 1 for n in needed]))
    return [
        Claim(
            claim="simulated family: challenges until a full fabricator is accused, alpha .01",
            measured=f"{middle:g}",
            unit=f"challenges of {K} reruns, median",
            bar="<= 5",
            met=middle <= 5,
            detail=f"{len(found)} of {len(needed)} within {CHALLENGES}",
        ),
        Claim(
            claim="simulated family: honest recorders accused, alpha .01",
            measured=str(honest),
            unit=f"of {RECORDERS} recorders over {CHALLENGES} challenges",
            bar="0",
            met=honest == 0,
            detail=f"the bound allows {0.01 * RECORDERS:.0f} on average, for any number of challenges",
        ),
    ]


# ---- the bank


def bank_claims(folder: Path) -> list[Claim]:
    """The same rules over the bank's outputs; questions are split into design, calibration and trials."""
    texts = saved(folder)
    metric = metric_named("tokens")
    rng = random.Random(11)
    groups: dict[str, dict[str, list[bytes]]] = {}
    questions = {q.id: q for q in (*own_questions(), *public_questions())}
    for (question, stage, _number), text in sorted(texts.items()):
        groups.setdefault(question, {}).setdefault(stage, []).append(text.encode())
    usable = [name for name, stages in groups.items() if all(len(stages.get(s, ())) > K for s in STAGES)]
    rng.shuffle(usable)
    third = len(usable) // 3
    parts = usable[:third], usable[third : 2 * third], usable[2 * third :]
    note(f"bank: {len(texts)} outputs, {len(usable)} questions with more than {K} of each stage")
    if third < 7:
        return []
    made = [executions(part, groups, metric, rng, each=3) for part in parts]
    plan = design(list(made[0]), alpha=ALPHA, reruns=K)
    calibration = calibrate(plan, list(made[1]))
    honest = list(executions(parts[2], groups, metric, rng, each=40))
    false = list(executions(parts[2], groups, metric, rng, each=20, made_up=questions))
    judges = rules(plan, calibration, list(made[1])[:15])
    about = f"bank of SmolLM2 outputs, {len(parts[2])} questions in trials"
    return [rule_claim(f"{about}: {name}", judge, honest, false, bar=False) for name, judge in judges.items()]


def executions(
    part: Sequence[str],
    groups: dict[str, dict[str, list[bytes]]],
    metric: Callable[[bytes, bytes], float],
    rng: random.Random,
    *,
    each: int,
    made_up: dict[str, Question] | None = None,
) -> list[Distances]:
    """Executions drawn without replacement from each question's and stage's outputs, the commitment first."""
    found = []
    for name in part:
        for stage in STAGES:
            for _ in range(each):
                outputs = rng.sample(groups[name][stage], K + 1)
                if made_up is not None:
                    outputs[0] = fabricated_output(made_up[name], rng)
                found.append([[metric(a, b) for b in outputs] for a in outputs])
    return found


def fabricated_output(question: Question, rng: random.Random) -> bytes:
    """What a recorder writes who runs no model: words of the retrieved passages, as many as an output has."""
    texts = dict(question.paragraphs)
    words = texts[rng.choice(retrieve(question))].split()
    start = rng.randrange(max(1, len(words) - 12))
    return " ".join(words[start : start + rng.randint(3, 12)]).encode()


if __name__ == "__main__":
    main()
