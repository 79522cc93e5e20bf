"""A campaign's evaluations as steps: committed to where they end, and run again by whoever has the task."""

import json
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from veristate.attest import EXACT, Boundary, Home, Recorder, export_run, read_export
from veristate.attest.challenge import Finding, challenge_step, read_step, rerun_seeds
from veristate.core import InputError, canonical_bytes, digest
from veristate.interfaces.cli.reruns import runner_of
from veristate.research import CampaignHome, Surroundings, read_standing, read_task, run_campaign
from veristate.research.evaluating import Judgement, read_candidate
from veristate.research.running.challenging import environment, recorded_folder, rerun
from veristate.research.running.committing import committing
from veristate.research.running.opening import task_digest
from veristate.research.sandbox import confining
from veristate.store import Store

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
import json, os, pathlib, random, sys
candidate, reply = map(pathlib.Path, sys.argv[1:])
x = (candidate / "x.txt").read_text()
said = {"metric": x}
if x == "2":
    said = {"rejected": "two is none"}
if x == "5":
    said = {"metric": str(random.random())}
if x == "6":
    sys.exit("broken")
secret = pathlib.Path(__file__).with_name("secret")
if x == "7":
    reply.symlink_to(secret)
    sys.exit(0)
if x == "8":
    (reply.parent / "log.txt").unlink()
    (reply.parent / "log.txt").symlink_to(secret)
    sys.exit(1)
if x == "9":
    said = {"metric": (pathlib.Path(os.environ["VERISTATE_DATA"]) / "x").read_text()}
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
    """A task whose worker hands in some numbers, in a folder, with more lines."""

    def made(*numbers, more=""):
        folder = tmp_path / "count"
        folder.mkdir(exist_ok=True)
        (folder / "task.toml").write_text(TASK.replace("queries = 4", f"queries = {len(numbers)}") + more)
        (folder / "judge.py").write_text(JUDGE)
        (folder / "worker.py").write_text(WORKER.replace("NUMBERS", repr(numbers)))
        return folder

    return made


@pytest.fixture
def campaign(tmp_path, task, unsynced):
    """Runs a campaign with a boundary: its task's folder and what a stranger reads of its steps."""

    def run(*numbers, more=""):
        folder = task(*numbers, more=more)
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
    """The judgement of a challenger who has the task in `folder`, and trusts the candidate where no sandbox is."""
    return challenge_step(
        step,
        lambda inputs, seed: rerun(inputs, seed, folder=folder, unconfined=True),
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


@pytest.mark.parametrize(
    ("judgement", "stage"),
    [
        (Judgement(status="valid", metric="109.0", arithmetic="FLAG"), "failed-evaluation"),
        (Judgement(status="valid", metric="9.0", arithmetic="PASS"), "evaluation"),
        (Judgement(status="failed", reason="broken"), "failed-evaluation"),
    ],
)
def test_a_flagged_metric_is_nothing_to_compare(task, tmp_path, judgement, stage):
    """A fault's metric repeats on no healthy machine: whoever recorded it honestly is not accused of it."""
    read = read_task(task(1))
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "x.txt").write_text("9")
    store, told = Store.open(tmp_path / "objects"), []
    candidate = read_candidate(store, store.snapshot(tmp_path / "workspace"), read.artifact)
    boundary = SimpleNamespace(commit_to=lambda stage, **_: told.append(stage))
    committing(read, store, boundary)("one", read.evaluator, candidate, judgement, tmp_path / "reply")
    assert told == [f"veristate.research.{stage}"]


def test_what_is_no_file_of_the_evaluators_is_not_committed(campaign, tmp_path):
    """A link that candidate's code left in the place of the reply or of the log: nothing of its target goes along."""
    (tmp_path / "count").mkdir()
    (tmp_path / "count" / "secret").write_text('{"key": "sk-hidden"}')
    folder, export = campaign(7, 8)
    assert (folder / "secret").exists()
    steps = [read_step(export, str(step.place)) for step in export.steps]
    assert [list(step.outputs) for step in steps] == [["judgement"]] * 2
    assert not any(b"sk-hidden" in (data or b"") for step in steps for data in step.context.values())


def test_other_data_accuses_nobody(campaign, tmp_path, monkeypatch):
    """The commitment doesn't say what the data folder held: with another content the step is not what it was."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(str(len(name)))
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path / "first"))
    folder, export = campaign(9, more='[resources]\ndata = "worker"\n')
    step = read_step(export, "veristate.research.evaluation")
    assert json.loads(step.outputs["judgement"])["metric"] == "5"
    assert judged(step, folder).finding is Finding.CONSISTENT
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path / "second"))
    found = judged(step, folder)
    assert (found.finding, "differs in the data folder" in found.reason) == (Finding.ENVIRONMENT_DRIFT, True)


def test_without_a_sandbox_a_candidate_runs_only_when_that_is_wanted(campaign, monkeypatch, capsys):
    """An evaluator may run what an export brings; with --unconfined it does, and the user is told."""
    folder, export = campaign(1)
    step = read_step(export, "veristate.research.evaluation")
    monkeypatch.setattr(confining, "_works", lambda: False)
    found = challenge_step(step, partial(rerun, folder=folder), SEEDS, environment=environment(step.inputs))
    assert (found.finding, "--unconfined" in found.reason) == (Finding.UNDECIDED, True)
    for unconfined, finding in ((False, Finding.UNDECIDED), (True, Finding.CONSISTENT)):
        runner = runner_of(None, step, folder=folder, recorded_here=False, unconfined=unconfined)
        found = challenge_step(step, runner.rerun, SEEDS, environment=runner.here(step, None))
        assert found.finding is finding
        assert (confining.NO_SANDBOX in capsys.readouterr().err) is unconfined


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidate": canonical_bytes([[b"x.txt".hex(), digest(b"1")], [b"y".hex(), digest(b"1")]])},
        {"evaluator": b'{"task": "count", "task_digest": "DIGEST", "audit": false}'},
        {"evaluator": b"[]"},
        {"evaluator": b"[" * 100_000},
        {"candidate": canonical_bytes([[b"a".hex(), digest(b"1")], [b"a/b".hex(), digest(b"1")]]), "file 1": b"1"},
    ],
)
def test_an_export_that_is_none_of_ours_is_refused_by_name(campaign, wrong):
    """A file that is missing, a field that is missing, other JSON, a file in the place of a folder: a clear error."""
    folder, export = campaign(1)
    inputs = dict(read_step(export, "veristate.research.evaluation").inputs)
    said = json.loads(inputs["evaluator"])
    wrong = {name: data.replace(b"DIGEST", said["task_digest"].encode()) for name, data in wrong.items()}
    with pytest.raises(InputError, match="the committed"):
        rerun(inputs | wrong, b"", folder=folder, unconfined=True)
    if wrong.get("evaluator", b"").startswith(b"["):
        with pytest.raises(InputError, match="the committed"):
            recorded_folder(inputs | wrong)


def test_an_audit_of_a_task_without_one_is_refused(campaign):
    """The task here has the committed digest, and no audit."""
    folder, export = campaign(1)
    inputs = dict(read_step(export, "veristate.research.evaluation").inputs)
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml[: toml.index("[audit]")] + toml[toml.index("[worker]") :])
    said = json.loads(inputs["evaluator"]) | {"audit": True, "task_digest": task_digest(read_task(folder))}
    with pytest.raises(InputError, match="has no audit"):
        rerun(inputs | {"evaluator": canonical_bytes(said)}, b"", folder=folder, unconfined=True)


@pytest.mark.parametrize("path", ["../x.txt", "/tmp/x.txt", "", "a/../../b"])
def test_a_candidate_that_leads_out_of_its_folder_is_refused(campaign, path):
    """An export is untrusted: no file of it is written elsewhere."""
    folder, export = campaign(1)
    inputs = dict(read_step(export, "veristate.research.evaluation").inputs)
    inputs["candidate"] = canonical_bytes([[path.encode().hex(), digest(inputs["file 0"])]])
    with pytest.raises(InputError, match="no file of a candidate"):
        rerun(inputs, b"", folder=folder, unconfined=True)
    with pytest.raises(InputError, match="none of an evaluation"):
        rerun(inputs | {"candidate": b"[1]"}, b"", folder=folder, unconfined=True)


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
    again = partial(rerun, folder=folder, unconfined=True)
    moved = challenge_step(forged, again, SEEDS, environment=elsewhere)
    assert moved.finding is Finding.ENVIRONMENT_DRIFT
