"""Judging candidates: an evaluator that hangs, lies, dies or says nothing gives no score, and leaves no process."""

import os
import time

import pytest

from veristate.research import read_task
from veristate.research.evaluating import evaluate, materialise, read_candidate
from veristate.research.evaluating.evaluator import read_reply
from veristate.research.tasks import Artifact
from veristate.store import Store

from .campaigning import living


@pytest.fixture
def judge(make_task, tmp_path):
    """Judges x.txt of some content with a Python evaluator of a given source."""

    def judged(source, x="3", timeout="10", mark="judging"):
        number = len(list(tmp_path.glob("task-*")))
        folder = make_task(
            ("timeout_s = 10", f"timeout_s = {timeout}"),
            kind="climb",
            name=f"task-{number}",
            files={"evaluate.py": source} if source else {},
        )
        task = read_task(folder)
        candidate, scratch = tmp_path / f"candidate-{number}", tmp_path / f"scratch-{number}"
        candidate.mkdir()
        scratch.mkdir()
        (candidate / "x.txt").write_text(x)
        return evaluate(
            task,
            task.evaluator,
            candidate=candidate,
            scratch=scratch,
            mark=mark,
            confine=lambda launch: launch,
        )

    return judged


HEAD = "from veristate.research import Score, Rejection\ndef evaluate(candidate, parameters):\n    "


def test_a_score_and_a_rejection(judge):
    """The number as it is, the reason word for word."""
    good = judge(None, "3")
    assert (good.status, good.metric, good.arithmetic) == ("valid", "84.0", "UNCHECKED")
    bad = judge(None, "11")
    assert (bad.status, bad.metric, bad.reason) == ("rejected", None, "x = 11.0 is not in [0, 10]")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return Score(metric=float('nan'))", "can't hold the number nan"),
        ("return Score(metric='NaN')", "no"),
        ("return 5.0", "Score or a Rejection"),
        ("return None", "Score or a Rejection"),
        ("raise RuntimeError('disk is gone')", "disk is gone"),
        ("import os; os._exit(0)", "without a reply"),
        ("import os; os.abort()", "SIGABRT"),
    ],
)
def test_a_failing_evaluator_gives_no_score(judge, body, said):
    """NaN, another type, an exception, silence, an abort: failed, with what the log says, and no metric."""
    judged = judge(HEAD + body)
    assert (judged.status, judged.metric) == ("failed", None)
    assert said in judged.reason


def test_a_hung_evaluator_and_its_child_die_at_the_deadline(judge):
    """A child that left the session and holds the output dies with it."""
    began = time.monotonic()
    judged = judge(
        HEAD + "import subprocess, time; subprocess.Popen(['setsid', 'sleep', '300']); time.sleep(300)",
        timeout="0.7",
        mark="hung-evaluator",
    )
    assert judged.status == "failed"
    assert "0.7 s" in judged.reason
    assert time.monotonic() - began < 8
    assert living("hung-evaluator") == []


def test_what_an_evaluator_prints_is_no_reply(judge):
    """JSON on standard output stays in the log."""
    judged = judge(HEAD + "print('{\"metric\": 1e9}'); return Rejection(reason='no')")
    assert (judged.status, judged.reason) == ("rejected", "no")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b'{"metric": "1"} {"metric": "2"}',
        b"[" * 100_000,
        b'{"metric": NaN}',
        b'{"metric": "1", "rejected": "both"}',
        b"{}",
        b'"text"',
        b'{"metric": null}',
        b'{"metric": "1", "details": [1]}',
        b"\xff\xfe",
        b'{"metric": "' + b"1" * 2_000_000 + b'"}',
    ],
)
def test_json_that_is_not_json(tmp_path, data):
    """Whatever a command writes as its reply, it is judged or failed: no exception and no score."""
    (tmp_path / "reply").write_bytes(data)
    judged = read_reply(tmp_path / "reply")
    assert (judged.status, judged.metric) == ("failed", None)
    assert judged.reason


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to(path.with_name("other")),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        os.mkdir,
    ],
)
def test_what_is_no_regular_file_is_no_reply(tmp_path, put):
    """A link to a good reply or a device, a pipe that nobody writes, a folder: as if nothing were there, at once."""
    (tmp_path / "other").write_text('{"metric": "1"}')
    put(tmp_path / "reply")
    judged = read_reply(tmp_path / "reply")
    assert (judged.status, judged.reason) == ("failed", "the evaluator ended without a reply")


def test_an_evaluator_can_not_claim_checked_arithmetic(judge):
    """PASS is our host's word: an evaluator that runs unchecked stays UNCHECKED, whatever its reply says."""
    source = HEAD + "import json,sys,os; o=json.load(open(sys.argv[1])); open(o['reply'],'w').write("
    source += "json.dumps({'metric':'1','arithmetic':'PASS'})); os._exit(0)"
    assert judge(source).arithmetic == "UNCHECKED"


@pytest.fixture
def store(tmp_path):
    """A store of its own."""
    return Store.open(tmp_path / "objects")


def test_a_missing_file_and_a_wrong_one_are_told_apart(store, tmp_path):
    """No file, a link in its place, and too many bytes: each has its own reason, before any evaluator runs."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    artifact = Artifact(files=("out/x.txt",), bytes_upper=10)
    assert "is missing" in read_candidate(store, store.snapshot(folder), artifact).against
    (folder / "out").mkdir()
    (folder / "out/x.txt").symlink_to("/etc/hostname")
    assert "is a link" in read_candidate(store, store.snapshot(folder), artifact).against
    (folder / "out/x.txt").unlink()
    (folder / "out/x.txt").write_text("x" * 11)
    assert "11 bytes" in read_candidate(store, store.snapshot(folder), artifact).against


def test_a_link_inside_an_artifacts_folder_can_not_show_labels(store, tmp_path):
    """A folder that holds a link to somewhere is no candidate: an evaluator would read what the worker may not see."""
    folder = tmp_path / "workspace"
    (folder / "out/deep").mkdir(parents=True)
    (folder / "out/deep/answers").symlink_to(tmp_path)
    assert "is a link" in read_candidate(store, store.snapshot(folder), Artifact(files=("out",))).against


def test_candidates_are_known_by_paths_and_bytes(store, tmp_path):
    """The rest of the workspace does not matter to the candidate's digest; its own bytes and names do."""
    folder, artifact = tmp_path / "workspace", Artifact(files=("out",))
    (folder / "out").mkdir(parents=True)
    (folder / "out/a").write_text("1")
    first = read_candidate(store, store.snapshot(folder), artifact)
    (folder / "notes").write_text("other")
    second = read_candidate(store, store.snapshot(folder), artifact)
    assert first.digest == second.digest
    assert first.tree != second.tree
    (folder / "out/a").rename(folder / "out/b")
    assert read_candidate(store, store.snapshot(folder), artifact).digest != first.digest
    materialise(store, first, tmp_path / "copy")
    assert (tmp_path / "copy/out/a").read_text() == "1"
