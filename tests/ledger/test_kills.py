"""Kills: whenever the process dies, the journal is whole, and no request is committed twice."""

import itertools
import os
import random
import signal
import time

from veristate.core import Rule
from veristate.ledger import Ledger


def committed_in(ledger):
    """How many commitments the journal holds."""
    return sum(entry.kind == "action.committed" for entry in ledger.entries())


def test_a_kill_before_any_statement(tmp_path, killed_at, case):
    """A run killed before any statement leaves a whole ledger, and repeating the run commits exactly once."""
    seen = set()
    for step in itertools.count(1):
        path = tmp_path / f"{step}.sqlite"

        def run(path=path):
            with Ledger.open(path) as ledger:
                ledger.append("run.started", {}, records=[Rule(kind="top_k", count=1)])
                case.propose(ledger)

        killed = killed_at(step, run)
        with Ledger.open(path) as ledger:
            assert ledger.verify() == ()
            before = committed_in(ledger)
            outcome = case.propose(ledger)
            assert outcome.committed == (before == 0)
            assert committed_in(ledger) == 1
            assert ledger.gateway.committed("r1")[1] == case.action
            assert ledger.verify() == ()
        seen.add((killed, before))
        if not killed:
            break
    assert seen >= {(True, 0), (False, 1)}
    assert step > 60


def test_a_kill_at_any_moment(path, child, another_case):
    """A process killed at random moments while it commits request after request loses none and doubles none.

    What it says it has committed, it has.
    """
    times = random.Random(11)
    told = 0
    for _ in range(15):
        done, tell = os.pipe()

        def run(tell=tell, told=told):
            with Ledger.open(path) as ledger:
                for number in itertools.count(told):
                    another_case(f"r{number}").propose(ledger)
                    os.write(tell, number.to_bytes(4, "big"))

        process = child(run)
        os.close(tell)
        for _ in range(2):  # the last one of before, and one more: a machine that is busy gets on too
            told = max(told, int.from_bytes(os.read(done, 4), "big"))
        time.sleep(times.uniform(0, 0.05))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        while said := os.read(done, 4):
            told = max(told, int.from_bytes(said, "big"))
        os.close(done)
        with Ledger.open(path) as ledger:
            ledger.require()
            requests = [e.content["request_id"] for e in ledger.entries() if e.kind == "action.committed"]
            assert len(requests) == len(set(requests))
            assert {f"r{number}" for number in range(told + 1)} <= set(requests)
    assert told > 5


def test_a_power_cut_at_any_byte_of_the_write_ahead_log(tmp_path, path, case):
    """Whatever part of the log reached the disk, what it holds is the beginning of the journal, whole."""
    with Ledger.open(path) as ledger:
        ledger.append("run.started", {})
        case.propose(ledger)
        entries = list(ledger.entries())
        main, log = path.read_bytes(), path.with_name(path.name + "-wal").read_bytes()
    assert len(log) > 10_000
    lengths = set()
    cut = tmp_path / "cut.sqlite"
    for length in range(0, len(log) + 1, 1999):
        for old in tmp_path.glob("cut.sqlite*"):
            old.unlink()
        cut.write_bytes(main)
        cut.with_name("cut.sqlite-wal").write_bytes(log[:length])
        with Ledger.open(cut) as ledger:
            assert ledger.verify() == ()
            found = list(ledger.entries())
            assert found == entries[: len(found)]
            lengths.add(len(found))
            if found:
                assert case.propose(ledger).committed == (len(found) < len(entries))
                assert committed_in(ledger) == 1
    assert lengths >= {0, 1, 2, 3}
