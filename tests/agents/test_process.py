"""The worker may hang, die or be misused: that costs the cell, never the run, and nothing that was printed is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from veristate.agents.namespace import Namespace
from veristate.core import EnvironmentUnusableError, InputError, TamperError
from veristate.store import Store


@pytest.fixture
def hasty(workspace: Path, store: Store):
    """A namespace whose cells have one second."""
    namespace = Namespace(workspace, store, cell_timeout=1)
    yield namespace
    namespace.close()


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_a_hung_cell_is_stopped(hasty: Namespace) -> None:
    """A cell past its deadline is killed; its output is told, and the next use starts from the last checkpoint."""
    hasty.run("kept = 1")
    hasty.checkpoint()
    hasty.run("lost = 2")
    started = time.monotonic()
    result = hasty.run("print('before', end='')\nwhile True: pass")
    assert time.monotonic() - started < 3
    assert (result.outcome, result.output) == ("killed", "before")
    assert "longer than 1 s" in result.error
    assert hasty.run("print(kept, 'lost' in globals())").output == "1 False\n"


def test_a_hung_cell_that_ignores_signals_is_stopped_with_its_children(hasty: Namespace) -> None:
    """Not even a cell deaf to every signal survives, nor what it started in groups of its own."""
    code = (
        "import signal, subprocess, os\n"
        "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
        "p = subprocess.Popen(['sleep', '100'], process_group=0)\nprint(os.getpid(), p.pid)\nwhile True: pass"
    )
    result = hasty.run(code)
    assert result.outcome == "killed"
    assert not any(_alive(int(pid)) for pid in result.output.split())


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("os._exit(3)", "exit status 3"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("os.closerange(3, 100)", "ended"),
    ],
)
def test_a_cell_that_ends_its_process(namespace: Namespace, code: str, how: str) -> None:
    """The result says how the process ended and what it printed; without a checkpoint the next one is empty."""
    result = namespace.run(f"import os\nx = 1\nprint('before')\n{code}")
    assert (result.outcome, result.output.splitlines()[0]) == ("died", "before")
    assert how in result.error
    assert "will be empty" in result.error
    assert namespace.run("print('x' in globals())").output == "False\n"


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit(1)", "raise KeyboardInterrupt", "raise BaseException('b')", "1 +"]
)
def test_whatever_a_cell_raises_is_reported(namespace: Namespace, code: str) -> None:
    """SystemExit and its like are the cell's error, with what was printed before; the namespace lives on."""
    namespace.run("x = 1")
    result = namespace.run(f"print('before')\n{code}")
    assert result.outcome == "raised"
    assert result.output == ("" if code == "1 +" else "before\n")
    assert "<cell 2>" in result.error
    assert "worker" not in result.error
    assert namespace.run("print(x)").output == "1\n"


def test_output_of_every_kind_is_captured_in_order(namespace: Namespace) -> None:
    """print, os.write, the error stream and child processes arrive in the order in which they were written."""
    code = (
        "import os, sys\nprint('a')\nos.system('echo b')\nos.write(1, b'c\\n')\n"
        "print('d', file=sys.stderr)\nos.write(2, b'\\xff')"
    )
    assert namespace.run(code).output == "a\nb\nc\nd\n\N{REPLACEMENT CHARACTER}"
    assert namespace.run("pass").output == ""


def test_a_cell_that_closes_or_replaces_its_streams_harms_itself_only(namespace: Namespace) -> None:
    """The next cell prints as ever, after its streams were closed, replaced or redirected."""
    for harm in ("sys.stdout.close()", "import io; sys.stdout = io.StringIO()", "import os; os.close(1); os.close(2)"):
        namespace.run(f"import sys\n{harm}")
        assert namespace.run("print('back')").output == "back\n", harm


def test_very_long_output_is_cut_in_the_middle(namespace: Namespace) -> None:
    """Of endless printing the beginning and the end are told, and how much lies between."""
    result = namespace.run("print('first'); print('x' * 5_000_000); print('last')")
    assert len(result.output) < 1_100_000
    assert result.output.startswith("first")
    assert result.output.endswith("last\n")
    assert "bytes left out" in result.output


def test_input_is_empty(namespace: Namespace) -> None:
    """A cell that asks for input fails at once and does not wait."""
    assert "EOFError" in namespace.run("input()").error


def test_a_forked_copy_does_not_answer(namespace: Namespace) -> None:
    """A copy of the worker that a cell forked and let run on does not come back as a second worker."""
    assert namespace.run("import os, time\npid = os.fork()\nif pid == 0: time.sleep(0.2)").ok
    assert namespace.run("os.waitpid(pid, 0)\nprint('one')").output == "one\n"


def test_files_of_the_workspace_do_not_stand_for_ours(workspace: Path, namespace: Namespace) -> None:
    """A file named like a module of the worker does not keep it from starting, and leaves no cache beside it."""
    for name in ("json", "cloudpickle", "veristate"):
        (workspace / f"{name}.py").write_text("raise RuntimeError('planted')\n")
    (workspace / "own.py").write_text("value = 5\n")
    assert namespace.run("import own\nprint(own.value)").observation == "5\n"
    assert not (workspace / "__pycache__").exists()


def test_a_module_written_by_the_cell_before_is_found(namespace: Namespace) -> None:
    """A module that one cell writes can be imported by the next, however fast that follows."""
    namespace.run("import glob")
    for number in range(5):
        namespace.run(f"open('own{number}.py', 'w').write('value = {number}')")
        assert namespace.run(f"import own{number}\nprint(own{number}.value)").observation == f"{number}\n"


def test_closing_ends_everything(namespace: Namespace) -> None:
    """After close neither the worker nor its background processes live, wherever their parents are."""
    output = namespace.run("import os\nprint(os.getpid(), flush=True)\nos.system('sleep 100 & echo $!')").output
    namespace.close()
    assert [_alive(int(pid)) for pid in output.split()] == [False, False]


def test_the_worker_ends_with_our_side(workspace: Path, tmp_path: Path) -> None:
    """When the process that holds the namespace is killed, an idle worker ends by itself."""
    code = (
        "import sys, os, time; from pathlib import Path; from veristate.store import Store\n"
        "from veristate.agents.namespace import Namespace\n"
        "n = Namespace(Path(sys.argv[1]), Store.open(Path(sys.argv[2])))\n"
        "print(n.run('import os; print(os.getpid())').output, flush=True); time.sleep(100)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(workspace), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    worker = int(holder.stdout.readline())
    assert _alive(worker)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    last = time.monotonic() + 10
    while _alive(worker) and time.monotonic() < last:
        time.sleep(0.02)
    assert not _alive(worker)


def test_an_interrupted_question_does_not_leave_its_answer_behind(namespace: Namespace) -> None:
    """After Ctrl-C during a cell the next cell gets its own answer, not that of the interrupted one."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    namespace.run("x = 1")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            namespace.run("import time\ntime.sleep(1)\nprint('late')")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert namespace.run("print('next')").output == "next\n"


def test_a_python_that_does_not_start_is_named(workspace: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the worker can't start, the error says what it printed."""
    monkeypatch.setattr(sys, "executable", "/bin/ls")
    with pytest.raises(EnvironmentUnusableError, match=r"did not start.*ls"):
        Namespace(workspace, store).run("1")


def test_a_damaged_blob_is_never_unpickled(namespace: Namespace, store: Store) -> None:
    """A checkpoint whose pickle was changed on the disk is refused by our side, and the living namespace stays."""
    namespace.run("x = 1")
    checkpoint = namespace.checkpoint()
    path = next(path for path in store.root.rglob(checkpoint.pickle))
    path.chmod(0o644)
    path.write_bytes(b"rcos\nsystem\n(S'touch broken'\ntR.")
    namespace.run("x = 2")
    with pytest.raises(TamperError):
        namespace.fetch(checkpoint.digest)
    assert namespace.run("import os\nprint(x, os.listdir())").output == "2 []\n"


def test_a_missing_checkpoint_is_named(namespace: Namespace) -> None:
    """A digest that the store does not hold is the caller's error."""
    with pytest.raises(InputError):
        namespace.fetch("0" * 64)
