"""A user's own agent is found by name, and what is missing in it is named."""

import sys
from pathlib import Path

import pytest

from veristate.agents import Session, Task, load_agent
from veristate.core import InputError, RefusedError, Rule

SOURCE = """
from veristate.agents import Proposal


class Full:
    name = "full"

    def analyse(self, session, task):
        session.read()
        session.propose({"top_k": ["a"]})

    def submit(self, session, task):
        return Proposal(request_id=task.request_id, view=session.view, payload={"top_k": ["b"]})


class Nameless(Full):
    name = None


class Half:
    def analyse(self, session, task):
        pass


class Narrow(Full):
    def submit(self, session):
        pass


ready = Full()
number = 3


def factory():
    return Full()


def plain(session, task):
    session.read()
    return {"top_k": ["c"]}


def makes_plain():
    return plain


def three(a, b, c):
    pass


def fails():
    raise ValueError("no licence")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the modules of a user, which no other test sees."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("own_agent", "broken_agent", "needs_agent"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "own_agent.py").write_text(SOURCE)
    (tmp_path / "broken_agent.py").write_text("1 / 0")
    (tmp_path / "needs_agent.py").write_text("import no_such_library")
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ("unknown", "name keeps, rereads or your own"),
        (":factory", "module:function"),
        ("own_agent:", "module:function"),
        ("no_such_module:f", "no module 'no_such_module'"),
        ("needs_agent:f", "no module 'no_such_library'"),
        ("broken_agent:f", "ZeroDivisionError"),
        ("own_agent:absent", "has no 'absent'"),
        ("own_agent:Half", r"a Half without submit\(session, task\)"),
        ("own_agent:Narrow", r"a Narrow without submit\(session, task\)"),
        ("own_agent:number", r"without analyse\(session, task\) and submit\(session, task\)"),
        ("own_agent:three", "without analyse"),
        ("own_agent:fails", "no licence"),
    ],
)
def test_says_what_is_missing(folder: Path, spec: str, missing: str) -> None:
    """A wrong name is the user's error, and the message names what is not there."""
    with pytest.raises(InputError, match=missing):
        load_agent(spec, folder=folder)


@pytest.mark.parametrize(
    ("attribute", "name", "handed_in"),
    [
        ("Full", "full", "b"),
        ("factory", "full", "b"),
        ("ready", "full", "b"),
        ("Nameless", "Nameless", "b"),
        ("plain", "plain", "c"),
        ("makes_plain", "makes_plain", "c"),
    ],
)
def test_loads_and_works(folder: Path, session: Session, attribute: str, name: str, handed_in: str) -> None:
    """A class, a factory, an object or a plain function becomes an agent that analyses and hands in."""
    agent = load_agent(f"own_agent:{attribute}", folder=folder)
    assert agent.name == name
    session.tool = lambda session: session.deliver("scores.csv", b"", "v1")
    task = Task(request_id="r", rules=(Rule(kind="top_k", count=1),))
    agent.analyse(session, task)
    proposal = agent.submit(session, task)
    assert (proposal.view, proposal.payload, proposal.request_id) == ("v1", {"top_k": (handed_in,)}, "r")


def test_a_plain_function_hands_in_only_what_is_pending(folder: Path, session: Session) -> None:
    """After its action was discarded a plain function has nothing to hand in."""
    agent = load_agent("own_agent:plain", folder=folder)
    with pytest.raises(RefusedError, match="analyse first"):
        agent.submit(session, Task(request_id="r", rules=(Rule(kind="top_k", count=1),)))


def test_built_in_agents_by_name() -> None:
    """The two controllers are found by their names."""
    assert [load_agent(name).name for name in ("keeps", "rereads")] == ["keeps", "rereads"]
