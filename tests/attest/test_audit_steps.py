"""A study's groups as steps: committed to when whole, also after a kill, and run again by whoever has the data."""

import json
from dataclasses import replace

import numpy as np
import pytest

import veristate.audit.study.opening as opening
from veristate.agents.claims import LexicalController
from veristate.attest import Boundary, Home, Recorder, export_run, read_export
from veristate.attest.challenge import Finding, challenge_step, read_step, rerun_seeds
from veristate.audit.study import committing, open_bench, opened, read_study, run_study
from veristate.audit.study.challenging import environment, recorded_folder, rerun
from veristate.audit.tasks import Data
from veristate.audit.tasks.judges import best_columns
from veristate.audit.tasks.scifact_text import Abstract, Claim, SciFactText
from veristate.audit.tasks.task import Description, LayeredTask, Product, TaskOutcome
from veristate.core import InputError

SEEDS = rerun_seeds(b"seed", 2)
STUDY = """
name = "tiny"
task = "scifact"
[agent]
kind = "controller"
[[captures]]
name = "bf16"
kind = "bf16"
[claims]
choose = ["0", "1"]
[statistics]
resamples = 10
"""
ARRAYS = """
name = "arrays"
task = "scifact"
[[captures]]
name = "mine"
kind = "files"
candidate = "mine.npy"
"""


def tiny_task(seed=5):
    """Two claims against fourteen documents, so close that BF16 changes lists."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal(8)
    X = (rng.standard_normal((2, 8)) * 0.2 + base).astype(np.float32)
    W = (rng.standard_normal((14, 8)) * 0.004 + base).astype(np.float32)
    about = Description(name="tiny", data="", size=(), split=(), computation="", endpoint="", aggregate="", differs="")
    return LayeredTask(
        about=about,
        X=X,
        layers=(Product(site="scores", W=W),),
        judge=lambda scores: TaskOutcome(lists=best_columns(scores, 10), labels=None, metrics=(("first", 0.5),)),
    )


@pytest.fixture(autouse=True)
def tiny(monkeypatch, unsynced):
    """The tiny task and its text in the place of SciFact's."""
    abstracts = tuple(Abstract(id=f"d{n:02}", title=f"Rays {n}", sentences=(f"Kind {n}.",)) for n in range(14))
    claims = tuple(Claim(id=str(n), text="rays", evidence=(), relevant=frozenset({"d00"})) for n in range(2))
    monkeypatch.setattr(opening, "load_task", lambda name, data: tiny_task())
    monkeypatch.setattr(opening, "read_scifact", lambda data: SciFactText(abstracts=abstracts, claims=claims))


@pytest.fixture
def audit(tmp_path):
    """Runs a study with a boundary, as a new process would."""

    def run(text=STUDY, *, limit=None, controller=LexicalController, boundary=None):
        (tmp_path / "study.toml").write_text(text)
        spec = read_study(tmp_path / "study.toml")
        boundary = boundary or Boundary(tmp_path / "store", tell=pytest.fail)
        bench = open_bench(spec, Data(folder=None), lambda temperature, seed: controller())
        settle = committing(spec, text, tmp_path, boundary)
        run_study(spec, bench, tmp_path / "run", clock=lambda: "2026-01-01T00:00:00Z", limit=limit, settle=settle)
        boundary.close()

    return run


@pytest.fixture
def steps(tmp_path):
    """The committed groups as a stranger reads them."""

    def read():
        with Recorder.open(tmp_path / "store") as recorder:
            home = Home.open(recorder)
            home.deliver()
            (tmp_path / "run.zip").unlink(missing_ok=True)
            export_run(home, tmp_path / "run.zip")
        export = read_export(tmp_path / "run.zip", None, now=2**40).require()
        return [read_step(export, str(step.place)) for step in export.steps]

    return read


def judged(step, folder=None):
    """The judgement of a challenger with the same data."""
    return challenge_step(
        step, lambda inputs, seed: rerun(inputs, seed, folder=folder), SEEDS, environment=environment(step.inputs)
    )


def test_each_group_is_committed_to_and_repeats(audit, steps, tmp_path):
    """Two claims, two steps, each consistent; another verdict in one of them is inconsistent."""
    audit()
    found = steps()
    assert [step.commitment.stage for step in found] == ["veristate.audit.group"] * 2
    assert [step.commitment.execution.split("/")[:5] for step in found] == [
        ["tiny", "main", "bf16", claim, "0"] for claim in ("0", "1")
    ]
    assert found[0].inputs["study"] == STUDY.encode()
    assert recorded_folder(found[0].inputs) == tmp_path
    assert [judged(step).finding for step in found] == [Finding.CONSISTENT] * 2
    told = json.loads(found[0].outputs["group"])
    told[0][1]["attempts"][0]["path"]["verdict"] = "MADE UP"
    forged = replace(found[0], outputs=found[0].outputs | {"group": json.dumps(told).encode()})
    assert judged(forged).finding is Finding.INCONSISTENT


def test_a_study_that_stops_commits_to_whole_groups_and_goes_on(audit, steps, tmp_path):
    """After three executions no group is whole; a kill between the last one and its commitment costs nothing."""
    audit(limit=3)
    assert not (tmp_path / "store").exists()
    refusing = Boundary(tmp_path / "study.toml", tell=lambda why: None)
    audit(boundary=refusing)
    assert refusing.missing == 2
    audit()
    once = [step.commitment.execution for step in steps()]
    assert len(once) == 2
    audit()
    assert [step.commitment.execution for step in steps()] == once
    with opened(tmp_path / "run") as recorded:
        assert {one.key for one in recorded.all.values()} == {
            key for step in steps() for key in json.loads(step.inputs["group"])["keys"].values()
        }


def test_other_data_judge_nothing(audit, steps, monkeypatch):
    """Where captures are other than the recorder's the group is undecided, and the reason names what differs."""
    audit()
    monkeypatch.setattr(opening, "load_task", lambda name, data: tiny_task(seed=6))
    found = judged(steps()[0])
    assert found.finding is Finding.UNDECIDED
    assert "other than the recorder's" in found.reason
    assert "H1" in found.reason


def test_a_study_of_own_files_needs_those_files(audit, steps, tmp_path):
    """Arrays of the user's: consistent with the folder they lie in, undecided without it or with other bytes."""
    X, W = tiny_task().X, tiny_task().layers[0].W
    np.save(tmp_path / "mine.npy", (X @ W.T * np.float32(1.0001)).astype(np.float32))
    audit(ARRAYS)
    [step] = steps()
    assert judged(step, tmp_path).finding is Finding.CONSISTENT
    assert judged(step).finding is Finding.UNDECIDED
    np.save(tmp_path / "mine.npy", np.zeros((2, 14), np.float32))
    found = judged(step, tmp_path)
    assert (found.finding, "files" in found.reason) == (Finding.UNDECIDED, True)


def test_a_model_behind_an_address_repeats_nowhere(audit, steps):
    """The verdict says why, and asks nobody."""
    text = STUDY.replace('kind = "controller"', 'kind = "endpoint"\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"', 1)
    audit(text)
    found = judged(steps()[0])
    assert (found.finding, "m at an address" in found.reason) == (Finding.UNDECIDED, True)


def test_inputs_of_something_else_are_refused(audit, steps):
    """What is no group can't be run."""
    audit()
    [step, _] = steps()
    for changed in ({"group": b"[]"}, {"group": b"{"}, {"study": b"\xff"}, {"study": b"name = 1"}):
        with pytest.raises(InputError):
            rerun(step.inputs | changed, b"")


@pytest.mark.parametrize("group", [b"[]", b"{}", b"no JSON", b"[" * 100_000])
def test_a_group_that_names_no_folder_is_refused(group):
    """Whatever an export holds in its place: a clear error."""
    with pytest.raises(InputError, match="none of a group"):
        recorded_folder({"group": group})
