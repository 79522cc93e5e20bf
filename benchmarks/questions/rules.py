"""The rules that are compared: each says of an execution's distances whether it is accused, after how many reruns."""

from collections.abc import Callable, Sequence

from veristate.attest.challenge import (
    Calibration,
    Distances,
    Finding,
    Plan,
    challenge,
    matched,
    median_distance,
    rerun_seeds,
    spread_ratio,
)

K = 5
TAU = 0.6  # a fixed threshold as the paper calibrates it once for all executions
PATH = "path test"
Judge = Callable[[Distances], tuple[bool, int]]


def rules(plan: Plan, calibration: Calibration, few: Sequence[Distances]) -> dict[str, Judge]:
    """The paper's three with k = K, two of them matched to `few` honest executions; and the path test."""
    floor = float(plan.spread.floor)
    constant = matched([median_distance(d, K) for d in few])
    kappa = matched([spread_ratio(d, K, floor=floor) for d in few])
    return {
        f"fixed threshold {TAU} on the median, k = {K}": lambda d: (median_distance(d, K) > TAU, K),
        f"constant matched to zero of {len(few)} honest rejections, k = {K}": lambda d: (
            median_distance(d, K) > constant,
            K,
        ),
        f"per-execution ratio, an approximation of the paper's, zero of {len(few)}, k = {K}": lambda d: (
            spread_ratio(d, K, floor=floor) > kappa,
            K,
        ),
        f"{PATH}, alpha {plan.alpha}, up to {plan.reruns} reruns": lambda d: by_path(d, plan, calibration),
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
