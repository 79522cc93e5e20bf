"""Processes end whole: those that left the session or hold the output, too."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from veristate.core import EnvironmentUnusableError
from veristate.research.processes import OUTPUT_UPPER, Launch, reap, start, tail
from veristate.research.sandbox import keeper


@pytest.fixture
def launch(tmp_path):
    """A launch of a shell command."""

    def made(command, mark="test-mark", **environment):
        return Launch(
            argv=("/bin/sh", "-c", command),
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"]} | environment,
            output=tmp_path / "log",
            mark=mark,
        )

    return made


def alive(pid):
    """Whether the process is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids(folder, wanted):
    """The process numbers that the commands wrote."""
    deadline = time.monotonic() + 10
    while True:
        found = [int(path.read_text()) for path in folder.glob("pid-*") if path.read_text().strip()]
        if len(found) == wanted:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_missing_program_is_named(launch):
    """A command that is not there is an error that names it."""
    with pytest.raises(EnvironmentUnusableError, match="no-such-agent"):
        start(Launch(**{n: getattr(launch(""), n) for n in Launch.__slots__} | {"argv": ("no-such-agent",)}))


KILLED = """
import os, pathlib, runpy, sys
once = pathlib.Path("{folder}", "killed")
if {always} or not once.exists():
    once.touch(); os.kill(os.getpid(), 9)
sys.argv[0] = {keeper!r}
runpy.run_path({keeper!r}, run_name="__main__")
"""


@pytest.mark.parametrize("always", [False, True])
def test_a_keeper_that_is_killed_as_it_starts_is_replaced_once(launch, tmp_path, monkeypatch, always):
    """Its death says nothing of the machine; that of the second one does, and is told."""
    stub = tmp_path / "keeper.py"
    stub.write_text(KILLED.format(folder=tmp_path, keeper=keeper.__file__, always=always))
    monkeypatch.setattr(keeper, "__file__", str(stub))
    if always:
        with pytest.raises(EnvironmentUnusableError, match="its keeper ended"):
            start(launch("true"))
    else:
        running = start(launch("exit 3"))
        while running.wait(1.0) is None:
            pass
        assert running.end().code == 3


def test_descendants_die_that_hold_the_output_or_left_the_session(launch, tmp_path):
    """The leader has ended long ago; its children in other sessions and groups, with our file open, die with `end`."""
    running = start(
        launch(
            "setsid sh -c 'echo $$ > pid-1; exec sleep 300' & sh -c 'echo $$ > pid-2; exec sleep 300' & "
            "setsid setsid sh -c 'cd /; (sh -c \"echo \\$\\$ > '$PWD'/pid-3; exec sleep 300\") & wait' & exit 0"
        )
    )
    children = pids(tmp_path, 3)
    while running.poll() is None:
        time.sleep(0.01)
    assert all(alive(pid) for pid in children)
    assert running.end().code == 0
    assert not any(alive(pid) for pid in children)


def test_ending_one_process_leaves_another_of_the_campaign(launch):
    """Two processes under one mark are two trees."""
    one, other = start(launch("sleep 300")), start(launch("sleep 300"))
    one.end()
    assert other.poll() is None
    other.end()


def test_a_sweep_finds_what_a_dead_engine_left_and_nothing_else(launch, tmp_path):
    """Processes are found by the campaign's mark alone: an unrelated one of the same program lives on."""
    left = start(launch("setsid sh -c 'echo $$ > pid-1; exec sleep 300' & wait", mark="campaign-a-3"))
    unrelated = subprocess.Popen(["sleep", "300"])
    neighbour = start(launch("sleep 300", mark="campaign-b-1"))
    [child] = pids(tmp_path, 1)
    assert reap("campaign-a") >= 2
    assert not alive(child)
    assert unrelated.poll() is None
    assert neighbour.poll() is None
    for each in (left, neighbour):
        each.end()
    unrelated.kill()
    unrelated.wait()


def test_a_paused_tree_writes_nothing(launch, tmp_path):
    """Between pause and go_on no process of the tree writes."""
    running = start(launch("while :; do echo x >> grows; sleep 0.001; done"))
    while not (tmp_path / "grows").exists():
        time.sleep(0.01)
    running.pause()
    time.sleep(0.05)
    size = (tmp_path / "grows").stat().st_size
    time.sleep(0.2)
    assert (tmp_path / "grows").stat().st_size == size
    running.go_on()
    time.sleep(0.2)
    assert (tmp_path / "grows").stat().st_size > size
    running.end()


def test_endless_output_does_not_fill_the_disk(launch, tmp_path):
    """A worker that prints without end keeps a log of bounded size, and its end is readable."""
    running = start(launch("yes | head -c 60000000; echo the end"))
    while running.poll() is None:
        time.sleep(0.005)
    running.poll()
    assert (tmp_path / "log").stat().st_size <= OUTPUT_UPPER + 2**20
    running.end()
    assert "the end" in tail(tmp_path / "log") or (tmp_path / "log").stat().st_size == 0


def test_processor_time_counts_the_tree(launch):
    """The time of children is counted, ended ones and those that are killed."""
    burn = f"{sys.executable} -S -c 'import time; t=time.process_time\nwhile t() < {{}}: pass'"
    running = start(launch(f"{burn.format(0.3)}; {burn.format(600)}"))
    deadline = time.monotonic() + 60
    while running.cpu_s() < 0.5 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running.end().cpu_s > 0.4
