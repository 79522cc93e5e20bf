"""Processor time is charged also for what is killed where nobody waits for it."""

import sys
import time

import pytest

from veristate.research.processes import Launch, start
from veristate.research.sandbox.confining import find_sandbox


def test_a_sandboxed_process_that_is_killed_has_its_time_charged(tmp_path):
    """Bubblewrap's namespace dies whole: its children are reaped inside it, and no parent outside hears their times."""
    confine = find_sandbox()
    if confine is None:
        pytest.skip("no bubblewrap that works")
    busy = Launch(
        argv=(sys.executable, "-I", "-S", "-c", "while True: pass"),
        cwd=tmp_path,
        environment={"PATH": "/usr/bin:/bin"},
        output=tmp_path / "log",
        mark="accounting",
        writable=(tmp_path,),
    )
    running = start(confine(busy))
    try:
        deadline = time.monotonic() + 60
        while (used := running.cpu_s()) < 0.3 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        ended = running.end()
    assert used >= 0.3
    assert ended.cpu_s >= used
