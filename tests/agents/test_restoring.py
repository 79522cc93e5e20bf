"""A namespace comes back exactly, in a new worker, whatever became of the old one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from veristate.agents.namespace import Namespace

# Each: the cell before the checkpoint, the cell after it, and an expression that must be true after going back.
RETURNS = {
    "values, and names that were added or deleted since": (
        "a = 1\nb = [1, 2]",
        "del a\nb.append(3)\nc = 4",
        "(a, b, 'c' in globals()) == (1, [1, 2], False)",
    ),
    "aliases, at any depth": (
        "a = [1]\nb = [a]\nc = {'x': a}",
        "a = b = c = None",
        "b[0] is a and c['x'] is a",
    ),
    "a cycle": ("a = []\na.append(a)", "a = None", "a[0] is a"),
    "the namespace itself": ("g = globals()", "g = None", "g is globals()"),
    "a closed file, as `with` leaves it": (
        "with open('f.txt', 'w') as f: f.write('x')",
        "f = None",
        "f.closed and f.name == 'f.txt' and f.mode == 'w'",
    ),
    "closed files of the other kinds": (
        "fs = [open('f', m, buffering=b) for m, b in (('wb', -1), ('wb+', -1), ('rb', 0), ('r', 1))]\n"
        "marks = [(type(f), f.name, f.mode) for f in fs]\n[f.close() for f in fs]",
        "fs = None",
        "[(type(f), f.name, f.mode) for f in fs] == marks and all(f.closed for f in fs)",
    ),
    "standard output by its name": ("import sys\nout = sys.stdout", "out = None", "out is sys.stdout"),
    "a StringIO with its position": ("import io\nx = io.StringIO('abc')\nx.read(1)", "x = 0", "x.read() == 'bc'"),
    "a class without what was added to it since": (
        "class C: kept = 1\nc = C()",
        "C.kept = 2\nC.added = 3",
        "C.kept == 1 and not hasattr(C, 'added') and type(c) is C",
    ),
    "an enumeration and its members": (
        "import enum\nclass E(enum.Enum): A = 1\nx = [E.A]",
        "x = E = None",
        "x[0] is E.A and E(1) is E.A",
    ),
    "a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int\nd = D(1)",
        "d.a = 2",
        "d == D(1) and dataclasses.fields(D)[0].name == 'a'",
    ),
    "closures that share a variable": (
        "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def get(): return n\n"
        "    return up, get\nup, get = make()\nup()",
        "up()\nup()",
        "(get(), up(), get()) == (1, None, 2)",
    ),
    "a closure that holds itself": (
        "def make():\n    def f(n): return 1 if n < 1 else n * f(n - 1)\n    return f\nf = make()",
        "f = None",
        "f(5) == 120",
    ),
    "a closure whose variable is not set yet, or is None": (
        "def make():\n    a = None\n    def f(): return a\n    def g(): return later\n"
        "    if a: later = 1\n    return f, g\nf, g = make()",
        "f = g = None",
        "f() is None and g.__closure__[0] == type(g.__closure__[0])()",
    ),
    "a method that calls super": (
        "class A:\n    def f(self): return 'A'\nclass B(A):\n    def f(self): return 'B' + super().f()\nf = B().f",
        "A = B = f = None",
        "f() == 'BA' == B().f()",
    ),
    "a cached function with an empty cache": (
        "import functools\nk = 1\n@functools.lru_cache(maxsize=7)\ndef f(x): return x + k\nf(1)",
        "k = 100\nf(2)",
        "f(2) == 3 and f.cache_info().maxsize == 7 and f.__name__ == 'f'",
    ),
    "the functions of `random`, still one generator": (
        "import random\nfrom random import random as draw\nrandom.seed(1)\nfirst = draw()\nstate = random.getstate()\n"
        "random.setstate(state)",
        "random.seed(99)\ndraw = None",
        "random.getstate() == state and (random.seed(1), draw())[1] == first",
    ),
    "numpy's old generator": (
        "import numpy as np\nnp.random.seed(3)\nold = np.random.mtrand._rand\nstate = np.random.get_state()[1].copy()",
        "np.random.rand(5)",
        "(np.random.get_state()[1] == state).all() and old is np.random.mtrand._rand",
    ),
    "generators of their own": (
        "import numpy as np, random\na, b = np.random.default_rng(1), random.Random(1)\na.random(), b.random()\n"
        "import copy\nc, d = copy.deepcopy((a, b))\nwanted = c.random(), d.random()",
        "a.random(), b.random()",
        "(a.random(), b.random()) == wanted",
    ),
    "the environment: changed, added and removed": (
        "import os\nos.environ['NEW'] = '1'\nos.environ.pop('HOME', None)",
        "os.environ['NEW'] = '2'\nos.environ['HOME'] = '/'\nos.environ['LATER'] = '3'\ndel os.environ['PATH']",
        "os.environ['NEW'] == '1' and not {'HOME', 'LATER'} & set(os.environ) and 'PATH' in os.environ",
    ),
    "the working directory": (
        "import os\nos.makedirs('a/b', exist_ok=True)\nos.chdir('a')\nhere = os.getcwd()",
        "os.chdir('b')",
        "os.getcwd() == here",
    ),
    "the import path": (
        "import sys\nsys.path.append('/kept')",
        "sys.path.remove('/kept')\nsys.path.append('/later')",
        "'/kept' in sys.path and '/later' not in sys.path",
    ),
    "the order of a set of strings": (
        "s = set('the quick brown fox'.split())\norder = list(s)",
        "s = None",
        "list(s) == order",
    ),
    "an exception": ("try: 1 / 0\nexcept Exception as e: x = e", "x = None", "type(x) is ZeroDivisionError"),
    "type hints that name a class of the namespace": (
        "import typing\nclass C: pass\ndef f(x: 'C') -> C: ...",
        "f = None",
        "typing.get_type_hints(f) == {'x': C, 'return': C}",
    ),
}


@pytest.mark.parametrize(("before", "after", "holds"), RETURNS.values(), ids=RETURNS.keys())
def test_returns(namespace: Namespace, go_back: Callable[..., None], before: str, after: str, holds: str) -> None:
    """What was there at the checkpoint is there after going back, whatever happened to it between."""
    assert namespace.run(before).observation == ""
    checkpoint = namespace.checkpoint()
    go_back(namespace, checkpoint, after)
    assert namespace.run(f"print({holds})").observation == "True\n"


FORMS = {
    "function": ("def f(): return k", "f()"),
    "closure": ("def make():\n    one = 1\n    def g(): return k * one\n    return g\nf = make()", "f()"),
    "method": ("class C:\n    def m(self): return k\nf = C()", "f.m()"),
    "static method": ("class C:\n    @staticmethod\n    def m(): return k\nf = C", "f.m()"),
    "class method": ("class C:\n    @classmethod\n    def m(cls): return k\nf = C", "f.m()"),
    "property": ("class C:\n    @property\n    def m(self): return k\nf = C()", "f.m"),
    "partial": ("import functools\ndef g(x): return k * x\nf = functools.partial(g, 1)", "f()"),
    "decorated": (
        "import functools\ndef plain(g):\n    @functools.wraps(g)\n    def h(): return g()\n    return h\n"
        "@plain\ndef f(): return k",
        "f()",
    ),
    "in containers": ("def g(): return k\nf = {'a': [(g,)]}\ndel g", "f['a'][0][0]()"),
    "lambda as a default": ("def f(g=lambda: k): return g()", "f()"),
}


@pytest.mark.parametrize(("code", "call"), FORMS.values(), ids=FORMS.keys())
def test_functions_see_the_living_namespace(
    namespace: Namespace, go_back: Callable[..., None], code: str, call: str
) -> None:
    """After going back a function reads and follows the globals that cells see, however it is wrapped or kept."""
    namespace.run(f"k = 1\n{code}")
    checkpoint = namespace.checkpoint()
    go_back(namespace, checkpoint, "k = 50")
    assert namespace.run(f"print({call})\nk = 7\nprint({call})").observation == "1\n7\n"


def test_going_back_twice(namespace: Namespace) -> None:
    """The same checkpoint serves again, after changes made since the first time, and with no worker to begin from."""
    namespace.run("a = [1]\ndef f(): a.append(len(a) + 1)")
    checkpoint = namespace.checkpoint()
    for after in ("a = 2", "f = 3"):
        assert namespace.run(after).ok
        if after == "f = 3":
            namespace.close()
        namespace.restore(namespace.fetch(checkpoint.digest))
        assert namespace.run("f()\nf()\nprint(a)").output == "[1, 2, 3]\n"


@pytest.mark.parametrize(
    "code",
    [
        "a = {'id': [1], 'name': 'id'}\ndef f(id): return {'id': id, 'a': a}\nclass C:\n    id = 'id'\nc = C()",
        "import numpy as np\na = np.arange(30000.).reshape(100, 300)\nb = a.T[5:, ::-2]\n"
        "c = np.asfortranarray(a)\nd = [a, b]",
        "import csv, json\nrows = [dict(id=str(i), score=i / 7) for i in range(50)]\nbest = sorted(rows, key=str)[:3]",
        "class B: pass\nclass C(B):\n    def __init__(self): super().__init__(); self.id = 'text'\n"
        "c = [C(), {'name': 1}]",
    ],
)
def test_the_next_checkpoint_has_the_same_bytes(namespace: Namespace, go_back: Callable[..., None], code: str) -> None:
    """A checkpoint taken right after going back is the same record, digest for digest.

    Not a law: a text in the data that is also an attribute's name may be one string object before and two after.
    """
    assert namespace.run(code).ok
    first = namespace.checkpoint()
    go_back(namespace, first, "a = None\nz = 1")
    assert namespace.checkpoint() == first


def test_tracebacks_show_the_source_after_going_back(namespace: Namespace, go_back: Callable[..., None]) -> None:
    """A function kept from an earlier cell fails with that cell's number and line, and cells count on from there."""
    namespace.run("def f():\n    return 1 / 0  # here")
    checkpoint = namespace.checkpoint()
    go_back(namespace, checkpoint, "pass")
    error = namespace.run("f()").error
    assert 'File "<cell 1>", line 2, in f\n    return 1 / 0  # here' in error
    assert 'File "<cell 2>", line 1, in <module>' in error


def test_a_module_of_the_workspace_follows_its_file(
    namespace: Namespace, workspace: Path, go_back: Callable[..., None]
) -> None:
    """A module that the agent wrote is imported anew from the restored file, and the report says so."""
    (workspace / "own.py").write_text("value = 1\n")
    namespace.run("import own\nfrom own import value")
    checkpoint = namespace.checkpoint()
    assert "own" in checkpoint.report.notes[0]
    go_back(namespace, checkpoint, "own.value = value = 22")
    assert namespace.run("print(own.value, value)").output == "1 1\n"


def test_the_worker_imports_nothing_heavy(namespace: Namespace) -> None:
    """Neither starting nor keeping and restoring brings numpy, pandas or torch into the agent's process."""
    namespace.run("import sys\na = [1]")
    namespace.restore(namespace.fetch(namespace.checkpoint().digest))
    assert namespace.run("print({'numpy', 'pandas', 'torch', 'sqlalchemy'} & set(sys.modules))").output == "set()\n"


def test_our_side_reads_no_pickle() -> None:
    """Importing the room brings neither cloudpickle nor numpy into the process that holds the records."""
    code = "import sys\nfrom veristate.agents import *\nprint({'cloudpickle', 'numpy', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
