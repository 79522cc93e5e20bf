"""Kills: whenever the process dies, the log is whole, and an append that is repeated is there once."""

import itertools
import os
import random
import signal
import time

import pytest
from attest_cases import fixed_key, note_key

from veristate.attest import UNWITNESSED, TileLog, check_log

KEY = str(note_key("example.org/log", 1))


def test_a_kill_at_every_step_of_an_append(tmp_path, killed_at, unsynced):
    """The published head never names what is not there, before and after a tile becomes full."""
    seen = set()
    for step in itertools.count(1):
        root = tmp_path / str(step)

        def opened(root=root):
            return TileLog.open(root, origin="example.org/log", key=fixed_key(1), quorum=UNWITNESSED)

        def run():
            log = opened()
            log.append([b"entry %d" % n for n in range(250)])
            log.append([b"entry %d" % n for n in range(250, 260)])

        killed = killed_at(step, run)
        if (root / "checkpoint").exists():
            report = check_log(root, KEY)
            assert report.whole, report.findings
            seen.add(report.size)
        log = opened()
        assert log.append([b"entry %d" % n for n in range(260)]) == list(range(260))
        report = check_log(root, KEY)
        assert (report.size, report.findings) == (260, ())
        if not killed:
            break
    assert seen == {0, 250, 260}
    assert step > 60


@pytest.mark.parametrize("batch", [1, 300])
def test_a_kill_at_any_moment(tmp_path, open_log, batch):
    """What an append has returned is in the log after the kill, under its head, once."""
    times, told = random.Random(5), 0
    for _ in range(6):
        done, tell = os.pipe()
        process = os.fork()
        if process == 0:
            log = open_log()
            for number in itertools.count(told):
                log.append([b"entry %d" % n for n in range(number * batch, number * batch + batch)])
                os.write(tell, number.to_bytes(4, "big"))
        os.close(tell)
        told = int.from_bytes(os.read(done, 4), "big") + 1
        time.sleep(times.uniform(0, 0.05))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        while said := os.read(done, 4):
            told = max(told, int.from_bytes(said, "big") + 1)
        os.close(done)
        log = open_log()
        found = list(log.reader(log.published()).entries())
        assert found == [b"entry %d" % n for n in range(len(found))]
        assert len(found) >= told * batch
        assert check_log(tmp_path / "log", KEY).whole
    assert told >= 6
