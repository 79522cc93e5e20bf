"""Challenges: the bound on false accusation as a law, every verdict, and what many challenges add up to."""

import json
import math
import random
from fractions import Fraction
from functools import reduce
from operator import add
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.attest.challenge import (
    Calibration,
    Evidence,
    Finding,
    Plan,
    Spread,
    Wealth,
    calibrate,
    challenge,
    challenge_seed,
    chosen,
    design,
    detectable_offset,
    matched,
    median_distance,
    metric_named,
    path_of,
    rerun_number,
    rerun_seeds,
    spread_ratio,
    tie_of,
)
from veristate.core import InputError, TamperError

RERUNS = 6


def outputs(rng: random.Random, count: int = RERUNS + 1, *, at: float = 0.0) -> list[float]:
    """Outputs of one honest execution on the line, its own spread log-normal; the first lies `at` away."""
    spread = math.exp(rng.gauss(-2.5, 0.4))
    found = [rng.gauss(0.5, spread) for _ in range(count)]
    return [found[0] + at, *found[1:]]


def apart(a: float, b: float) -> float:
    """A bounded distance of two numbers."""
    return abs(a - b) / (1 + abs(a - b))


def table(values: list[float]) -> list[list[float]]:
    """Their distances."""
    return [[apart(a, b) for b in values] for a in values]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan from 40 executions."""
    rng = random.Random(1)
    return design([table(outputs(rng)) for _ in range(40)], reruns=RERUNS)


@pytest.fixture(scope="module")
def calibration(plan: Plan) -> Calibration:
    """The calibration of 99 others."""
    rng = random.Random(2)
    return calibrate(plan, [table(outputs(rng)) for _ in range(99)])


def number(data: bytes) -> float:
    """An output as a number."""
    return float(data)


def metric(a: bytes, b: bytes) -> float:
    """The distance of two outputs."""
    return apart(number(a), number(b))


def judged(plan, calibration, values, **options):
    """The judgement of an execution whose first value is the commitment's and whose others are its reruns."""
    texts = [repr(value).encode() for value in values]
    reruns = iter(texts[1:])
    seeds = rerun_seeds(b"seed", options.pop("budget", plan.reruns))
    return challenge(
        texts[0], lambda _seed: next(reruns), seeds, metric=metric, plan=plan, calibration=calibration, **options
    )


MAXIMA = st.lists(st.integers(0, 12).map(lambda n: n / 4), min_size=2, max_size=45)


@given(MAXIMA, st.sampled_from(["0.05", "0.1", "0.25", "0.5"]))
def test_at_most_alpha_of_exchangeable_executions_are_accused(maxima, alpha):
    """Of n + 1 executions each judged by the n others, at most alpha (n + 1) are accused, ties and all: so an honest
    one, whose place among them is uniform, is accused with at most that probability.
    """
    accused = 0
    for place, value in enumerate(maxima):
        others = sorted(maxima[:place] + maxima[place + 1 :])
        critical = Calibration(plan="p", largest=tuple(map(repr, others)), detectable=None).critical(float(alpha))
        accused += critical is not None and value > critical
    assert accused <= Fraction(alpha) * len(maxima)


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_stopping_early_accuses_nobody_whom_all_reruns_would_not(plan, calibration, seed):
    """Whatever ends a challenge, it is inconsistent only if the maximum over the whole path exceeds the critical."""
    values = outputs(random.Random(seed), at=random.Random(seed).choice([0.0, 0.2, 0.5]))
    judgement = judged(plan, calibration, values)
    whole = plan.running(path_of(table(values), plan.spread))[-1]
    if judgement.finding is Finding.INCONSISTENT:
        assert whole > judgement.critical
    assert judgement.finding in (Finding.INCONSISTENT, Finding.CONSISTENT)
    assert judgement.reruns <= plan.reruns


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_scores_are_the_median_over_the_shrunk_spread(plan, seed):
    """S_j by its formula: the median distance to the commitment over exp of the weighted mean of logarithms."""
    distances = table(outputs(random.Random(seed)))
    prior, weight, floor = (float(getattr(plan.spread, name)) for name in ("prior", "weight", "floor"))
    for j, score in enumerate(path_of(distances, plan.spread), start=2):
        among = median(distances[a][b] for a in range(1, j + 1) for b in range(1, a))
        spread = (max(among, floor) ** j * prior**weight) ** (1 / (j + weight))
        assert math.isclose(score, median(distances[0][1 : j + 1]) / spread, rel_tol=1e-12)


def test_honest_executions_pass_and_fabrications_fall(plan, calibration):
    """Of fresh honest executions few are accused, of commitments ten spreads away nearly all, in few reruns."""
    rng = random.Random(3)
    honest = [judged(plan, calibration, outputs(rng)) for _ in range(400)]
    fabricated = [judged(plan, calibration, outputs(rng, at=1.0)) for _ in range(100)]
    # 0.05 and three standard deviations, of this calibration and of 400 executions.
    assert sum(j.finding is Finding.INCONSISTENT for j in honest) <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 5)
    assert sum(j.finding is Finding.INCONSISTENT for j in fabricated) >= 90
    assert sum(j.reruns for j in honest) / 400 < plan.reruns - 1


def test_too_few_honest_executions_judge_nobody(plan):
    """18 executions are too few for alpha .05 and 19 are enough; without them nothing is rerun."""
    rng = random.Random(4)
    executions = [table(outputs(rng)) for _ in range(19)]
    far = outputs(rng, at=9.0)
    few = judged(plan, calibrate(plan, executions[:18]), far)
    assert (few.finding, few.reruns) == (Finding.UNCALIBRATED, 0)
    assert judged(plan, calibrate(plan, executions), far).finding is Finding.INCONSISTENT


def test_a_budget_that_ends_decides_nothing(plan, calibration):
    """Two reruns that neither accuse nor acquit are undecided; one has no spread and is undecided too."""
    score = float(plan.divisors[0]) * 0.95
    near = next(
        values
        for values in (outputs(random.Random(seed), at=0.1) for seed in range(500))
        if score < path_of(table(values), plan.spread)[0] < calibration.critical(0.05) * float(plan.divisors[0])
    )
    for budget in (0, 1, 2):
        judgement = judged(plan, calibration, near, budget=budget)
        assert (judgement.finding, judgement.reruns) == (Finding.UNDECIDED, budget)


def test_a_rerun_that_fails_accuses_nobody(plan, calibration):
    """No output within its time is the challenger's failure: undecided, never inconsistent."""
    texts = [repr(value).encode() for value in outputs(random.Random(5), at=9.0)]
    answers = iter([texts[1], None])
    judgement = challenge(
        texts[0], lambda _s: next(answers), rerun_seeds(b"s", 6), metric=metric, plan=plan, calibration=calibration
    )
    assert judgement.finding is Finding.UNDECIDED
    assert "says nothing of the recorder" in judgement.reason


def _served(terms: list[list[float]], batch: int) -> bytes:
    """The sum of each row, added up in float64 by batches of that size."""
    # Not `sum`, which compensates its roundings from Python 3.12 on.
    parts = [[reduce(add, row[at : at + batch]) for at in range(0, len(row), batch)] for row in terms]
    return json.dumps([reduce(add, row) for row in parts]).encode()


def test_drift_by_batch_size_is_honest():
    """Batching alone changes last bits, which bit for bit rejects nearly all honest executions; judged by honest
    executions under several batch sizes it accuses none of them, and one that is off by far is found (gonka#1199).
    """
    numbers = metric_named("numeric", {"absolute": "0", "relative": "1e-12"})

    def execution(seed: int, count: int = RERUNS + 1) -> list[bytes]:
        rng = random.Random(seed)
        terms = [[rng.uniform(-1, 1) * 10 ** rng.randint(-3, 3) for _ in range(150)] for _ in range(3)]
        return [_served(terms, rng.choice((1, 3, 8, 32, 150))) for _ in range(count)]

    def distances(texts: list[bytes]) -> list[list[float]]:
        return [[numbers(a, b) for b in texts] for a in texts]

    drift = design([distances(execution(seed)) for seed in range(20)], reruns=RERUNS)
    known = calibrate(drift, [distances(execution(seed)) for seed in range(20, 60)])

    def verdict(committed: bytes, reruns: list[bytes]) -> Finding:
        answers = iter(reruns)
        return challenge(
            committed,
            lambda _seed: next(answers),
            rerun_seeds(b"s", RERUNS),
            metric=numbers,
            plan=drift,
            calibration=known,
        ).finding

    fresh = [execution(seed) for seed in range(60, 80)]
    differing = sum(texts[0] != texts[1] for texts in fresh)
    assert differing > len(fresh) / 2
    accused = sum(verdict(texts[0], texts[1:]) is Finding.INCONSISTENT for texts in fresh)
    assert accused <= 0.05 * len(fresh) + 2
    made_up = [json.dumps([x * (1 + 1e-9) for x in json.loads(texts[0])]).encode() for texts in fresh]
    found = sum(verdict(a, b[1:]) is Finding.INCONSISTENT for a, b in zip(made_up, fresh, strict=True))
    assert found == len(fresh)


def test_a_calibration_of_another_plan_is_refused(plan, calibration):
    """A challenger can't bring a calibration that the policy's plan does not name."""
    other = Calibration(plan="0" * 64, largest=calibration.largest, detectable=None)
    with pytest.raises(TamperError, match="another plan"):
        judged(plan, other, outputs(random.Random(7)))


def test_the_detectable_offset_is_where_power_crosses(plan):
    """Just below the reported offset fewer than 80 % of the executions are accused, at it 80 % or more."""
    rng = random.Random(8)
    executions = [table(outputs(rng)) for _ in range(60)]
    calibration = calibrate(plan, executions)
    least = float(calibration.detectable)

    def power(offset: float) -> float:
        maxima = [plan.running(path_of(d, plan.spread, offset=offset))[-1] for d in executions]
        return sum(m > calibration.critical(0.05) for m in maxima) / len(maxima)

    assert power(least) >= 0.8 > power(least - 1e-4)
    assert (
        detectable_offset(plan, Calibration(plan=plan.digest, largest=("1e9",) * 99, detectable=None), executions)
        is None
    )


def test_outputs_that_always_repeat_have_a_floor_for_a_spread():
    """Where honest runs repeat exactly, a score is finite and a repeated output is consistent."""
    same = [[0.0] * (RERUNS + 1)] * (RERUNS + 1)
    plan = design([same, same], reruns=RERUNS)
    calibration = calibrate(plan, [same] * 99)
    assert judged(plan, calibration, [1.0] * (RERUNS + 1)).finding is Finding.CONSISTENT
    assert judged(plan, calibration, [2.0] + [1.0] * RERUNS).finding is Finding.INCONSISTENT


def test_records_read_back_as_they_were(plan, calibration):
    """A plan and a calibration are known by the digest of their bytes."""
    assert Plan.from_bytes(plan.to_bytes()) == plan
    assert Calibration.from_bytes(calibration.to_bytes()) == calibration


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Spread(prior="0"),
        lambda: Spread(prior="1", floor="2"),
        lambda: Spread(prior="1", weight="-1"),
        lambda: Plan(alpha="0", reruns=2, spread=Spread.of(1.0), divisors=("1",)),
        lambda: Plan(alpha="0.05", reruns=3, spread=Spread.of(1.0), divisors=("1",)),
        lambda: Plan(alpha="0.05", reruns=2, spread=Spread.of(1.0), divisors=("0",)),
        lambda: design([[[0.0]]], reruns=2),
        lambda: design([[[0.0]]] * 3, reruns=2),
        lambda: Evidence(Spread.of(1.0)).add(math.nan, []),
        lambda: Evidence(Spread.of(1.0)).add(0.5, [0.5]),
        lambda: Wealth([]),
        lambda: Wealth([1.0], bets=(1.0,)),
        lambda: Wealth([1.0]).add(1.0, 0.0),
        lambda: Wealth([1.0]).add(math.nan, 0.5),
        lambda: chosen(b"s", ["a"], 2),
    ],
)
def test_what_judges_nothing_is_refused(wrong):
    """Plans, spreads, distances, bets and choices outside what makes sense are InputErrors."""
    with pytest.raises(InputError):
        wrong()


def test_the_e_value_is_the_mean_of_products_of_bets():
    """Each score's rank among all before it, counted one by one, and the bets multiplied."""
    rng = random.Random(9)
    reference = [rng.choice([0.1, 0.2, 0.3, 0.4]) for _ in range(20)]
    wealth, seen, products = Wealth(reference), list(reference), [1.0] * 5
    for _ in range(30):
        score, tie = rng.choice([0.2, 0.35, 0.5]), 1 - rng.random()
        above, equal = sum(s > score for s in seen), sum(s == score for s in seen)
        p = (above + tie * (equal + 1)) / (len(seen) + 1)
        products = [e * eps * p ** (eps - 1) for e, eps in zip(products, (0.05, 0.1, 0.2, 0.4, 0.7), strict=True)]
        seen.append(score)
        assert math.isclose(wealth.add(score, tie), sum(products) / 5, rel_tol=1e-9)


def test_honest_recorders_are_hardly_ever_accused_and_fabricators_soon():
    """Of 300 honest recorders watched over 150 challenges at most alpha and three deviations are ever accused; one
    whose scores lie above the honest is accused within five.
    """
    rng = random.Random(10)
    accused = 0
    for _ in range(300):
        wealth = Wealth(rng.gauss(0, 1) for _ in range(200))
        for _ in range(150):
            wealth.add(rng.gauss(0, 1), 1 - rng.random())
        accused += wealth.accuses(0.05)
    assert accused <= 300 * 0.05 + 3 * math.sqrt(300 * 0.05)
    wealth = Wealth(rng.gauss(0, 1) for _ in range(200))
    values = [wealth.add(rng.gauss(6, 1), 1 - rng.random()) for _ in range(5)]
    assert max(values) >= 100
    assert wealth.accuses(0.01)


def test_the_earlier_peak_still_accuses():
    """Ville's bound holds for the maximum: a recorder who behaves afterwards stays accused."""
    wealth = Wealth(range(200))
    for _ in range(5):
        wealth.add(1e6 + wealth.value, 0.5)
    peak = wealth.most
    for _ in range(200):
        wealth.add(0.5, 0.5)
    assert wealth.value < peak == wealth.most
    assert wealth.accuses(1.001 / peak)


def test_challenge_seeds_follow_from_the_head_the_time_and_the_commitment():
    """Each of the three changes the seed, the reruns' seeds differ, and ties and numbers lie where they should."""
    seed = challenge_seed(b"head", 5, "c")
    others = [challenge_seed(b"Head", 5, "c"), challenge_seed(b"head", 6, "c"), challenge_seed(b"head", 5, "d")]
    assert len({seed, *others}) == 4
    assert len(set(rerun_seeds(seed, 50))) == 50
    assert all(0 <= rerun_number(s) < 2**31 for s in rerun_seeds(seed, 50))
    assert 0 < tie_of(seed) <= 1
    names = [f"{n:064x}" for n in range(30)]
    assert chosen(seed, names, 5) == chosen(seed, names[::-1], 5)
    assert chosen(seed, names, 5) != chosen(others[0], names, 5)


def test_the_compared_rules_are_as_the_paper_defines_them():
    """The median of the first k distances, its ratio to the reruns' own median, and the largest honest value."""
    distances = [[0, 4, 2, 9], [4, 0, 1, 3], [2, 1, 0, 5], [9, 3, 5, 0]]
    assert median_distance(distances, 2) == 3
    assert median_distance(distances, 3) == 4
    assert spread_ratio(distances, 3, floor=0.1) == 4 / 3
    assert spread_ratio([[0, 1, 1], [1, 0, 0], [1, 0, 0]], 2, floor=0.5) == 2
    assert matched([1.0, 3.0, 2.0]) == 3.0
