"""A screening as a step that others challenge: committed to once, run again from the commitment alone."""

import pytest

from veristate.attest import EXACT, Home, Recorder, export_run, read_export
from veristate.attest.challenge import Finding, challenge_step, read_step, rerun_seeds
from veristate.screening.challenging import STAGE, environment, rerun

SEEDS = rerun_seeds(b"seed", 1)


@pytest.fixture
def step(screen, tmp_path):
    """A screening under a simulated fault, read from the export of its store."""
    result = screen(inject="case2", seed=3)
    again = screen(inject="case2", seed=3)
    assert again.commitment == result.commitment != ""
    return exported(tmp_path, result.request_id)


def exported(tmp_path, which):
    """The step as a stranger reads it."""
    with Recorder.open(tmp_path / "home") as recorder:
        home = Home.open(recorder)
        home.deliver()
        (tmp_path / "run.zip").unlink(missing_ok=True)
        export_run(home, tmp_path / "run.zip")
    return read_step(read_export(tmp_path / "run.zip", None, now=2**40).require(), which)


def test_an_honest_screening_is_consistent_and_a_changed_score_is_not(step, tmp_path):
    """Run again from the export alone the certified table has the same bytes; one with another digit does not.

    The policy compares the table bit for bit, in the environment that the contract names.
    """
    here = environment(step.inputs)
    assert (step.policy.metric, step.compared, step.policy.environment) == (EXACT.metric, "table", here)
    judged = challenge_step(step, rerun, SEEDS, environment=here)
    assert (judged.finding, judged.reruns) == (Finding.CONSISTENT, 1)
    table = step.outputs["table"]
    forged = table.replace(b"0.", b"0.1", 1)
    with Recorder.open(tmp_path / "home") as recorder:
        recorder.commit_to(
            STAGE, inputs=step.inputs, outputs={"table": forged}, context={}, policy=step.policy, execution="forged"
        )
    wrong = exported(tmp_path, "forged")
    assert challenge_step(wrong, rerun, SEEDS, environment=here).finding is Finding.INCONSISTENT
    moved = here | {"torch": "another"}
    assert challenge_step(wrong, rerun, SEEDS, environment=moved).finding is Finding.ENVIRONMENT_DRIFT


def test_nothing_certified_is_nothing_committed_to(screen, tmp_path):
    """A budget that ends leaves no commitment, and no recorder's key either."""
    assert screen(budget=1, inject="case2", seed=3).commitment == ""
    assert not (tmp_path / "home" / "keys").exists()
