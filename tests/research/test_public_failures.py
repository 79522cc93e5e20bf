"""Failures that others reported of their engines and that no other test here covers; docs/public-bugs.md lists them."""

import errno
import shutil
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from decimal import Decimal

from veristate.ledger import Ledger
from veristate.research import CampaignOptions, Surroundings, Talk, read_task, run_campaign
from veristate.research.processes import Launch, start
from veristate.store import Store

from .campaigning import assert_whole
from .test_engine import MODEL, _of_tree, _store, script, talking, tool


def test_workers_are_apart(make_task, run):
    """Two workers have seeds and workspaces of their own, and the results of each stand under its own name."""
    body = "pathlib.Path('seed').write_text(str(segment['seed'])); submit(1 if segment['worker'] == 'w0' else 2)\n"
    body += "time.sleep(0.5); submit(12)"
    result = run(make_task(files=script(body)), options=CampaignOptions(workers=2))
    first, second = (result.standing.workers[name].cards[0] for name in ("w0", "w1"))
    assert (first.metric, second.metric) == ("879", "900")
    assert _of_tree(result, first.tree, "seed") != _of_tree(result, second.tree, "seed")


CRASHING = """
import pathlib, sys
gone = pathlib.Path(__file__).parent.parent / "crashed"
if not gone.exists():
    gone.write_text(""); pathlib.Path("left").write_text("x" * 100000); sys.exit("out of memory on the device")
pathlib.Path(sys.argv[2]).write_text('{"metric": "1000"}')
"""


def test_an_evaluators_crash_loses_no_work(make_task, run):
    """The state it should have judged is kept, its last words are told, its scratch is gone, and the same candidate is
    judged when it is handed in again, also in the next segment.
    """
    body = "pathlib.Path('trained').write_text('for hours') if segment['segment'] == 1 else None\n"
    body += "r = submit(12); pathlib.Path('told').write_text(r['text'])"
    result = run(make_task(files=script(body) | {"judge.py": CRASHING}))
    failed, valid = result.standing.cards
    assert (failed.status, valid.status, valid.segment) == ("failed", "valid", 2)
    assert "out of memory on the device" in failed.reason
    assert "out of memory on the device" in _of_tree(result, valid.tree, "told")
    assert _of_tree(result, failed.tree, "trained") == "for hours"
    assert list((result.task.folder.parent / "home" / "evaluations").iterdir()) == []


def test_a_stop_after_a_failed_evaluation_is_not_the_end(make_task, home):
    """Resumed after nothing but a failure, the campaign goes on to its target instead of calling itself complete."""
    body = "submit(12); time.sleep(0.2 if segment['segment'] > 1 else 60)"
    stop = threading.Event()
    around = Surroundings(progress=lambda standing: stop.set() if standing.cards else None, stop=stop)
    folder = make_task(files=script(body) | {"judge.py": CRASHING})
    assert run_campaign(home, read_task(folder), CampaignOptions(), around).reason == ""
    assert [card.status for card in assert_whole(home).cards] == ["failed"]
    assert run_campaign(home).reason == "target: 1000 is reached"
    assert_whole(home)


def test_a_full_disk_ends_the_worker_with_the_reason(make_task, run, monkeypatch):
    """No endless loop and no result without its state: the third snapshot finds no room, two cards stand."""
    snapshot, room = Store.snapshot, iter([1] * 4)

    def full(self, folder, **options):
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return snapshot(self, folder, **options)

    monkeypatch.setattr(Store, "snapshot", full)
    began = time.monotonic()
    result = run(make_task(files=script("[submit(x) for x in (1, 2)] if segment['segment'] == 1 else submit(12)")))
    assert time.monotonic() - began < 20
    assert "No space left on device" in result.reason
    assert [card.metric for card in result.standing.cards] == ["879", "900"]


def test_a_repository_in_the_workspace_is_files_like_others(make_task, run):
    """Its .git is neither renamed nor locked nor left out, comes back with a restored state, and nothing outside the
    workspace, such as the worker's HOME, is archived.
    """
    body = """
pathlib.Path(os.environ["HOME"], "private").write_text("x" * 50)
if segment["segment"] == 1:
    pathlib.Path(".git").mkdir(); pathlib.Path(".git/HEAD").write_text("ref: refs/heads/main")
    pathlib.Path(".git/index.lock").write_text(""); submit(11); shutil.rmtree(".git"); submit(3)
else:
    submit(12)
"""
    result = run(make_task(files=script("import shutil" + body)))
    assert result.standing.workers["w0"].segments[1].restart == "w0/S01"
    last = result.standing.cards[-1].tree
    assert _of_tree(result, last, ".git/HEAD") == "ref: refs/heads/main"
    assert _of_tree(result, last, ".git/index.lock") == ""
    names = {entry.name for entry in _store(result).tree(last).entries}
    assert names == {b".git", b"AGENTS.md", b"CLAUDE.md", b"x.txt"}


def test_a_sandbox_that_does_not_start_is_no_success(make_task, home):
    """Nothing runs outside it instead: the worker ends with the program's name, and there is no result."""
    around = Surroundings(confine=lambda launch: replace(launch, argv=("/no/such/sandbox", *launch.argv)))
    result = run_campaign(home, read_task(make_task()), CampaignOptions(), around)
    assert result.standing.cards == []
    assert "/no/such/sandbox" in result.reason
    assert_whole(home)


def test_a_zombie_holds_nobody(tmp_path):
    """A child that has ended and that nobody waits for does not keep its tree from ending."""
    body = "import os, time\nif os.fork() == 0: os._exit(0)\ntime.sleep(60)"
    argv = (sys.executable, "-S", "-E", "-c", body)
    running = start(Launch(argv=argv, cwd=tmp_path, environment={}, output=tmp_path / "log", mark="zombie"))
    time.sleep(0.3)
    began = time.monotonic()
    running.end()
    assert time.monotonic() - began < 5


def test_a_brief_beyond_the_context_asks_no_model(make_task, run):
    """A window that not even the brief fits into ends the campaign, instead of condensing for ever."""
    talk, asked = talking()
    result = run(make_task(("stages = 4", "stages = 4\ncontext_chars = 50")), options=MODEL, talk=talk)
    assert asked == []
    assert "the context limit" in result.reason


def test_money_is_a_hard_limit_before_the_call(make_task, run):
    """A call whose price could pass the limit is not made."""
    talk, asked = talking(*[tool("read", "x.txt")] * 50, tokens=(1000, 100))
    priced = Talk(say=talk.say, reply_tokens=100, prompt_price=Decimal(100), reply_price=Decimal(1000))
    result = run(make_task(("queries = 1000", 'money = "1.0"')), options=MODEL, talk=priced)
    assert 1 <= len(asked) <= 5
    assert result.standing.spent_money() <= 1
    assert result.reason.startswith("budget: ")
    assert "money" in result.reason or "does not fit" in result.reason


def test_states_grow_with_their_changes_alone(make_task, run):
    """Twelve states of a workspace with the same 3 MB take the room of one of them."""
    body = "pathlib.Path('big').write_bytes(os.urandom(3_000_000)) if segment['segment'] == 1 else None\n"
    body += "s = segment['segment']; [submit(x) for x in range(4 * s - 3, 4 * s + 1)]"
    result = run(make_task(files=script(body)))
    assert len(result.standing.cards) == 12
    blobs = result.task.folder.parent / "home" / "objects" / "blobs"
    assert sum(path.stat().st_size for path in blobs.rglob("*") if path.is_file()) < 3_300_000
    journal = (result.task.folder.parent / "home" / "ledger.sqlite").stat().st_size
    assert journal < 12 * 40_000


def test_no_name_is_left_out_of_a_restore(tmp_path):
    """Folders that other tools skip or link away come back, with bytes, modes and links that lead out."""
    work = tmp_path / "work"
    for number, name in enumerate((".venv", "__pycache__", "dataset", "logs", "node_modules", "submissions", "tmp")):
        (work / name / "empty").mkdir(parents=True)
        (work / name / "real").write_bytes(bytes([number]) * 100)
        (work / name / "real").chmod(0o640 + number)
        (work / name / "out").symlink_to("../../elsewhere")
        (work / name).chmod(0o700 + number)
    before = listed(work)
    store = Store.open(tmp_path / "objects")
    tree = store.snapshot(work)
    shutil.rmtree(work)
    store.restore(tree, work)
    assert listed(work) == before
    assert len(before) == 7 * 4


def listed(folder):
    """Kind, mode and content of everything below a folder."""
    found = {}
    for path in folder.rglob("*"):
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def test_a_model_call_costs_two_entries_and_waiting_none(make_task, run):
    """With a model that answers at once the engine writes what was reserved and what was used, and nothing else."""
    talk, asked = talking(*[tool("read", "x.txt")] * 30, tool("stop", "", "done"), tokens=(10, 5))
    result = run(make_task(), options=MODEL, talk=talk)
    with Ledger.open(result.task.folder.parent / "home" / "ledger.sqlite") as ledger:
        kinds = Counter(entry.kind for entry in ledger.entries())
    assert kinds["call.reserved"] == kinds["call.settled"] == len(asked) >= 31
    segments = kinds["segment.started"]
    assert kinds.total() - 2 * len(asked) <= 5 + 3 * segments


def test_results_are_judged_as_fast_as_they_come(make_task, run):
    """No pause between evaluations: each of eight results in a row has its card, in order."""
    result = run(
        make_task(("stages = 4", "stages = 40"), files=script("[submit(x) for x in (1, 2, 3, 4, 5, 6, 7, 12)]"))
    )
    assert [card.place for card in result.standing.cards] == [f"w0/S{number:02d}" for number in range(1, 9)]
    assert len(result.standing.workers["w0"].segments) == 1
