"""The sandbox: what a worker can't see, reach or leave; and trees that die whole, whatever they do."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from veristate.core import EnvironmentUnusableError
from veristate.research import read_task
from veristate.research.processes import Launch, reap, start, tail
from veristate.research.running.working import hiding
from veristate.research.sandbox import confining, guard, keeper
from veristate.research.sandbox.confining import Profile, find_sandbox

needs_bwrap = pytest.mark.skipif(find_sandbox() is None, reason="bubblewrap is not here, or may not be used")
LEAVES = """
import os, sys, time
for _ in range(2):  # twice forked, a session of its own, no environment, every descriptor closed
    if os.fork():
        time.sleep(0.1)
        os._exit(0) if _ else None
        time.sleep(300)
    os.setsid()
os.execve("/bin/sh", ["/bin/sh", "-c", "echo $$ > left; exec sleep 4242"], {})
"""


def launched(folder, *argv, mark="sandbox-test", **options):
    """A launch in the folder, which is writable."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    given = {"argv": argv, "cwd": folder, "environment": environment, "output": folder / "log", "mark": mark}
    return Launch(**given | {"writable": (folder,)} | options)


def finished(launch):
    """Exit code and output of a launch that ends by itself."""
    running = start(launch)
    deadline = time.monotonic() + 30
    while running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return running.end().code, tail(launch.output, 4000)


def sleepers(folder):
    """Every living process that works in the folder, by what /proc says of its directory; no name is trusted."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough
        if name.isdigit():
            try:
                inside = Path(f"/proc/{name}/cwd").readlink() == folder
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if inside and state not in "ZX":
                found.append(int(name))
    return found


def until(true, seconds=10.0):
    """Whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def forked(work):
    """The number of a copy of this process that does the work and waits to be killed; it hardly outlives us."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            kept = work()
            while os.getppid() == parent:
                time.sleep(0.2)
            del kept
        finally:
            os._exit(1)
    return child


@pytest.fixture(params=["plain", pytest.param("confined", marks=needs_bwrap)])
def confine(request):
    """With and without the sandbox."""
    return find_sandbox() if request.param == "confined" else lambda launch: launch


def test_what_left_everything_dies_too(tmp_path, confine):
    """A twice-forked daemon in a session of its own, without the mark, dies with its tree, and nothing else does."""
    (tmp_path / "leave.py").write_text(LEAVES)
    bystander = subprocess.Popen(["sleep", "300"])
    running = start(confine(launched(tmp_path, sys.executable, "-S", "leave.py")))
    assert until((tmp_path / "left").exists)
    assert until(lambda: len(sleepers(tmp_path)) >= 2)
    running.end()
    assert sleepers(tmp_path) == []
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_killed_engine_takes_its_trees_with_it(tmp_path, confine):
    """Killing the process that started it all with -9: the tree is gone in moments, without anybody resuming."""
    (tmp_path / "leave.py").write_text(LEAVES)
    engine = forked(lambda: start(confine(launched(tmp_path, sys.executable, "-S", "leave.py"))))
    assert until((tmp_path / "left").exists)
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    assert until(lambda: sleepers(tmp_path) == [])


def test_an_engine_that_died_deaf_takes_its_trees_with_it(tmp_path):
    """Killed before it has read that its command ended: what that left running in another session dies all the same."""
    engine = forked(lambda: start(launched(tmp_path, "sh", "-c", "setsid sleep 4242 & echo > left")))
    assert until((tmp_path / "left").exists)
    time.sleep(0.3)
    assert len(sleepers(tmp_path)) >= 2
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    assert until(lambda: sleepers(tmp_path) == [])


def test_an_engine_that_dies_while_a_keeper_starts_leaves_nobody(tmp_path, confine):
    """At whatever moment it dies, also before it was told of its process: nobody stays."""
    chance = random.Random(7)
    for number in range(6):
        launch = confine(launched(tmp_path, "sh", "-c", f"echo > began-{number}; sleep 4242"))
        begun = tmp_path / "log"
        begun.unlink(missing_ok=True)
        engine = forked(lambda launch=launch: start(launch))
        assert until(begun.exists)  # its keeper starts now, and takes some 50 ms
        time.sleep(chance.uniform(0, 0.12))
        os.kill(engine, signal.SIGKILL)
        os.waitpid(engine, 0)
        assert until(lambda: sleepers(tmp_path) == [], 3.0)


def test_a_keeper_whose_engine_is_gone_starts_nothing_or_ends_it(tmp_path):
    """The engine's end is closed before the keeper has run a line of its own, or while it waits to tell."""
    argv = [sys.executable, "-I", "-S", keeper.__file__]
    for closed_first in (True, False):
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(True)
            command = [*argv, str(theirs.fileno()), "{}", "sh", "-c", "echo > ran; sleep 4242"]
            if closed_first:
                ours.close()
            process = subprocess.Popen(command, cwd=tmp_path, pass_fds=(theirs.fileno(),), start_new_session=True)
        if not closed_first:
            assert ours.recv(3) == b"pid"  # the rest stays unread
            ours.close()
        assert process.wait(timeout=10) == 0
        assert sleepers(tmp_path) == []
        if closed_first:
            assert not (tmp_path / "ran").exists()


def test_a_keeper_that_was_stopped_holds_nobody(tmp_path, monkeypatch):
    """A worker that stops its keeper is ended all the same, what cleared its environment too."""
    monkeypatch.setattr(keeper, "PATIENCE_S", 0.3)
    (tmp_path / "leave.py").write_text(LEAVES)
    running = start(launched(tmp_path, sys.executable, "-S", "leave.py", mark="sweep"))
    assert until((tmp_path / "left").exists)
    os.kill(running.keeper, signal.SIGSTOP)  # it can't do its work, and will be killed for it
    tree = sleepers(tmp_path)
    assert len(tree) >= 2
    running.end()
    assert until(lambda: sleepers(tmp_path) == [])


def test_engine_and_keeper_killed_together_under_a_guard(tmp_path):
    """With a second keeper below, nobody has to sweep: what left its session is gone in moments."""

    def engine_does():
        argv = (sys.executable, "-I", "-S", guard.__file__, "sh", "-c", "setsid sleep 4242 & echo > left; sleep 4242")
        running = start(launched(tmp_path, *argv))
        (tmp_path / "keeper").write_text(str(running.keeper))
        return running

    engine = forked(engine_does)
    assert until(lambda: (tmp_path / "keeper").exists() and (tmp_path / "left").exists())
    keeping = int((tmp_path / "keeper").read_text())
    os.kill(engine, signal.SIGSTOP)
    os.kill(keeping, signal.SIGKILL)
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    assert until(lambda: sleepers(tmp_path) == [])


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -15 $$", -15)])
def test_a_guard_ends_as_its_command_did(tmp_path, command, code):
    """Exit status and signal are passed on."""
    assert finished(launched(tmp_path, sys.executable, "-I", "-S", guard.__file__, "sh", "-c", command))[0] == code


def test_engine_and_keeper_killed_together(tmp_path):
    """Nobody is left to clean up: the next engine's sweep finds the tree by its mark."""

    def engine_does():
        running = start(launched(tmp_path, "sh", "-c", "setsid sleep 4242 & sleep 4242", mark="both-1"))
        (tmp_path / "keeper").write_text(str(running.keeper))
        return running

    engine = forked(engine_does)
    assert until(lambda: (tmp_path / "keeper").exists() and len(sleepers(tmp_path)) >= 3)
    keeping = int((tmp_path / "keeper").read_text())
    os.kill(engine, signal.SIGSTOP)
    os.kill(keeping, signal.SIGKILL)
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    assert reap("both") >= 2
    assert [pid for pid in sleepers(tmp_path) if psutil.Process(pid).name() == "sleep"] == []


HOLDS = """
import os, sys, time
children = [os.fork() or "child" for _ in range(3)]
block = bytearray(os.urandom(2**16)) * (int(sys.argv[1]) // 2**16)
open(f"held-{os.getpid()}", "w").close()
time.sleep(300)
"""


def test_a_tree_that_holds_too_much_together_is_ended_whole(tmp_path, confine):
    """Eight processes with 20 MiB each, each within a limit of 100 MiB: all of them are ended, and why is said."""
    (tmp_path / "hold.py").write_text(HOLDS)
    argv = (sys.executable, "-S", "hold.py", str(20 * 2**20))
    running = start(confine(launched(tmp_path, *argv, memory_bytes=100 * 2**20)))
    assert until(lambda: running.poll() is not None)
    assert until(lambda: sleepers(tmp_path) == [])
    ended = running.end()
    assert ended.memory_bytes > 100 * 2**20
    assert "bytes of memory together" in ended.words()


def test_what_a_tree_shares_counts_once(tmp_path):
    """Eight processes that hold the same 60 MiB hold 60 MiB, not 480."""
    before = HOLDS.splitlines()
    before.insert(2, before.pop(3))  # the block first, then the children, which only read it
    (tmp_path / "hold.py").write_text("\n".join(before))
    argv = (sys.executable, "-S", "hold.py", str(60 * 2**20))
    running = start(launched(tmp_path, *argv, memory_bytes=150 * 2**20))
    assert until(lambda: len(list(tmp_path.glob("held-*"))) == 8)
    time.sleep(2 * keeper.LOOK_S)  # it has looked once at least
    assert running.poll() is None
    assert running.end().memory_bytes == 0


@needs_bwrap
def test_files_in_memory_have_the_limit_too(tmp_path):
    """What a confined process writes to /tmp and /dev/shm lies in memory: neither takes more than the limit."""
    body = "for at in /tmp /dev/shm; do head -c 3000000 /dev/zero > $at/x || echo full; done; ls -l /tmp/x"
    launch = launched(tmp_path, "sh", "-c", body, memory_bytes=2**21)
    _, said = finished(find_sandbox()(replace(launch, memory_bytes=2**21)))
    assert said.count("full") == 2


def test_where_sizes_are_refused_none_is_given(tmp_path, monkeypatch):
    """An older bubblewrap, or a setuid one, does not start with --size: asked once, and then it is left out."""
    launch, given, asked = launched(tmp_path, "true", memory_bytes=2**21), [], []
    for takes in (True, False):
        confining._takes_sizes.cache_clear()
        monkeypatch.setattr(confining, "_tried", lambda *options, takes=takes: asked.append(options) or takes)
        given += ["--size" in Profile().confine(launch).argv for _ in range(2)]
    confining._takes_sizes.cache_clear()
    assert given == [True, True, False, False]
    assert [options[0] for options in asked] == ["--size", "--size"]


def test_a_limit_on_memory_holds(tmp_path, confine):
    """A process that takes more than it may gets a MemoryError, not the machine's memory."""
    code = "x = bytearray(400 * 2**20); print('took it')"
    launch = launched(tmp_path, sys.executable, "-S", "-c", code, memory_bytes=200 * 2**20)
    code, said = finished(confine(launch))
    assert code == 1
    assert "MemoryError" in said


def test_a_missing_program_is_named_at_once(tmp_path, confine):
    """Inside the sandbox as outside."""
    with pytest.raises(EnvironmentUnusableError, match="no-such-agent"):
        start(confine(launched(tmp_path, "no-such-agent")))


@needs_bwrap
def test_what_is_not_named_is_not_there(tmp_path):
    """Keys, the user's home, hidden files of a readable folder and everybody's processes are out of sight; what is
    readable can't be written, and a link leads nowhere else.
    """
    task = tmp_path / "task"
    (task / "private").mkdir(parents=True)
    (task / "worker.py").write_text("seen")
    (task / "evaluate.py").write_text("ANSWER = 42")
    (task / "private" / "labels.csv").write_text("1,1")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("sk-secret")
    work = tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(tmp_path / "home" / "key")
    code = f"""
        import os, pathlib
        def tried(what):
            try: return what()
            except OSError as error: return type(error).__name__
        task, work = pathlib.Path({str(task)!r}), pathlib.Path({str(work)!r})
        print(tried((task / 'worker.py').read_text))
        print(repr(tried((task / 'evaluate.py').read_text)))
        print(tried(lambda: os.listdir(task / 'private')))
        print(tried(lambda: (task / 'worker.py').write_text('x')))
        print(tried((work / 'link').read_text))
        print(tried(lambda: os.listdir({str(tmp_path)!r})))
        print(tried(lambda: os.listdir({str(Path.home() / ".ssh")!r})), tried(lambda: os.listdir('/home')))
        print(sorted(name for name in os.environ if 'KEY' in name))
        print(len([name for name in os.listdir('/proc') if name.isdigit()]) < 6)
        (work / 'made').write_text('mine')
    """
    hidden = (task / "evaluate.py", task / "private")
    launch = launched(work, sys.executable, "-c", textwrap.dedent(code), readable=(task,), hidden=hidden)
    code, said = finished(Profile().confine(launch))
    assert (code, (work / "made").read_text()) == (0, "mine")
    seen = said.splitlines()
    assert seen[0] == "seen"
    assert seen[1] == "''" or "Error" in seen[1]
    assert seen[2] == "[]"
    assert seen[3] in ("OSError", "PermissionError")
    assert seen[4] == "FileNotFoundError"
    assert "home" not in seen[5]
    assert seen[6] == "FileNotFoundError FileNotFoundError"
    assert seen[7:] == ["[]", "True"]
    assert (task / "worker.py").read_text() == "seen"


@needs_bwrap
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_when_it_was_asked_for(tmp_path, network):
    """A server on this machine is reached or not; nothing else is needed to see it."""
    code = "import http.server, sys\ns = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
    code += "print(s.server_port, flush=True)\ns.serve_forever()\n"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    port = int(server.stdout.readline())
    ask = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')"
    code, said = finished(Profile().confine(launched(tmp_path, sys.executable, "-c", ask, network=network)))
    server.kill()
    server.communicate()
    assert ("reached" in said) is network
    assert (code == 0) is network


def test_without_bubblewrap_there_is_no_sandbox_and_it_is_said(monkeypatch):
    """No program, or one that may not do it: None, for which the engine journals a plain warning."""
    refuses = shutil.which("false")
    for program in (lambda name: None, lambda name: refuses):
        confining._works.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(confining.shutil, "which", program)
            patched.setattr(confining, "_system", lambda: ["--no-such-option"])
            assert find_sandbox() is None
    confining._works.cache_clear()
    assert "no sandbox" in confining.NO_SANDBOX


def test_a_campaign_hides_its_evaluator_from_workers(make_task, tmp_path):
    """The evaluator's file and private folders are masked for workers and jobs; the worker's own file is not."""
    folder = make_task(files={"private/labels.csv": "1"})
    confine = hiding(lambda launch: launch, read_task(folder))
    assert confine(launched(tmp_path, "true")).hidden == (folder / "judge.py", folder / "private")
