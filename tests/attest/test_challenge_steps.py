"""Challenging what an export holds: each rule of a policy, what was redacted, and a stage run again."""

import random
from dataclasses import replace

import pytest
from attest_cases import NOW, commit

from veristate.attest import EXACT, Home, Policy, Trust, export_run, read_export, stage
from veristate.attest.challenge import (
    Calibrated,
    Finding,
    calibrate,
    challenge_step,
    design,
    metric_named,
    read_step,
    rerun_number,
    rerun_of,
    rerun_seeds,
)
from veristate.core import InputError, TamperError, UndecidedError

SEEDS = rerun_seeds(b"beacon", 20)
SAMPLED = replace(EXACT, nondeterminism="text", metric="tokens", reruns_upper=6)
WORDS = ("the drug binds the channel", "a drug binds that channel", "it binds the channel", "the channel is bound")


def published(recorder, tmp_path, *, redact=frozenset()):
    """What a stranger reads of the recorder's run."""
    home = Home.open(recorder)
    home.deliver()
    export_run(home, tmp_path / "run.zip", redact=redact)
    trust = Trust.parse(f"log {home.log.key}\nquorum none\n")
    return read_export(tmp_path / "run.zip", trust, now=NOW + 10**9).require()


def test_a_step_that_repeats_is_consistent_and_one_that_does_not_is_inconsistent(open_recorder, tmp_path):
    """Under the rule `equal` one rerun decides: the same bytes, or others."""
    recorder = open_recorder()
    commit(recorder, 1)
    step = read_step(published(recorder, tmp_path), "answer")
    assert step.inputs == {"question": b"q1"}
    same = challenge_step(step, lambda inputs, _s: inputs["question"].replace(b"q", b"a"), SEEDS, environment={})
    other = challenge_step(step, lambda _i, _s: b"a2", SEEDS, environment={})
    assert (same.finding, same.reruns) == (Finding.CONSISTENT, 1)
    assert (other.finding, other.alpha) == (Finding.INCONSISTENT, "0")


def test_nobody_is_accused_in_another_environment(open_recorder, tmp_path):
    """Where the challenger's environment is not the policy's, another output is drift; the same one is consistent."""
    recorder = open_recorder()
    commit(recorder, 1, policy=replace(EXACT, environment={"torch": "2.13"}))
    step = read_step(published(recorder, tmp_path), "1")
    moved = challenge_step(step, lambda _i, _s: b"other", SEEDS, environment={"torch": "2.14"})
    assert moved.finding is Finding.ENVIRONMENT_DRIFT
    assert "torch" in moved.reason
    assert challenge_step(step, lambda _i, _s: b"a1", SEEDS, environment={}).finding is Finding.CONSISTENT
    same = challenge_step(step, lambda _i, _s: b"other", SEEDS, environment={"torch": "2.13"})
    assert same.finding is Finding.INCONSISTENT


@pytest.mark.parametrize(
    ("outputs", "finding", "used"),
    [
        ([b"a1"], Finding.CONSISTENT, 1),
        ([b"x", b"x", b"x"], Finding.INCONSISTENT, 3),
        ([b"x", b"x", b"a1"], Finding.UNCALIBRATED, 3),
        ([b"x", b"y", b"x"], Finding.UNCALIBRATED, 3),
        ([b"x", b"x", None], Finding.UNDECIDED, 2),
        ([None], Finding.UNDECIDED, 0),
        ([b"x", b"x"], Finding.UNDECIDED, 2),
    ],
)
def test_equality_accuses_only_when_the_reruns_agree_with_each_other(open_recorder, tmp_path, outputs, finding, used):
    """A step that does not repeat for the challenger either is not the recorder's fault; a budget is no verdict."""
    recorder = open_recorder()
    commit(recorder, 1, policy=replace(EXACT, reruns_upper=3))
    step = read_step(published(recorder, tmp_path), "answer")
    answers = iter(outputs)
    judged = challenge_step(step, lambda _i, _s: next(answers), SEEDS[: len(outputs)], environment={})
    assert (judged.finding, judged.reruns) == (finding, used)


def test_a_step_that_can_not_be_run_here_is_undecided_and_says_why(open_recorder, tmp_path):
    """What a rerun raises as undecided is the verdict's reason."""
    recorder = open_recorder()
    commit(recorder, 1)
    step = read_step(published(recorder, tmp_path), "answer")

    def never(_inputs, _seed):
        raise UndecidedError("no such model here")

    judged = challenge_step(step, never, SEEDS, environment={})
    assert (judged.finding, judged.reason) == (Finding.UNDECIDED, "no such model here")


@pytest.mark.parametrize("redacted", ["question", "answer"])
def test_what_was_not_handed_out_is_unavailable(open_recorder, tmp_path, redacted):
    """A redacted input or output leaves the step unavailable, and nothing is rerun."""
    recorder = open_recorder()
    commit(recorder, 1)
    step = read_step(published(recorder, tmp_path, redact={redacted}), "answer")

    def never(_inputs, _seed):
        raise AssertionError("it was rerun")

    judgement = challenge_step(step, never, SEEDS, environment={})
    assert (judgement.finding, judgement.reruns) == (Finding.UNAVAILABLE, 0)
    assert redacted in judgement.reason


def test_a_fixed_threshold_judges_the_median(open_recorder, tmp_path):
    """The paper's rule: of three reruns the middle distance counts, and a rerun that fails decides nothing."""
    recorder = open_recorder()
    policy = replace(SAMPLED, threshold_rule="median", threshold_parameters={"tau": "0.6"}, reruns_upper=3)
    recorder.commit_to("say", inputs={}, outputs={"text": b"one two"}, context={}, policy=policy)
    step = read_step(published(recorder, tmp_path), "say")

    def judged(*texts):
        answers = iter(texts)
        return challenge_step(step, lambda _i, _s: next(answers), SEEDS, environment={})

    assert judged(b"one two", b"one three", b"four five").finding is Finding.CONSISTENT
    assert judged(b"one two", b"six seven", b"four five").finding is Finding.INCONSISTENT
    assert judged(b"one two", None, b"one two").finding is Finding.UNDECIDED


def calibrated():
    """A plan and a calibration for the sampled step."""
    rng = random.Random(5)
    metric = metric_named("tokens")

    def execution():
        texts = [rng.choice(WORDS).encode() for _ in range(7)]
        return [[metric(a, b) for b in texts] for a in texts]

    plan = design([execution() for _ in range(30)], reruns=6)
    return Calibrated(plan=plan, calibration=calibrate(plan, [execution() for _ in range(60)]))


def test_the_path_rule_uses_the_calibration_that_the_policy_names(open_recorder, tmp_path):
    """Without a calibration uncalibrated, with another one refused, with the named one an answer to both kinds."""
    known = calibrated()
    recorder = open_recorder()
    policy = replace(SAMPLED, threshold_rule="path", calibration=known.calibration.digest)
    for stage_name, text in (("honest", WORDS[0]), ("made-up", "buy more shares now")):
        recorder.commit_to(stage_name, inputs={}, outputs={"text": text.encode()}, context={}, policy=policy)
    export = published(recorder, tmp_path)

    def judged(which, given, **more):
        rng = random.Random(1)
        return challenge_step(
            read_step(export, which),
            lambda _i, _s: rng.choice(WORDS).encode(),
            SEEDS,
            environment={},
            calibrated=given,
            **more,
        )

    assert judged("honest", None).finding is Finding.UNCALIBRATED
    assert judged("honest", known).finding is Finding.CONSISTENT
    assert judged("made-up", known).finding is Finding.INCONSISTENT
    assert judged("made-up", known, drifted=True).finding is Finding.ENVIRONMENT_DRIFT
    assert judged("honest", known, drifted=True).finding is Finding.CONSISTENT
    other = replace(known, calibration=replace(known.calibration, detectable="0.5"))
    with pytest.raises(TamperError, match="not the one"):
        judged("honest", other)


def test_a_step_is_found_by_place_execution_or_stage(open_recorder, tmp_path):
    """Two steps of one stage are told apart by place or execution; a name that fits both or none is refused."""
    recorder = open_recorder()
    for number in (1, 2):
        commit(recorder, number)
    export = published(recorder, tmp_path)
    first = read_step(export, "1")
    assert read_step(export, first.commitment.execution) == first
    for which, said in (("answer", "2 steps"), ("nothing", "0 steps")):
        with pytest.raises(InputError, match=said):
            read_step(export, which)


def test_several_outputs_need_a_name(open_recorder, tmp_path):
    """A policy says which of several outputs is compared; without that the step can't be challenged."""
    recorder = open_recorder()
    both = {"text": b"a", "log": b"took 3 s"}
    recorder.commit_to(
        "named", inputs={}, outputs=both, context={}, policy=replace(EXACT, metric_parameters={"output": "text"})
    )
    recorder.commit_to("unnamed", inputs={}, outputs=both, context={})
    export = published(recorder, tmp_path)
    step = read_step(export, "named")
    assert challenge_step(step, lambda _i, _s: b"a", SEEDS, environment={}).finding is Finding.CONSISTENT
    with pytest.raises(InputError, match="names none"):
        read_step(export, "unnamed")


def test_an_unknown_rule_is_refused(open_recorder, tmp_path):
    """A rule or a tau that nobody knows is an InputError before anything is rerun."""
    recorder = open_recorder()
    for name, policy in (
        ("rule", replace(EXACT, threshold_rule="mood")),
        ("tau", replace(EXACT, threshold_rule="median", threshold_parameters={})),
    ):
        recorder.commit_to(name, inputs={}, outputs={"o": b"1"}, context={}, policy=policy)
    export = published(recorder, tmp_path)
    for name in ("rule", "tau"):
        with pytest.raises(InputError):
            challenge_step(read_step(export, name), lambda _i, _s: b"1", SEEDS, environment={})


def test_a_stage_runs_again_on_what_was_committed(open_recorder, tmp_path):
    """The committed function, its arguments read by their types, with the rerun's own seed, and not committed again."""
    recorder = open_recorder()
    seen = []

    @stage(recorder=recorder, policy=EXACT)
    def answer(question: str, passages: list[str], weight: float, raw: bytes, seed: int) -> dict[str, object]:
        seen.append(seed)
        return {"question": question, "first": passages[0], "double": 2 * weight, "raw": raw}

    answer("why?", ["a", "b"], 0.5, b"\x00\xff", 7)
    export = published(recorder, tmp_path)
    judgement = challenge_step(read_step(export, "1"), rerun_of(answer), SEEDS, environment={})
    assert judgement.finding is Finding.CONSISTENT
    assert seen == [7, rerun_number(SEEDS[0])]
    assert len(list(recorder.outbox.items())) == 2
    with pytest.raises(InputError, match="does not take"):
        rerun_of(answer)({"question": b"q"}, SEEDS[0])
    with pytest.raises(InputError, match="can't be read"):
        rerun_of(answer)({"question": b"\xff"}, SEEDS[0])


def test_a_policy_is_known_by_its_digest():
    """The policies here differ, so that a challenge can't be judged by another one."""
    policies = [EXACT, SAMPLED, replace(SAMPLED, threshold_rule="path")]
    assert len({policy.digest for policy in policies}) == 3
    assert all(Policy.from_bytes(policy.to_bytes()) == policy for policy in policies)
