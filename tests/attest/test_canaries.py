"""Canaries: made of steps that repeat, checked before a challenge, and no shield for the step they repeat."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from attest_cases import commit
from typer.testing import CliRunner

from veristate.attest import EXACT, Home, export_run, read_export
from veristate.attest.challenge import (
    Finding,
    canaries_in,
    challenge_step,
    check_canaries,
    make_canary,
    read_step,
    rerun_seeds,
)
from veristate.core import (
    EnvironmentUnusableError,
    InputError,
    TamperError,
    UndecidedError,
    VeristateError,
    canonical_bytes,
)
from veristate.interfaces.cli.app import app

SEEDS = rerun_seeds(b"seed", 4)
HERE = {"torch": "2.13"}
PINNED = replace(EXACT, environment=HERE)
AGAIN = """
from veristate.core import InputError
shift = missing = b""
def answer(inputs, seed):
    environment(inputs)
    return inputs["question"].replace(b"q", b"a") + shift
def environment(inputs):
    if inputs["question"] == missing:
        raise InputError("not on this machine")
    return {"torch": "2.13"}
answer.environment = environment
"""


def answer(inputs, _seed):
    """The honest stage."""
    return inputs["question"].replace(b"q", b"a")


def moved(inputs, seed):
    """The same on a machine that gives other bytes."""
    return answer(inputs, seed) + b"'"


@pytest.fixture
def recorder(open_recorder):
    """A recorder of two steps in a pinned environment."""
    recorder = open_recorder()
    for number in (1, 2):
        commit(recorder, number, policy=PINNED, execution=f"e{number}")
    return recorder


@pytest.fixture
def read(recorder, tmp_path):
    """What a stranger reads now."""

    def export():
        home = Home.open(recorder)
        home.deliver()
        (tmp_path / "run.zip").unlink(missing_ok=True)
        export_run(home, tmp_path / "run.zip")
        return read_export(tmp_path / "run.zip", None, now=2**40).require()

    return export


def checked(export, rerun):
    """Whether each canary drifted."""
    found = check_canaries(canaries_in(export), rerun, lambda one: SEEDS, environment=lambda one: HERE)
    return [one.drifted for one in found]


def test_a_canary_repeats_where_its_step_does_and_drifts_where_not(recorder, read):
    """Its output was known beforehand; another machine's other bytes are drift, and then nobody is accused."""
    made = make_canary(recorder, read_step(read(), "e1"), answer, SEEDS, environment=HERE)
    export = read()
    [canary] = canaries_in(export)
    assert canary.step.commitment == made.commitment
    assert canary.of == read_step(export, "e1").commitment.digest
    assert checked(export, answer) == [False]
    assert checked(export, moved) == [True]
    second = read_step(export, "e2")
    assert challenge_step(second, moved, SEEDS, environment=HERE).finding is Finding.INCONSISTENT
    drifted = challenge_step(second, moved, SEEDS, environment=HERE, drifted=True)
    assert (drifted.finding, "canaries" in drifted.reason) == (Finding.ENVIRONMENT_DRIFT, True)
    assert challenge_step(second, answer, SEEDS, environment=HERE, drifted=True).finding is Finding.CONSISTENT


def test_none_is_made_of_what_does_not_repeat_or_elsewhere(recorder, read):
    """A step that is inconsistent here, or another environment than it was recorded in."""
    step = read_step(read(), "e1")
    with pytest.raises(UndecidedError, match="no canary"):
        make_canary(recorder, step, moved, SEEDS, environment=HERE)
    with pytest.raises(InputError, match="torch"):
        make_canary(recorder, step, answer, SEEDS, environment={"torch": "2.14"})
    assert canaries_in(read()) == ()


def test_a_canary_that_can_not_be_run_says_nothing(recorder, read):
    """No output is the challenger's own failure, neither drift nor health."""
    make_canary(recorder, read_step(read(), "e1"), answer, SEEDS, environment=HERE)
    assert checked(read(), lambda _inputs, _seed: None) == [False]


@pytest.mark.parametrize(
    "trouble",
    [
        TamperError("another calibration"),
        InputError("the predictor is not here"),
        EnvironmentUnusableError("no runtime"),
        KeyError("candidates"),
    ],
)
def test_a_canary_that_fails_here_is_undecided_and_stops_nothing(recorder, read, trouble):
    """Each trouble of one canary is its reason; the others are judged."""
    for which in ("e1", "e2"):
        make_canary(recorder, read_step(read(), which), answer, SEEDS, environment=HERE)

    def troubled(inputs, seed):
        if inputs["question"] == b"q1":
            raise trouble
        return moved(inputs, seed)

    found = check_canaries(canaries_in(read()), troubled, lambda one: SEEDS, environment=lambda one: HERE)
    assert [one.judgement.finding for one in found] == [Finding.UNDECIDED, Finding.INCONSISTENT]
    assert [one.drifted for one in found] == [False, True]
    assert str(trouble) in found[0].judgement.reason


def test_a_canary_that_can_not_be_judged_here_is_undecided(recorder, read):
    """Its policy names another calibration than the challenger has."""
    path = replace(PINNED, threshold_rule="path", calibration="0" * 64)
    commit(recorder, 3, policy=path, execution="e3")
    of = {"canary": canonical_bytes({"of": read_step(read(), "e3").commitment.digest})}
    commit(recorder, 3, policy=path, context=of)
    other = SimpleNamespace(plan=None, calibration=SimpleNamespace(digest="1" * 64))
    found = check_canaries(
        canaries_in(read()), answer, lambda one: SEEDS, environment=lambda one: HERE, calibrated=other
    )
    assert [(one.judgement.finding, "calibration" in one.judgement.reason) for one in found] == [
        (Finding.UNDECIDED, True)
    ]


def test_a_canary_is_read_at_its_place_whatever_executions_are_called(recorder, read):
    """Another step whose execution is called by the canary's place hides neither it nor the place."""
    made = make_canary(recorder, read_step(read(), "e1"), answer, SEEDS, environment=HERE)
    [canary] = canaries_in(read())
    commit(recorder, 4, execution=str(canary.place))
    export = read()
    assert [one.step.commitment for one in canaries_in(export)] == [made.commitment]
    assert read_step(export, str(canary.place)).commitment == made.commitment


def test_a_canary_of_which_no_output_is_compared_is_none(recorder, read):
    """Two outputs, and the policy names neither: the others are still found."""
    made = make_canary(recorder, read_step(read(), "e1"), answer, SEEDS, environment=HERE)
    parts = {"inputs": {"question": b"q5"}, "outputs": {"answer": b"a5", "log": b""}, "policy": PINNED}
    first = recorder.commit_to("answer", context={}, **parts)
    recorder.commit_to("answer", context={"canary": canonical_bytes({"of": first.commitment.digest})}, **parts)
    assert [one.step.commitment for one in canaries_in(read())] == [made.commitment]


@pytest.mark.parametrize(
    "changed",
    [
        {"inputs": {"question": b"q9"}},
        {"outputs": {"answer": b"made up"}},
        {"policy": replace(PINNED, retention_s=1)},
        {"context": {"canary": canonical_bytes({"of": "0" * 64})}},
        {"context": {"canary": b"[]"}},
        {"context": {"canary": b"\xff"}},
    ],
)
def test_what_repeats_no_step_of_the_run_is_no_canary(recorder, read, changed):
    """A recorder can't make a canary that drifts for everybody out of nothing: it must repeat a step as committed."""
    first = read_step(read(), "e1")
    parts = {"inputs": first.inputs, "outputs": first.outputs, "policy": PINNED}
    parts["context"] = {"canary": canonical_bytes({"of": first.commitment.digest})}
    recorder.commit_to("answer", **(parts | changed))
    assert canaries_in(read()) == ()
    recorder.commit_to("answer", **parts)
    assert len(canaries_in(read())) == 1


# The command


@pytest.fixture
def command(recorder, read, tmp_path, monkeypatch):
    """Runs `veristate challenge ...` on the store, beside a module that runs the stage again."""
    read()
    (tmp_path / "again.py").write_text(AGAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        done = CliRunner().invoke(app, ["challenge", *arguments])
        if isinstance(done.exception, VeristateError):
            return done.exception.exit_code, str(done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout

    yield run
    sys.modules.pop("again", None)


def test_made_listed_checked_and_used_by_the_command(command, tmp_path):
    """A healthy machine: consistent. One that moved: the canary drifts, and a challenge says drift, not fraud."""
    store, how = str(tmp_path / "run"), ("--rerun", "again:answer")
    assert "no canaries" in command("canary", "list", store)[1]
    assert command("canary", "check", store, *how)[0] == 2
    code, said = command("canary", "make", "e1", "--store", store, *how, "--json")
    assert (code, json.loads(said)["logged"]) == (0, 1)
    assert "answer, execution" in command("canary", "list", store)[1]
    assert command("canary", "check", store, *how)[0] == 0
    code, said = command(store, "e2", *how, "--json")
    assert (code, [one["drifted"] for one in json.loads(said)["canaries"]]) == (0, [False])
    sys.modules["again"].missing = b"q1"
    code, said = command(store, "e2", *how, "--json")
    assert (code, [one["reason"] for one in json.loads(said)["canaries"]]) == (0, ["not on this machine"])
    code, said = command("canary", "check", store, *how)
    assert (code, "not run, undecided (not on this machine)" in said) == (5, True)
    sys.modules["again"].missing = b""
    sys.modules["again"].shift = b"'"
    code, said = command("canary", "check", store, *how)
    assert (code, "DRIFTED" in said) == (6, True)
    code, said = command(store, "e2", *how)
    assert (code, said.startswith("ENVIRONMENT-DRIFT"), "Canary at place 3: DRIFTED" in said) == (5, True, True)
    # Of the very step that it repeats it is no evidence.
    code, said = command(store, "e1", *how, "--json")
    assert (code, json.loads(said)["verdict"], json.loads(said)["canaries"]) == (3, "inconsistent", [])


def test_a_challenger_may_believe_the_canaries_of_another_run(command, open_recorder, tmp_path):
    """Those of an export without any leave the recorder's out: it is accused."""
    store, how = str(tmp_path / "run"), ("--rerun", "again:answer")
    command("canary", "make", "e1", "--store", store, *how)
    other = open_recorder("other")
    commit(other, 3)
    Home.open(other).deliver()
    sys.modules["again"].shift = b"'"
    assert command("run", store, "e2", *how)[0] == 5
    assert command("run", store, "e2", *how, "--canaries", str(tmp_path / "other"))[0] == 3
