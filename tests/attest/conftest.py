"""What the tests of commitments share: a log, a recorder, and a way to die at every step."""

import os
import signal
import sys
import traceback
from pathlib import Path

import pytest

from veristate.attest import UNWITNESSED, Recorder, TileLog

sys.path.insert(0, str(Path(__file__).parent))

from attest_cases import NOW, ORIGIN, fixed_key, ticking

STEPS = ("open", "write", "fsync", "rename", "unlink", "mkdir", "rmdir")


@pytest.fixture
def open_log(tmp_path):
    """Opens the log in `tmp_path/log` as a new process would."""

    def opened(**more):
        options = {"origin": ORIGIN, "key": fixed_key(1), "quorum": UNWITNESSED, "clock": lambda: NOW}
        return TileLog.open(tmp_path / "log", **(options | more))

    return opened


@pytest.fixture
def log(open_log):
    """A new log that publishes every head at once."""
    return open_log()


@pytest.fixture
def open_recorder(tmp_path):
    """Opens the recorder in `tmp_path/run` as a new process would."""
    opened = []

    def start(folder="run", **more):
        opened.append(Recorder.open(tmp_path / folder, origin=ORIGIN, clock=ticking(), **more))
        return opened[-1]

    yield start
    for recorder in opened:
        recorder.close()


@pytest.fixture
def recorder(open_recorder):
    """A new recorder."""
    return open_recorder()


@pytest.fixture
def child():
    """Runs a callable in a forked process: 0 when it returned, 1 when it raised, -9 when it was killed."""

    def run(work):
        process = os.fork()
        if process == 0:
            try:
                work()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    return run


@pytest.fixture
def killed_at(child):
    """Whether `work` was killed by SIGKILL just before its n-th step; a write gets half of its bytes out first."""

    def run(step, work):
        left = step

        def deadly(name, call):
            def stepped(*arguments, **options):
                nonlocal left
                left -= 1
                if left == 0:
                    if name == "write":
                        call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return stepped

        def armed():
            for name in STEPS:
                setattr(os, name, deadly(name, getattr(os, name)))
            work()

        code = child(armed)
        assert code in (0, -signal.SIGKILL), f"the child failed at step {step}"
        return code != 0

    return run


@pytest.fixture
def unsynced(monkeypatch):
    """No waiting for the disk: what a kill loses is the process, not the page cache."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
