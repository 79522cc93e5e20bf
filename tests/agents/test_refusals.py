"""What can't be kept is said before anything is released: which variable, and why."""

from collections.abc import Iterator

import pytest

from veristate.agents import NamespaceReport
from veristate.agents.namespace import Namespace
from veristate.core import RefusedError
from veristate.store import Store

REFUSED = {
    "an open file": ("x = open('f', 'w')", "open file"),
    "a file open for reading, which cloudpickle would turn into a StringIO": (
        "open('f', 'w').close()\nx = open('f')",
        "open file",
    ),
    "a file inside other objects": ("x = {'a': [(open('f', 'wb'),)]}", "open file"),
    "a lock": ("import threading\nx = threading.Lock()", "lock"),
    "an event, by the lock inside": ("import threading\nx = threading.Event()", "lock"),
    "a generator": ("x = (i for i in range(3))", "generator"),
    "a generator that a closure holds": ("def f(g=(i for i in 'ab')): return g\nx = f", "generator"),
    "a socket": ("import socket\nx = socket.socket()", "socket"),
    "a database connection": ("import sqlite3\nx = sqlite3.connect(':memory:')", "database connection"),
    "a thread that has ended": ("import threading\nx = threading.Thread(target=int)\nx.start()\nx.join()", "thread"),
    "a child process that has ended": ("import subprocess\nx = subprocess.Popen(['true'])\nx.wait()", "process"),
    "a memoryview, which cloudpickle would turn into bytes": ("x = memoryview(bytearray(3))", "memoryview"),
    "a csv reader": ("import csv\nx = csv.reader(['a,b'])", "csv reader"),
    "mapped memory": ("import mmap\nx = mmap.mmap(-1, 10)", "mapped memory"),
    "an array mapped to a file": ("import numpy\nx = numpy.memmap('f', shape=3, mode='w+')", "mapped to a file"),
    "an array on mapped memory": ("import mmap, numpy\nx = numpy.frombuffer(mmap.mmap(-1, 8))", "mmap"),
    "what is pickled as a mere name of the namespace": ("import typing\nx = typing.NewType('x', int)", "__main__"),
    "an object whose own code refuses": (
        "class C:\n    def __reduce__(self): raise ValueError('not me')\nx = C()",
        "not me",
    ),
    "what is nested too deeply": ("x = []\nfor _ in range(100000): x = [x]", "recursion"),
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """One namespace for all that is refused, for it can be swept: a refusal changes nothing."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "workspace").mkdir()
    namespace = Namespace(folder / "workspace", Store.open(folder / "store"), cell_timeout=20)
    yield namespace
    namespace.close()


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses_by_name_and_reason(swept: Namespace, code: str, reason: str) -> None:
    """Each object that would not come back as it was is refused under its variable's name; its neighbour is not."""
    assert swept.run("for name in [name for name in globals() if name[:2] != '__']: del globals()[name]").ok
    assert swept.run(f"fine = [1]\n{code}").ok
    with pytest.raises(RefusedError, match=r"variable x \(") as refusal:
        swept.checkpoint()
    assert reason in str(refusal.value)
    assert "variable fine" not in str(refusal.value)


def test_names_all_refused_variables_at_once(namespace: Namespace) -> None:
    """One refusal names every variable that stands against a checkpoint, so that one cell can clear them."""
    namespace.run("import threading\nfirst = threading.Lock()\nsecond = (i for i in [])\nthird = 3")
    with pytest.raises(RefusedError) as refusal:
        namespace.checkpoint()
    assert [name in str(refusal.value) for name in ("first", "second", "third")] == [True, True, False]


def test_a_running_thread_refuses(namespace: Namespace) -> None:
    """A thread that could still write after a restore stands against a checkpoint, until it ends."""
    namespace.run("import threading\ngo = [False]\ndef wait():\n    while not go[0]: pass")
    namespace.run("threading.Thread(target=wait, name='writer').start()")
    with pytest.raises(RefusedError, match="thread writer is still running"):
        namespace.checkpoint()
    namespace.run("go[0] = True\nwhile threading.active_count() > 1: pass")
    namespace.checkpoint()


def test_a_running_process_refuses(namespace: Namespace) -> None:
    """A process in the background, left to another parent by the shell, stands against a checkpoint."""
    namespace.run("import os\nos.system('sleep 100 &')")
    with pytest.raises(RefusedError, match=r"process \d+ \(.+\) is still running"):
        namespace.checkpoint()


def test_refusing_changes_nothing(namespace: Namespace) -> None:
    """After a refusal the namespace works on, and clearing the variable makes the checkpoint possible."""
    namespace.run("x = (i for i in range(3))\ny = next(x)")
    with pytest.raises(RefusedError):
        namespace.checkpoint()
    assert namespace.run("print(list(x))").output == "[1, 2]\n"
    namespace.run("del x")
    namespace.checkpoint()


def test_report_is_for_people(namespace: Namespace) -> None:
    """The report says of each variable whether it is kept, its type and size or the reason, and what else returns."""
    namespace.run("import os\nnumbers = list(range(1000))\ngate = (i for i in [])\nos.environ['ADDED'] = '1'")
    report = namespace.report()
    lines = report.text().splitlines()
    assert any(line.startswith("kept") and "numbers" in line and "list" in line and "bytes" in line for line in lines)
    assert any(line.startswith("REFUSED") and "gate" in line and "generator" in line for line in lines)
    assert "environment restored: ADDED" in lines
    sizes = {variable.name: variable.size for variable in report.variables}
    assert 1000 < sizes["numbers"] < 10_000
    assert NamespaceReport.from_bytes(report.to_bytes()) == report
