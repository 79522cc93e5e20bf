"""A campaign's evaluations as steps: committed to where they end, and run again by whoever has the task."""

import json
import shutil
from dataclasses import replace

import pytest

from veristate.attest import EXACT, Boundary, Home, Recorder, export_run, read_export
from veristate.attest.challenge import Finding, challenge_step, read_step, rerun_seeds
from veristate.core import InputError, canonical_bytes, digest
from veristate.research import CampaignHome, Surroundings, read_standing, read_task, run_campaign
from veristate.research.running.challenging import environment, recorded_folder, rerun

SEEDS = rerun_seeds(b"seed", 2)
TASK = """
format = "veristate.task/1"
name = "count"
description = "As large as allowed."
[objective]
metric = "x"
direction = "maximise"
[artifact]
files = ["x.txt"]
[evaluator]
command = ["{python}", "-S", "-E", "{task}/judge.py", "{candidate}", "{reply}"]
timeout_s = 20
[audit]
command = ["{python}", "-S", "-E", "{task}/judge.py", "{candidate}", "{reply}"]
timeout_s = 20
[worker]
command = ["{python}", "-S", "-E", "{task}/worker.py"]
[budget]
wall_s = 60
queries = 4
"""
JUDGE = """
import json, pathlib, random, sys
candidate, reply = map(pathlib.Path, sys.argv[1:])
x = (candidate / "x.txt").read_text()
said = {"metric": x}
if x == "2":
    said = {"rejected": "two is none"}
if x == "5":
    said = {"metric": str(random.random())}
if x == "6":
    sys.exit("broken")
reply.with_suffix(".draft").write_text(json.dumps(said))
reply.with_suffix(".draft").rename(reply)
"""
WORKER = """
import os, pathlib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
mailbox = pathlib.Path(os.environ["VERISTATE_MAILBOX"])
loader = SourceFileLoader("submit", str(mailbox / "submit"))
module = module_from_spec(spec_from_loader("submit", loader)); loader.exec_module(module)
for x in NUMBERS:
    pathlib.Path("x.txt").write_text(str(x))
    module.ask(mailbox, {"kind": "submit", "note": ""})
"""


@pytest.fixture
def task(tmp_path):
    """A task whose worker hands in some numbers, in a folder."""

    def made(*numbers):
        folder = tmp_path / "count"
        folder.mkdir()
        (folder / "task.toml").write_text(TASK.replace("queries = 4", f"queries = {len(numbers)}"))
        (folder / "judge.py").write_text(JUDGE)
        (folder / "worker.py").write_text(WORKER.replace("NUMBERS", repr(numbers)))
        return folder

    return made


@pytest.fixture
def campaign(tmp_path, task, unsynced):
    """Runs a campaign with a boundary: its task's folder and what a stranger reads of its steps."""

    def run(*numbers):
        folder = task(*numbers)
        boundary = Boundary(tmp_path / "store", tell=pytest.fail)
        run_campaign(CampaignHome(folder=tmp_path / "home"), read_task(folder), None, Surroundings(boundary=boundary))
        boundary.close()
        return folder, exported(tmp_path)

    return run


def exported(tmp_path):
    """The store's steps by export."""
    with Recorder.open(tmp_path / "store") as recorder:
        home = Home.open(recorder)
        home.deliver()
        (tmp_path / "run.zip").unlink(missing_ok=True)
        export_run(home, tmp_path / "run.zip")
    return read_export(tmp_path / "run.zip", None, now=2**40).require()


def judged(step, folder=None):
    """The judgement of a challenger who has the task in `folder`."""
    return challenge_step(
        step,
        lambda inputs, seed: rerun(inputs, seed, folder=folder),
        SEEDS,
        environment=environment(step.inputs),
    )


def test_every_evaluation_and_audit_is_committed_to_and_repeats(campaign, tmp_path):
    """Three candidates, one of them rejected, and the audit of the best: each consistent to who has the task."""
    folder, export = campaign(1, 2, 3)
    steps = [read_step(export, str(step.place)) for step in export.steps]
    stages = [step.commitment.stage.rpartition(".")[2] for step in steps]
    assert stages == ["evaluation"] * 3 + ["audit"]
    told = [json.loads(step.outputs["judgement"]) for step in steps]
    assert [one["metric"] for one in told] == ["1", None, "3", "3"]
    assert [one["status"] for one in told] == ["valid", "rejected", "valid", "valid"]
    assert json.loads(steps[0].outputs["reply"]) == {"metric": "1"}
    assert steps[0].inputs["file 0"] == b"1"
    assert recorded_folder(steps[0].inputs) == folder
    assert [judged(step, folder).finding for step in steps] == [Finding.CONSISTENT] * 4
    cards = {card.place: card for card in read_standing(CampaignHome(folder=tmp_path / "home")).cards}
    assert [card.tree.encode() for card in cards.values()] == [step.context["tree"] for step in steps[:3]]


def test_a_made_up_judgement_is_inconsistent(campaign, tmp_path):
    """The same candidate with a better metric, in the recorder's own name."""
    folder, export = campaign(1)
    honest = read_step(export, "veristate.research.evaluation")
    better = {"judgement": honest.outputs["judgement"].replace(b'"1"', b'"7"')}
    with Recorder.open(tmp_path / "store") as recorder:
        recorder.commit_to(
            honest.commitment.stage,
            inputs=honest.inputs,
            outputs=better,
            context={},
            policy=honest.policy,
            execution="made up",
        )
    found = judged(read_step(exported(tmp_path), "made up"), folder)
    assert (found.finding, found.reruns, found.alpha) == (Finding.INCONSISTENT, 2, "0")


def test_without_the_same_task_nothing_is_judged(campaign, tmp_path):
    """No task, or another one: undecided, with the reason; no code is looked for where the commitment says it was."""
    folder, export = campaign(1)
    step = read_step(export, "veristate.research.evaluation")
    found = judged(step)
    assert (found.finding, "does not come with veristate" in found.reason) == (Finding.UNDECIDED, True)
    other = shutil.copytree(folder, tmp_path / "other" / "count")
    (other / "judge.py").write_text(JUDGE.replace('"metric": x', '"metric": "9"'))
    found = judged(step, other)
    assert (found.finding, "not the one" in found.reason) == (Finding.UNDECIDED, True)


def test_an_evaluator_that_draws_accuses_nobody(campaign):
    """Its reruns differ from each other, so equality says nothing."""
    folder, export = campaign(5)
    found = judged(read_step(export, "veristate.research.evaluation"), folder)
    assert (found.finding, found.reruns) == (Finding.UNCALIBRATED, 2)


def test_an_evaluator_that_fails_is_another_stage(campaign):
    """What it says of the candidate is nothing; failing here too is the challenger's own failure."""
    folder, export = campaign(6)
    [step] = [read_step(export, str(step.place)) for step in export.steps]
    assert step.commitment.stage == "veristate.research.failed-evaluation"
    assert judged(step, folder).finding is Finding.UNDECIDED


@pytest.mark.parametrize("path", ["../x.txt", "/tmp/x.txt", "", "a/../../b"])
def test_a_candidate_that_leads_out_of_its_folder_is_refused(campaign, path):
    """An export is untrusted: no file of it is written elsewhere."""
    folder, export = campaign(1)
    inputs = dict(read_step(export, "veristate.research.evaluation").inputs)
    inputs["candidate"] = canonical_bytes([[path.encode().hex(), digest(inputs["file 0"])]])
    with pytest.raises(InputError, match="no file of a candidate"):
        rerun(inputs, b"", folder=folder)
    with pytest.raises(InputError, match="none of an evaluation"):
        rerun(inputs | {"candidate": b"[1]"}, b"", folder=folder)


def test_a_store_that_refuses_does_not_stop_a_campaign(task, tmp_path, unsynced):
    """Two evaluations and the audit without a commitment, told once; the results are there."""
    (tmp_path / "store").write_text("no folder")
    told = []
    boundary = Boundary(tmp_path / "store", tell=told.append)
    home = CampaignHome(folder=tmp_path / "home")
    result = run_campaign(home, read_task(task(1, 3)), None, Surroundings(boundary=boundary))
    assert [card.metric for card in result.standing.cards] == ["1", "3"]
    assert (len(told), boundary.missing) == (1, 3)


def test_a_policy_compares_the_judgement_in_its_environment(campaign):
    """Bit for bit, with two reruns, and nobody is accused where Python or a library is another."""
    folder, export = campaign(1)
    step = read_step(export, "veristate.research.evaluation")
    assert (step.policy.metric, step.policy.reruns_upper, step.compared) == (EXACT.metric, 2, "judgement")
    forged = replace(step, outputs=step.outputs | {"judgement": b"{}"})
    elsewhere = environment(step.inputs) | {"python": "2.7"}
    moved = challenge_step(forged, lambda i, s: rerun(i, s, folder=folder), SEEDS, environment=elsewhere)
    assert moved.finding is Finding.ENVIRONMENT_DRIFT
