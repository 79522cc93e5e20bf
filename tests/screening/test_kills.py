"""A run that is killed (kill -9) at any step: the same command goes on, and never commits twice."""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from veristate.core import EnvironmentUnusableError, RefusedError
from veristate.ledger import Ledger
from veristate.ledger.database import Database
from veristate.screening.cases import herg
from veristate.screening.running.home import open_home
from veristate.store import Store

KILLED = Path(__file__).with_name("killed.py")
# The transactions of one run in this order: schema, contract, request, started, qualified, pass, fault, two
# checkpoints, view, findings, requalified, recomputation, certificate, view, restored, the same view again, action,
# the ledger opened again, the recorder's key, the commitment.
ACTION, TRANSACTIONS = 18, 21


FAULTY = ["--predictor", "tiny:make", "--inject", "case2", "--seed", "3", "--recovery", "restore", "--compare"]


def run(table, home, *, step=0, when="after", options=FAULTY):
    """The exit code of the command, killed at a transaction unless the step is 0, with no process of its left."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-W", "ignore", str(KILLED), str(step), when, "screen", str(table), "--json"]
    environment = os.environ | {"VERISTATE_TEST_MARK": mark}
    done = subprocess.run([*command, *options, "--store", str(home)], capture_output=True, env=environment, check=False)
    if step:
        assert done.returncode == -9, done.stderr.decode()
    assert_nothing_left(mark)
    return done


def assert_nothing_left(mark):
    """No process that inherited the mark outlives its parent by more than a few seconds."""
    deadline = time.monotonic() + 20
    while True:
        left = [p for p in psutil.process_iter() if _marked(p, mark)]
        if not left:
            return
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.1)


def _marked(process, mark):
    try:
        return process.environ().get("VERISTATE_TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def assert_whole(home):
    """Journal and store are what was written: orphans may be there, nothing dangles."""
    with Ledger.open(home / "ledger.sqlite") as ledger:
        ledger.require()
        entries = [(entry.kind, entry.content) for entry in ledger.entries()]
    assert [found for found in Store.open(home / "objects").fsck() if not found.harmless] == []
    return entries


def kill_at(table, home, steps):
    """Kills one run after another in the same home, then lets one end; the number of commitments."""
    for step, when in steps:
        run(table, home, step=step, when=when)
        assert_whole(home)
    done = run(table, home)
    assert done.returncode == 0, done.stderr.decode()
    committed = [content["action"]["decisions"] for kind, content in assert_whole(home) if kind == "action.committed"]
    found = json.loads(done.stdout)
    assert [found["selected"], found["tested"]] == [decision["chosen"] for decision in committed[0]]
    assert found["reference_match"] is True
    made = [content["payload"] for kind, content in assert_whole(home) if kind == "commitment.made"]
    assert made[1:] == [found["commitment"]]
    return len(committed)


def test_runs_killed_on_the_way_are_followed_by_one_commitment(table, tmp_path):
    """Killed with a checkpoint kept, in the last moment of the action, and just after it: then the commitment is on the
    disk, and the same command finds it and says so.
    """
    home = tmp_path / "home"
    for step, when, committed in [(8, "after", False), (ACTION, "before", False), (ACTION, "after", True)]:
        run(table, home, step=step, when=when)
        kinds = [kind for kind, _ in assert_whole(home)]
        assert (kinds[-1] == "action.committed") == ("action.committed" in kinds) == committed
    assert kill_at(table, home, []) == 1


def test_a_run_killed_between_its_action_and_its_commitment_makes_it_later(table, tmp_path):
    """Killed in the last moment of the commitment: one commitment in the end."""
    assert kill_at(table, tmp_path / "home", [(TRANSACTIONS, "before")]) == 1


def test_a_run_has_as_many_transactions_as_are_killed(screen, monkeypatch):
    """None is forgotten."""
    begun = []
    writing = Database.writing
    monkeypatch.setattr(Database, "writing", lambda self: begun.append(1) or writing(self))
    assert screen(inject="case2", seed=3, recovery="restore", compare=True).commitment
    assert len(begun) == TRANSACTIONS


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("when", ["before", "after"])
def test_every_transaction_survives_a_kill(table, tmp_path, when):
    """Each transaction of a run is killed in its last moment and just after, in a home of its own."""
    for step in range(1, TRANSACTIONS + 1):
        assert kill_at(table, tmp_path / f"home-{step}", [(step, when)]) == 1


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_run_killed_while_it_is_certified_exactly_leaves_nothing_half_written(tmp_path):
    """Killed around the pass, the enclosures, the certificate and the action: journal and store stay whole, and the
    same command ends with one commitment.
    """
    try:
        source = herg.herg_table()
    except EnvironmentUnusableError as error:
        pytest.skip(str(error))
    table, home = tmp_path / "slice.csv", tmp_path / "home"
    table.write_text("".join(source.read_text(encoding="utf-8").splitlines(keepends=True)[:41]))
    member = ["--predictor", str(herg.herg_files().members[0]), "--sha256", herg.MEMBER_DIGESTS[0]]
    options = [*member, "--output", str(herg.OUTPUT), "--contract", "exact", "--strategy", "memo"]
    for step in range(6, 13):
        run(table, home, step=step, when="before", options=options)
        kinds = [kind for kind, _ in assert_whole(home)]
        assert kinds.count("certificate.issued") <= kinds.count("certification.finished")
    done = run(table, home, options=options)
    assert done.returncode == 0, done.stderr.decode()
    assert [kind for kind, _ in assert_whole(home)].count("action.committed") == 1


def test_two_runs_at_once_on_one_store_are_refused(screen, tmp_path):
    """The second one is told which process is in it, before it computes anything."""
    with open_home(tmp_path / "home", lambda: "now"), pytest.raises(RefusedError, match=f"process {os.getpid()}"):
        screen()
