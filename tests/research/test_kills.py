"""kill -9 of engine, worker or evaluator, anywhere: resuming loses no card, repeats no recorded evaluation, leaves
nothing behind, and charges the time.
"""

import itertools
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from veristate.ledger import Ledger
from veristate.research import CampaignHome, read_standing
from veristate.research.processes import MARK

from .campaigning import assert_whole, living
from .engines import Engine


def cards_of(home):
    """The bytes of each card in the journal, in order."""
    with Ledger.open(home.ledger) as ledger:
        return [entry.content["card"] for entry in ledger.entries() if entry.kind == "stage.recorded"]


def assert_complete(home, folder, kills):
    """The campaign reached its target over all kills; every evaluation beyond one for each card was cut off by one."""
    standing = assert_whole(home)
    target = standing.opened["target"]
    assert standing.finished["reason"] == f"target: {target} is reached"
    # What was handed in as the engine died was not claimed yet: the worker goes on from there, past the target.
    assert max(int(card.metric) for card in standing.cards if card.status == "valid") >= int(target)
    began = Counter((folder.parent / "began.log").read_text().split())
    recorded = Counter(card.details["x"] for card in standing.cards if card.status == "valid" and card.attempts)
    assert all(count == 1 for count in recorded.values())
    assert sum(began.values()) - sum(recorded.values()) <= kills
    assert all(not worker.claimed for worker in standing.workers.values())
    places = [card.place for card in standing.cards]
    assert len(places) == len(set(places))
    return standing


def kill_at(home, folder, step, when):
    """Whether the engine was killed at that transaction; it is resumed to its end, and what it had recorded is kept."""
    killed = Engine(home, folder, step=step, when=when).wait() == -signal.SIGKILL
    before = cards_of(home) if home.ledger.is_file() else []
    Engine(home, folder).finished()
    assert cards_of(home)[: len(before)] == before
    assert_complete(home, folder, 1)
    return killed


SHORT = ('target = "1000"', 'target = "919"')  # four results
STEPS = [(2, "after"), (5, "before"), (6, "before"), (13, "after")]


# The transactions: schema, opened, engine, segment, four times claim and card, segment's end, ...
@pytest.mark.parametrize(("step", "when"), STEPS)
def test_an_engine_killed_at_a_durable_step(make_task, home, step, when):
    """Just opened, about to claim an evaluation, about to record a card, a segment just ended."""
    assert kill_at(home, make_task(SHORT), step, when)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_engine_killed_at_every_durable_step(make_task, tmp_path, home, when):
    """The same at every transaction of a campaign, until one is never reached."""
    step = 1
    while True:
        here = type(home)(folder=tmp_path / f"{step}" / "home")
        here.folder.parent.mkdir()
        folder = make_task(SHORT, name=f"{step}/quick")
        if not kill_at(here, folder, step, when):
            break
        step += 1
    assert step > 12


def kill_at_random(home, folder, kills, seed, workers, within_s):
    """Kills the engine, a worker or an evaluator `kills` times, each at a random moment of an engine's first seconds,
    resuming each time.
    """
    chance = random.Random(seed)
    seen = Counter()
    told: list[str] = []
    done = 0
    while done < kills:
        process = Engine(home, folder, workers)
        if chance.random() < 0.8:
            await_life(home, process)
        deadline = time.monotonic() + chance.uniform(0.0, within_s)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:
            break  # it came to its end
        victim = chance.choice(["engine", "engine", "worker", "evaluator"])
        pids = [process.pid] if victim == "engine" else [p for p, line in descendants(process) if _is(victim, line)]
        for pid in pids[:1]:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
                seen[victim] += 1
                done += 1
        if victim == "engine" or not pids:
            process.kill()
            before = cards_of(home) if home.ledger.is_file() else []
            assert before[: len(told)] == told
            told = before
        else:
            time.sleep(chance.uniform(0, 0.15))  # the engine sees to the death of its own
            process.kill()
    Engine(home, folder, workers).finished()
    assert cards_of(home)[: len(told)] == told
    return seen


def await_life(home, process):
    """Returns when the engine works, or has ended."""
    began = time.time()
    while process.poll() is None and not (home.heartbeat.exists() and home.heartbeat.stat().st_mtime > began):
        time.sleep(0.01)


def descendants(process):
    """The living processes that the engine started, with their command lines."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get(MARK) and process.pid in {p.pid for p in each.parents()}:
                found.append((each.pid, " ".join(each.cmdline())))
        except psutil.Error:
            continue
    return found


def _is(victim, line):
    return ("climber" in line) == (victim == "worker")


def slow(make_task, name="quick"):
    """The quick task with an evaluator that takes a moment, so that kills meet it."""
    judge = (Path(__file__).parent / "quick" / "judge.py").read_text() + "\nimport time\n\ntime.sleep(0.15)\n"
    return make_task(("wall_s = 60\n", "wall_s = 600\n"), name=name, files={"judge.py": judge})


def kill_campaigns(make_task, tmp_path, kills, each, within_s):
    """What was killed, that often over as many campaigns as it takes, with at most `each` kills in one. Each campaign
    comes to the same end as one that was left alone.
    """
    seen, seeds = Counter(), itertools.count(5)
    while seen.total() < kills:
        seed = next(seeds)
        here = CampaignHome(folder=tmp_path / f"{seed}" / "home")
        here.folder.parent.mkdir()
        folder = slow(make_task, name=f"{seed}/quick")
        seen += kill_at_random(here, folder, min(each, kills - seen.total()), seed, 1 + seed % 2, within_s)
        standing = assert_whole(here)
        assert standing.finished["reason"] == "target: 1000 is reached"
    return seen


def test_twenty_kills_at_random_moments(make_task, tmp_path):
    """One campaign of two workers, and others if it ends before, killed again and again."""
    kill_campaigns(make_task, tmp_path, 20, each=20, within_s=0.3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_kills_at_random_moments(make_task, tmp_path):
    """Engines, workers and evaluators, over many campaigns."""
    seen = kill_campaigns(make_task, tmp_path, 200, each=12, within_s=0.7)
    assert min(seen["engine"], seen["worker"], seen["evaluator"]) > 20


def test_no_old_process_runs_beside_the_resumed_worker(make_task, home):
    """The engine is killed alone; its worker and what that started elsewhere are dead before the next segment."""
    body = "import subprocess, time, pathlib\nsubprocess.Popen(['setsid', 'sleep', '300'])\n"
    body += "time.sleep(300) if not pathlib.Path('again').exists() and not pathlib.Path('again').touch() else None\n"
    climber = (Path(__file__).parent / "quick" / "climber.py").read_text()
    folder = make_task(files={"climber.py": body + climber})
    process = Engine(home, folder)
    while not list(home.folder.glob("workers/w0/workspace/again")):
        time.sleep(0.02)
    campaign = read_standing(home).opened["campaign"]
    old = {pid for pid, _ in living(campaign)}
    assert old
    process.kill()
    Engine(home).finished()
    assert not old & {pid for pid, _ in living(campaign)}
    assert_complete(home, folder, 1)


def test_crashed_time_is_charged(make_task, home):
    """A killed engine's time counts up to its last sign of life, and one heartbeat more; what passed before somebody
    resumed it does not. The whole can't last longer than the budget.
    """
    folder = make_task(("wall_s = 60\n", "wall_s = 3\n"), files={"climber.py": "import time; time.sleep(300)"})
    process = Engine(home, folder)
    began = time.time()
    while not (home.heartbeat.exists() and home.heartbeat.stat().st_mtime > began + 0.7):
        time.sleep(0.01)
    process.kill()
    last = home.heartbeat.stat().st_mtime
    time.sleep(0.5)
    assert Engine(home).finished().startswith("budget")
    standing = read_standing(home)
    first, second = (session.wall_ms for session in standing.sessions)
    started = datetime.fromisoformat(standing.sessions[0].started).timestamp()
    assert first == pytest.approx(1000 * (last - started + 1), abs=2)
    assert second < 2900  # without the charge it would have had 3 s of its own
    assert standing.workers["w0"].segments[0].reason == "the engine was killed"


def test_a_repeated_evaluation_is_said(make_task, home):
    """Claimed and never recorded: the same snapshot is evaluated again on resuming, and the card says so."""
    judge = (Path(__file__).parent / "quick" / "judge.py").read_text()
    wait = "\nimport time, pathlib\nonce = pathlib.Path(__file__).parent.parent / 'once'\n"
    wait += "if x == 2 and not once.exists(): once.touch(); time.sleep(300)\n"
    at = judge.index("if x > 20")
    folder = make_task(("timeout_s = 10", "timeout_s = 100"), files={"judge.py": judge[:at] + wait + judge[at:]})
    process = Engine(home, folder)
    while not (folder.parent / "once").exists():
        time.sleep(0.02)
    process.kill()
    Engine(home).finished()
    standing = assert_complete(home, folder, 1)
    [card] = [card for card in standing.cards if card.details.get("x") == "2"]
    assert card.attempts == 2
    assert "2 times" in card.text()
    assert standing.queries == 13
