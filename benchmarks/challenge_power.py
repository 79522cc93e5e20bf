"""Claim: fabrications of the same input are caught with a stated rate of false accusation, in few reruns.

Every rule judges the same trials. Three populations, and each row says which: a synthetic family, which is simulated;
the bank of the small model's outputs, of which the distances are kept (`python -m benchmarks.questions.bank FOLDER`
makes outputs, `python -m benchmarks.questions.distances FOLDER` keeps the distances); and recorders and challengers of
the three-stage pipeline in processes that are killed, whose outputs are drawn without a model.
"""

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.questions.distances import Cell, kept
from benchmarks.questions.fabrications import KINDS
from benchmarks.questions.pipeline import SAMPLED
from benchmarks.questions.processes import kind_claims
from benchmarks.questions.rules import PATH, K, rules
from benchmarks.questions.synthetic import synthetic
from benchmarks.questions.trials import (
    ALPHA,
    HONEST,
    Stage,
    Tally,
    detectable,
    executions,
    largest,
    split,
    stage_of,
    trials,
)
from benchmarks.questions.watched import CHALLENGES, RECORDERS, Score, Watched, watch
from benchmarks.record import Claim, note, write
from veristate.attest.challenge import calibrate, design

LONGEST, DESIGN, CALIBRATION, HONEST_TRIALS, FABRICATED_TRIALS = 10, 60, 200, 2000, 1000
ANCHOR = 19 / 29  # what the paper's per-execution threshold caught at k = 5
SPLITS, EACH = 60, 2  # of the bank's questions; executions of a kind for each question judged in a split
FEWEST = 25  # public questions: 19 of them calibrate

BOUND = f"the bound allows {0.01 * RECORDERS:.0f} on average, for any number of challenges"
NO_BOUND = "no bound: a question is challenged many times, which is not exchangeable with the reference"


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="of each kind of recorder")
    options = parser.parse_args()
    started = time.time()
    with ThreadPoolExecutor(max_workers=1) as pool:
        kinds = pool.submit(kind_claims, runs=options.runs)  # which wait for their processes
        claims = [*synthetic_claims(), *bank_claims(kept()), *kinds.result()]
    write("challenge_power", claims, {"alpha": ALPHA, "k": K, "longest": LONGEST, "splits": SPLITS}, started)


def synthetic_claims() -> list[Claim]:
    """All rules on one set of trials; then many challenges of one recorder."""
    rng = np.random.default_rng(7)
    longest = LONGEST + 1
    plan = design([synthetic(rng, outputs=longest) for _ in range(DESIGN)], alpha=ALPHA, reruns=LONGEST)
    calibration = calibrate(plan, [synthetic(rng, outputs=longest) for _ in range(CALIBRATION)])
    made = {
        HONEST: [synthetic(rng, outputs=longest) for _ in range(HONEST_TRIALS)],
        "simulated": [synthetic(rng, outputs=longest, offset=True) for _ in range(FABRICATED_TRIALS)],
    }
    few = [synthetic(rng, outputs=longest) for _ in range(15)]
    claims = []
    for name, judge in rules(plan, calibration, few).items():
        # Every execution is an input of its own here: a cluster of one.
        tallies = {
            kind: Tally.of((str(place), *judge(d)) for place, d in enumerate(some)) for kind, some in made.items()
        }
        claims.append(rule_claim(f"simulated family: {name}", tallies, "simulated", bar=name.startswith(PATH)))
    short = design([synthetic(rng, outputs=K + 1) for _ in range(DESIGN)], alpha=0.01, reruns=K)

    def score(fabricates: bool) -> float:
        return largest(short, synthetic(rng, outputs=K + 1, offset=fabricates))

    reference = [score(False) for _ in range(CALIBRATION)]
    return claims + watched_claims("simulated family", watch(lambda: (reference, score), rng), BOUND)


def bank_claims(cells: Sequence[Cell]) -> list[Claim]:
    """The rules over the bank, each kind of fabrication its own row; then recorders who are challenged many times; then
    the same for who has no model and compares words alone.
    """
    stages = [stage_of(cells, name) for name in SAMPLED] if cells else []
    questions = min((len(stage.cells) for stage in stages), default=0)
    if questions < FEWEST:
        note(f"bank: {questions} public questions with more than {K + 1} outputs a stage; {FEWEST} are needed")
        return []
    outputs = [cell.honest for stage in stages for cell in stage.cells]
    about = f"bank, {questions} questions, {min(outputs)} outputs a stage or more"
    claims = compared(f"{about}, {metrics_of(stages)}", stages, bar=True)
    chance = random.Random(13)
    watched = watch(lambda: bank_recorder(stages, chance), np.random.default_rng(3))
    claims += watched_claims(f"{about}, {metrics_of(stages)}", watched, NO_BOUND)
    without = [stage_of(cells, name, metric="tokens") for name in SAMPLED]
    return claims + compared(f"{about}, {metrics_of(without)}", without, bar=False)


def metrics_of(stages: Sequence[Stage]) -> str:
    """The metrics of the stages, in words."""
    return " and ".join(dict.fromkeys(stage.metric for stage in stages)) + " metric"


def compared(about: str, stages: Sequence[Stage], *, bar: bool) -> list[Claim]:
    """All rules on the same trials, and what the path test says of each kind; the bar is for the first of them."""
    claims = []
    for name, tallies in trials(stages, splits=SPLITS, each=EACH).items():
        is_path = name.startswith(PATH)
        for kind in KINDS if is_path else KINDS[:1]:
            claims.append(rule_claim(f"{about}: {name}", tallies, kind, bar=bar and is_path and kind == KINDS[0]))
    return [*claims, detectable_claim(about, stages)]


def rule_claim(name: str, tallies: Mapping[str, Tally], kind: str, *, bar: bool) -> Claim:
    """Power and rate of one rule, the intervals from questions drawn with replacement."""
    false, true = tallies[HONEST], tallies[kind]
    mean = (false.reruns + true.reruns) / (false.count + true.count)
    (low, high), (power_low, power_high) = false.interval(), true.interval()
    claim = Claim(
        claim=f"same-input fabrications caught ({kind}), {name}",
        measured=f"{true.rate:.3f} at {false.rate:.3f}",
        unit="power at rate of false accusation",
        bar=f"above {ANCHOR:.3f} at <= {ALPHA}, mean reruns <= 4" if bar else "reported",
        met=bool(true.rate > ANCHOR and false.rate <= ALPHA and mean <= 4) if bar else None,
        detail=(
            f"{sum(true.accused.values())} of {true.count} ({power_low:.3f} to {power_high:.3f}), "
            f"{sum(false.accused.values())} of {false.count} honest ({low:.4f} to {high:.4f}), over "
            f"{len(false.trials)} inputs; {mean:.2f} reruns on average"
        ),
    )
    note(f"{claim.claim}: {claim.measured}: {claim.detail}")
    return claim


def bank_recorder(stages: Sequence[Stage], chance: random.Random) -> tuple[list[float], Score]:
    """A recorder of some questions and stages, judged by one execution of each of the other questions and stages."""
    parts = [(stage, *split(stage, chance)) for stage in stages]
    reference = [largest(stage.plan, execution) for stage, calibration, _ in parts for execution in calibration]

    def score(fabricates: bool) -> float:
        stage, _, judged = chance.choice(parts)
        kind = KINDS[0] if fabricates else HONEST
        return largest(stage.plan, executions(chance.choice(judged), stage.metric, chance, kind=kind))

    return reference, score


def detectable_claim(about: str, stages: Sequence[Stage]) -> Claim:
    """The least offset of all distances that is found with power 0.8, stage by stage."""
    found = [detectable(stage) for stage in stages]
    spreads = [float(stage.plan.spread.prior) for stage in stages]
    return Claim(
        claim=f"smallest fabrication found with power 0.8 at alpha {ALPHA}, {about}",
        measured=" and ".join("none" if offset is None else f"{offset:.2f}" for offset in found),
        unit="added to every distance, of at most 1; reading and answering",
        bar="reported",
        met=None,
        detail="honest outputs lie " + " and ".join(f"{spread:.2f}" for spread in spreads) + " from each other",
    )


def watched_claims(about: str, watched: Watched, allowed: str) -> list[Claim]:
    """Fabricators of every step, and honest recorders watched over all of their challenges."""
    claims = [
        Claim(
            claim=f"{about}: challenges until a full fabricator is accused, alpha .01",
            measured=f"{watched.middle:g}" if watched.middle <= CHALLENGES else f"more than {CHALLENGES}",
            unit=f"challenges of {K} reruns, median",
            bar="<= 5",
            met=watched.middle <= 5,
            detail=f"{watched.found} of {len(watched.needed)} within {CHALLENGES}",
        ),
        Claim(
            claim=f"{about}: honest recorders accused, alpha .01",
            measured=str(watched.accused),
            unit=f"of {RECORDERS} recorders over {CHALLENGES} challenges",
            bar="0",
            met=watched.accused == 0,
            detail=allowed,
        ),
    ]
    for claim in claims:
        note(f"{claim.claim}: {claim.measured}: {claim.detail}")
    return claims


if __name__ == "__main__":
    main()
