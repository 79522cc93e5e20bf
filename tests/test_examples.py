"""Every example runs as its first lines say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from veristate.agents.models import LocalModel
from veristate.core import EnvironmentUnusableError

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(*command, **environment):
    """The output of a command in the examples' folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_layer_is_checked():
    """The honest product passes, the changed value is found."""
    assert run("check_a_layer.py").splitlines() == [
        "as returned: PASS",
        "one value off by 0.05: FLAG at [(123, 45)]",
    ]


def test_training_stops_at_the_faulty_step():
    """The step and the layer of the simulated fault are named, and the loss never showed it."""
    said = run("stop_at_a_fault.py")
    assert "step 12: loss" in said
    assert "FLAG          2: addmm" in said
    assert "wrong at (3, 5)" in said


def test_a_model_of_ones_own_is_screened():
    """A torch ensemble from a factory, with a simulated fault, to a committed decision."""
    said = run("own_model.py")
    assert said.startswith("SIMULATED FAULT")
    assert "COMMITTED for request-" in said


def test_an_agent_of_ones_own_decides(tmp_path):
    """The gateway commits what the user's agent proposed."""
    table = tmp_path / "t.csv"
    table.write_text("id,row\n" + "".join(f"t{i},{i}\n" for i in range(300, 380)))
    options = ["--smiles-column", "row", "--predictor", "own_model:make", "--agent", "own_agent:cautious"]
    said = run("-m", "veristate", "screen", table, *options, "--store", tmp_path / "home", PYTHONPATH=str(EXAMPLES))
    assert "COMMITTED for request-" in said


def test_a_reply_to_another_question_is_told_from_samples():
    """The small model samples, commits and is challenged: three replies are consistent, one is not."""
    try:
        LocalModel().close()
    except EnvironmentUnusableError as error:
        pytest.skip(str(error))
    said = run("challenge_a_model.py").splitlines()
    assert [line.partition(":")[0] for line in said] == [*["CONSISTENT"] * 3, "INCONSISTENT"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_mentioned_in_the_readme(path):
    """A reader finds it."""
    assert f"examples/{path.name}" in (EXAMPLES.parent / "README.md").read_text()


def test_a_stranger_verifies_and_challenges_a_decision():
    """Screened under a simulated fault, witnessed, exported, verified, run again; a changed byte is tampering."""
    said = run("whole_chain.py")
    for what in (
        "COMMITTED for request-",
        "cosigned by example.org/witness",
        "CONSISTENT: veristate.screening",
        "TAMPERED",
    ):
        assert what in said
