"""The likelihood metric: what a sampling rule leaves, how surprising a draw is, and that others are told from draws."""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from attest_cases import commit
from test_challenge_steps import published

from veristate.attest import EXACT
from veristate.attest.challenge import (
    Calibrated,
    Finding,
    MetricModels,
    Sampling,
    calibrate,
    challenge_step,
    design,
    metric_named,
    read_step,
    rerun_number,
    rerun_seeds,
    surprise,
)
from veristate.attest.challenge.metrics import surprise_distance
from veristate.core import InputError

WORDS, LENGTH = 30, 20
RULE = {"temperature": "0.8", "top_k": "12", "top_p": "0.9", "min_p": "0.05"}


@dataclass(frozen=True)
class Token:
    """A token as a model would weigh it."""

    likely: tuple[float, ...]
    place: int | None


def logs(*shares):
    """Natural logarithms."""
    return tuple(math.log(share) for share in shares)


def model(question, said):
    """Logits of the next of WORDS tokens: a fixed table by the question and the last token."""
    last = said[-1] if said else 0
    return np.random.default_rng([question, last]).normal(0, 2.0, WORDS)


def left(logits):
    """Tokens and probabilities that RULE leaves, by numpy and sorting alone."""
    order = np.argsort(-logits)[:12]
    shares = np.exp(logits[order])
    shares /= shares.sum()
    before = np.cumsum(shares) - shares
    kept = (before < 0.9) & (shares >= 0.05 * shares[0])
    drawn = shares[kept] ** (1 / 0.8)
    return order[kept], drawn / drawn.sum()


def draw(question, rng):
    """A reply of LENGTH tokens by the rule."""
    said = []
    for _ in range(LENGTH):
        tokens, shares = left(model(question, said))
        said.append(int(rng.choice(tokens, p=shares)))
    return said


def weigh(question, said):
    """The reply token by token, as many of the likeliest told as a server tells."""
    found = []
    for place, token in enumerate(said):
        logits = model(question, said[:place])
        normed = logits - math.log(np.exp(logits).sum())
        order = np.argsort(-normed)[:20].tolist()
        found.append(Token(tuple(normed[order].tolist()), order.index(token) if token in order else None))
    return found


def test_a_rule_leaves_what_it_says():
    """Four tokens: the third is the last that top_p needs, the fourth too rare for min_p, top_k cuts after two."""
    likely = logs(0.5, 0.3, 0.15, 0.05)
    plain = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0}
    for limits, kept in (
        ({}, 4),
        ({"top_k": 2}, 2),
        ({"top_p": 0.75}, 2),
        ({"top_p": 0.85}, 3),
        ({"min_p": 0.2}, 3),
        ({"min_p": 0.4}, 2),
        ({"top_k": 3, "top_p": 0.83}, 2),  # of the three that top_k leaves, two hold .8 of .95
    ):
        assert Sampling(**(plain | limits)).kept(likely) == kept, limits
    assert Sampling(**plain).kept((-0.1, -3.0, -math.inf)) == 2


@pytest.mark.parametrize("temperature", [Fraction(1), Fraction(1, 2)])
def test_a_surprise_by_hand(temperature):
    """Of one token, from the rule's probabilities in exact fractions."""
    shares = (
        [Fraction(10), Fraction(6), Fraction(3)] if temperature == 1 else [Fraction(100), Fraction(36), Fraction(9)]
    )
    drawn = [float(share / sum(shares)) for share in shares]
    entropy = -sum(q * math.log(q) for q in drawn)
    variance = sum(q * (math.log(q) + entropy) ** 2 for q in drawn)
    rule = Sampling(temperature=float(temperature), top_p=1.0, min_p=0.2)
    for place, q in enumerate(drawn):
        found = surprise([Token(logs(0.5, 0.3, 0.15, 0.05), place)], rule)
        assert found == pytest.approx((-math.log(q) - entropy) / math.sqrt(0.25 + variance))


def test_a_token_at_the_edge_counts_as_improbable_as_it_is():
    """Another batch of the same pass may put it on either side: only what limits twice as wide leave out is outside."""
    rule = Sampling(temperature=1.0, top_p=1.0, min_p=0.1)
    within, edge, beyond = (surprise([Token(logs(0.9, third), 1)], rule) for third in (0.0901, 0.0899, 0.0449))
    assert edge > within
    assert edge < 8  # -log .09 over the deviation of a token that is all but certain
    assert beyond == 10
    narrow = Sampling(temperature=1.0, top_p=0.8, min_p=0.0)
    assert surprise([Token(logs(0.79, 0.15, 0.06), 2)], narrow) == 10
    assert 0 < surprise([Token(logs(0.81, 0.13, 0.06), 1)], narrow) < 10


def test_draws_have_mean_0_and_deviation_1_whatever_the_input_and_others_are_far_off():
    """Against a sampler of our own, over inputs; the same replies to another question hold tokens that are left out."""
    rule, rng = Sampling(**{name: float(value) for name, value in RULE.items()}), np.random.default_rng(4)
    draws = [(question, draw(question, rng)) for question in range(40) for _ in range(10)]
    honest = [surprise(weigh(question, said), rule) for question, said in draws]
    assert abs(np.mean(honest)) < 4 / math.sqrt(len(honest))
    assert 0.85 < np.std(honest) < 1.1
    assert max(map(abs, honest)) < 6
    moved = [surprise(weigh((question + 1) % 40, said), rule) for question, said in draws]
    assert min(moved) > 2 * max(honest)
    assert np.median(moved) > 50


def test_a_token_outside_counts_ten_deviations():
    """Where it is beyond what the rule leaves, or none of the likeliest at all."""
    rule = Sampling(temperature=1.0, min_p=0.2, top_p=1.0)
    likely = logs(0.55, 0.41, 0.04)
    inside = surprise([Token(likely, 1)] * 4, rule)
    assert surprise([*[Token(likely, 1)] * 4, Token(likely, None)], rule) == pytest.approx(inside + 10)
    assert surprise([Token(likely, 2), *[Token(likely, 1)] * 4, Token(likely, 7)], rule) == pytest.approx(inside + 20)
    assert surprise([], rule) == 0


def test_distances_of_surprises():
    """Half at twenty deviations; what can't be weighed is as far as can be."""
    assert surprise_distance(3, 3) == 0
    assert surprise_distance(-5, 15) == surprise_distance(15, -5) == 0.5
    assert surprise_distance(math.inf, 1) == surprise_distance(math.inf, math.inf) == 1
    told = []
    metric = metric_named("likelihood", RULE, weigh=lambda output: told.append(output) or weigh(1, json.loads(output)))
    drawn, other = (json.dumps(draw(question, np.random.default_rng(question))).encode() for question in (1, 2))
    assert metric(drawn, drawn) == 0
    assert told == []
    assert metric(drawn, other) == metric(other, drawn) > 0.5
    assert told == [drawn, other]  # each once: weighing is a pass of a model
    assert metric_named("likelihood", RULE, weigh=lambda _output: None)(drawn, other) == 1


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "needs the temperature"),
        ({"temperature": "0"}, "draws nothing"),
        ({"temperature": "nan"}, "finite number"),
        ({"temperature": "1", "top_p": "1.5"}, "draws nothing"),
        ({"temperature": "1", "top_k": "0"}, "draws nothing"),
        ({"temperature": "1", "typical_p": "0.5"}, "takes no typical_p"),
    ],
)
def test_a_rule_that_can_not_be_is_refused(parameters, said):
    """Naming what is wrong with it."""
    with pytest.raises(InputError, match=said):
        metric_named("likelihood", parameters, weigh=lambda _output: [])


def test_without_the_model_nothing_is_judged():
    """The policy's environment names it; the challenger brings it."""
    with pytest.raises(InputError, match="needs the model"):
        metric_named("likelihood", RULE)


def test_a_sampled_step_is_challenged_by_the_model_that_sampled_it(open_recorder, tmp_path):
    """Calibrated on other questions: draws are consistent, and a reply with one word changed is not."""

    def matrix(question):
        rng = np.random.default_rng([9, question])
        metric = metric_named("likelihood", RULE, weigh=lambda output: weigh(question, json.loads(output)))
        outputs = [json.dumps(draw(question, rng)).encode() for _ in range(6)]
        return [[metric(a, b) for b in outputs] for a in outputs]

    plan = design([matrix(100 + n) for n in range(30)], reruns=5)
    calibrated = Calibrated(plan=plan, calibration=calibrate(plan, [matrix(200 + n) for n in range(60)]))
    policy = replace(
        EXACT,
        nondeterminism="text",
        metric="likelihood",
        metric_parameters=RULE,
        threshold_rule="path",
        calibration=calibrated.calibration.digest,
        reruns_upper=5,
    )
    recorder = open_recorder()
    commit(recorder, 1, policy=policy)
    step = read_step(published(recorder, tmp_path), "answer")
    found = {"drawn": [], "one word changed": []}
    for number in range(30):
        rng = np.random.default_rng([7, number])
        said = draw(number, rng)
        at = int(rng.integers(LENGTH))
        changed = [*said[:at], (said[at] + 1 + int(rng.integers(WORDS - 1))) % WORDS, *said[at + 1 :]]
        for kind, output in (("drawn", said), ("one word changed", changed)):
            judged = challenge_step(
                replace(
                    step, inputs={"question": b"%d" % number}, outputs={step.compared: json.dumps(output).encode()}
                ),
                lambda inputs, seed: json.dumps(
                    draw(int(inputs["question"]), np.random.default_rng(rerun_number(seed)))
                ).encode(),
                rerun_seeds(b"%d" % number, 5),
                environment={},
                calibrated=calibrated,
                models=MetricModels(weigh=lambda inputs, output: weigh(int(inputs["question"]), json.loads(output))),
            )
            found[kind].append(judged.finding is Finding.INCONSISTENT)
    assert sum(found["drawn"]) <= 4
    assert sum(found["one word changed"]) >= 24
