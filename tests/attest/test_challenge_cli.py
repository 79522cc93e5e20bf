"""`veristate challenge`: verdicts and exit codes from an export, and what it refuses."""

import json
import sys
from dataclasses import replace

import pytest
from attest_cases import commit
from typer.testing import CliRunner

from veristate.attest import EXACT, Home, export_run
from veristate.core import InputError, TamperError
from veristate.interfaces.cli.app import app

RERUNS = """
import veristate

def honest(inputs, seed):
    print("working")
    return inputs["question"].replace(b"q", b"a")

def other(inputs, seed):
    return b"made up"

def environment(inputs):
    return {"torch": "2.14"}

other.environment = environment
"""


@pytest.fixture
def exported(open_recorder, tmp_path, monkeypatch):
    """An export with a step whose policy names an environment, beside a module that runs it again."""
    recorder = open_recorder()
    commit(recorder, 1, policy=replace(EXACT, environment={"torch": "2.13"}))
    home = Home.open(recorder)
    home.deliver()
    export_run(home, tmp_path / "run.zip")
    (tmp_path / "policy").write_text(f"log {home.log.key}\nquorum none\n")
    (tmp_path / "again.py").write_text(RERUNS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("again", None)


def challenged(*options):
    """The exit code and the object on stdout."""
    done = CliRunner().invoke(app, ["challenge", "run.zip", "answer", "--json", *options])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def test_an_honest_step_is_consistent(exported):
    """Exit 0; what the rerun printed is not on stdout, and the seed repeats the challenge."""
    code, said = challenged("--rerun", "again:honest", "--policy", "policy")
    assert (code, said["verdict"], said["reruns"]) == (0, "consistent", 1)
    assert challenged("--rerun", "again:honest", "--seed", said["seed"]) == (0, said)


def test_another_output_is_inconsistent_only_in_the_environment_of_the_policy(exported):
    """Exit 3 where --environment agrees with the policy, exit 5 where it is another, as the rerun itself says."""
    code, said = challenged("--rerun", "again:other", "--environment", "torch=2.13")
    assert (code, said["verdict"], said["alpha"]) == (3, "inconsistent", "0")
    code, said = challenged("--rerun", "again:other")
    assert (code, said["verdict"]) == (5, "environment-drift")


def test_people_are_told_what_it_means(exported):
    """The text names verdict, stage, rule and how to repeat it."""
    done = CliRunner().invoke(
        app, ["challenge", "run.zip", "1", "--rerun", "again:other", "--environment", "torch=2.13"]
    )
    assert done.exit_code == 3
    assert done.stdout.startswith("INCONSISTENT: answer, execution ")
    assert "rule equal" in done.stdout
    assert "--seed" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --rerun"),
        (["--rerun", "again"], "module:function"),
        (["--rerun", "again:nothing"], "module:function"),
        (["--rerun", "nowhere:honest"], "module:function"),
        (["--rerun", "again:honest", "--seed", "xyz"], "not hexadecimal"),
        (["--rerun", "again:honest", "--environment", "torch"], "NAME=VALUE"),
        (["--rerun", "again:honest", "--plan", "policy"], "belong together"),
        (["--rerun", "again:honest", "--plan", "policy", "--calibration", "policy"], "not a veristate"),
        (["--rerun", "again:honest", "--policy", "none"], "no such file"),
    ],
)
def test_what_can_not_be_used_is_named(exported, options, said):
    """Each wrong option is an InputError that names it."""
    with pytest.raises(InputError, match=said):
        challenged(*options)


WEIGHED = """
from dataclasses import dataclass

@dataclass
class Token:
    likely: tuple
    place: int

def drawn(inputs, seed):
    return b"a%d" % (2 + seed[0] % 2)

def weigh(inputs, output):
    assert inputs["question"] in (b"q1", b"q9")
    return [Token((-0.7, -0.7), None if output == b"a9" else 0)] * 5

drawn.weigh = weigh

def unweighed(inputs, seed):
    return b"a2"
"""


def test_a_rerun_brings_the_model_that_its_metric_needs(open_recorder, tmp_path, monkeypatch):
    """As it brings its environment; without it the metric says what is missing."""
    sampled = replace(
        EXACT,
        nondeterminism="text",
        metric="likelihood",
        metric_parameters={"temperature": "1"},
        threshold_rule="median",
        threshold_parameters={"tau": "0.3"},
        reruns_upper=3,
    )
    recorder = open_recorder()
    for number in (1, 9):
        commit(recorder, number, policy=sampled)
    home = Home.open(recorder)
    home.deliver()
    export_run(home, tmp_path / "run.zip")
    (tmp_path / "weighing_again.py").write_text(WEIGHED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def verdict(place, rerun):
        done = CliRunner().invoke(app, ["challenge", "run.zip", place, "--json", "--rerun", f"weighing_again:{rerun}"])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return json.loads(done.stdout)["verdict"]

    assert verdict("1", "drawn") == "consistent"
    assert verdict("2", "drawn") == "inconsistent"
    with pytest.raises(InputError, match="needs the model"):
        verdict("1", "unweighed")


def test_a_changed_export_is_not_challenged(exported):
    """Tampering is said before anything is run again."""
    data = bytearray((exported / "run.zip").read_bytes())
    data[len(data) // 2] ^= 1
    (exported / "run.zip").write_bytes(data)
    with pytest.raises(TamperError):
        challenged("--rerun", "again:honest", "--policy", "policy")


def test_a_store_of_this_machine_can_be_challenged_too(exported, open_recorder):
    """The folder of the run in place of its export; a folder without commitments is refused."""
    store = next(path.parent for path in exported.rglob("ledger.sqlite"))
    done = CliRunner().invoke(app, ["challenge", str(store), "answer", "--rerun", "again:honest", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (0, "consistent")
    (exported / "empty").mkdir()
    with pytest.raises(InputError, match="nothing was committed"):
        CliRunner().invoke(app, ["challenge", "empty", "answer"], catch_exceptions=False)
