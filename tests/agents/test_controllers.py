"""The built-in controllers decide rightly, write what they decided, and differ where they should."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from veristate.agents import Agent, Checkpoint, Proposal, Session, Task, load_agent
from veristate.core import InputError, RefusedError, Rule, digest

RULES = (
    Rule(kind="top_k", count=2),
    Rule(kind="threshold", threshold="0.5"),
    Rule(kind="nearest", count=2, threshold="0.45"),
)
WRONG = "id,name,score\na,A,0.9\nb,B,0.1\nc,C,0.5\nd,D,0.4\n"
RIGHT = "id,name,score\na,A,0.2\nb,B,0.8\nc,C,0.5\nd,D,0.4\n"


def brute(text: str, rule: Rule) -> tuple[str, ...]:
    """The decision by counting, for each candidate, how many stand before it; exact numbers, no sorting."""
    rows = [line.split(",") for line in text.splitlines()[1:]]
    scores = {row[0]: Fraction(float(row[-1])) for row in rows}
    goal = Fraction(float(rule.threshold)) if rule.threshold else Fraction(0)
    if rule.kind == "threshold":
        return tuple(sorted(name for name, score in scores.items() if score >= goal))
    distance = {name: -score if rule.kind == "top_k" else abs(score - goal) for name, score in scores.items()}
    before = {n: sum((distance[m], m) < (distance[n], n) for m in scores) for n in scores}
    return tuple(sorted(name for name, count in before.items() if count < (rule.count or 0)))


def decisions(text: str, rules: tuple[Rule, ...] = RULES) -> dict[str, tuple[str, ...]]:
    """The payload that is right for a table."""
    return {rule.kind: brute(text, rule) for rule in rules}


class Tool:
    """Delivers `text`; keeps the state before the first read, as a screening procedure does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.before: Checkpoint | None = None

    def __call__(self, session: Session) -> None:
        """Returns when the text is delivered."""
        self.before = self.before or session.checkpoint()
        session.deliver("scores.csv", self.text.encode(), digest(self.text.encode()))


@pytest.fixture(params=["keeps", "rereads"])
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each of the two controllers."""
    return load_agent(request.param)


def prepared(session: Session, agent: Agent, text: str) -> tuple[Tool, Task]:
    """The tool and the task of a session in which the agent has analysed this table."""
    session.tool = tool = Tool(text)
    task = Task(request_id="request", rules=RULES)
    agent.analyse(session, task)
    return tool, task


@pytest.mark.parametrize("rules", [(), (RULES[0], RULES[0])])
def test_a_task_without_distinct_rules_is_refused(rules: tuple[Rule, ...]) -> None:
    """A payload names rules by their kind, so a task needs at least one and none twice."""
    with pytest.raises(InputError):
        Task(request_id="r", rules=rules)


@pytest.mark.parametrize("text", ["id,score\na,nan\n", "id,score\na,1\na,2\n", "id,score\na,x\n", "name\na\n"])
def test_a_table_without_scores_is_named(session: Session, agent: Agent, text: str) -> None:
    """A table that can't be decided on is an error that shows the traceback, and no action is prepared."""
    with pytest.raises(InputError, match="Traceback"):
        prepared(session, agent, text)
    assert session.pending is None


def test_nothing_is_read_while_the_value_is_held(session: Session, agent: Agent) -> None:
    """A tool that holds its value refuses; the agent prepares nothing, and the refusal reaches the procedure."""

    def holding(session: Session) -> None:
        session.hold("scores.csv", "a fault was flagged")
        raise RefusedError(session.held["scores.csv"])

    session.tool = holding
    with pytest.raises(RefusedError, match="flagged"):
        agent.analyse(session, Task(request_id="request", rules=RULES))
    assert session.pending is None


@pytest.mark.parametrize(
    "text",
    [
        WRONG,
        RIGHT,
        "id,score\n10,1\n9,1\n1,1\n2,0.5\n",
        "id,score\na,-0.0\nb,0.0\n",
        "id,score\na,0.5\n",
        "id,score\nb,0.35\na,0.55\nc,0.45000000000000001\nd,-1e-300\n",
        "id,score\n",
    ],
)
def test_decisions_are_right(session: Session, text: str) -> None:
    """With ties, signed zeros, K above n and an empty table, the decision is the one that counting gives."""
    agent = load_agent("keeps")
    tool, task = prepared(session, agent, text)
    assert agent.submit(session, task) == Proposal(
        request_id="request", view=digest(tool.text.encode()), payload=decisions(text)
    )


def test_the_report_names_decision_boundary_and_margin(session: Session, agent: Agent) -> None:
    """The report says what is chosen, which items stand at the boundary and how far apart they are."""
    prepared(session, agent, WRONG)
    report = (session.workspace / "report.md").read_text()
    top = report.partition("## top_k")[2].partition("##")[0]
    assert "Chosen (2): a, c" in top
    assert "last in: c, score 0.5" in top
    assert "first out: d, score 0.4" in top
    assert repr(0.5 - 0.4) in top
    assert "margin of d: " + repr(0.5 - 0.4) in report.partition("## threshold")[2]


def test_the_namespace_can_be_kept_after_the_analysis(session: Session, agent: Agent) -> None:
    """The controllers leave nothing in the namespace that stands against a checkpoint."""
    prepared(session, agent, WRONG)
    assert session.report().obstacles == ()


def test_replacing_only_the_file_corrects_one_of_them(session: Session, agent: Agent) -> None:
    """With the file replaced and nothing else, `keeps` hands in the stale action and `rereads` a new one."""
    tool, task = prepared(session, agent, WRONG)
    tool.text = RIGHT
    (session.workspace / "scores.csv").write_text(RIGHT)
    text = {"keeps": WRONG, "rereads": RIGHT}[agent.name]
    proposal = agent.submit(session, task)
    assert (proposal.payload, proposal.view) == (decisions(text), digest(text.encode()))


def test_going_back_to_before_the_read_corrects_both(session: Session, agent: Agent) -> None:
    """Back before the read nothing of the wrong value is left: not in history, files, variables or pending action."""
    session.say("user", "decide")
    tool, task = prepared(session, agent, WRONG)
    assert tool.before is not None
    session.restore(tool.before)
    assert [message.content for message in session.history] == ["decide"]
    assert list(session.workspace.iterdir()) == []
    assert session.pending is None
    assert session.report().variables == ()
    with pytest.raises(RefusedError, match="nothing is prepared"):
        load_agent("keeps").submit(session, task)
    tool.text = RIGHT
    agent.analyse(session, task)
    assert agent.submit(session, task).payload == decisions(RIGHT)
    assert "0.9" not in "".join(message.content for message in session.history)


def test_a_restored_run_equals_one_that_never_saw_the_wrong_value(
    new_session: Callable[[], Session], workspace: Path, agent: Agent
) -> None:
    """What the agent wrote and said after going back is what it does when the value was right from the start."""
    first = new_session()
    tool, task = prepared(first, agent, WRONG)
    assert tool.before is not None
    first.restore(tool.before)
    tool.text = RIGHT
    agent.analyse(first, task)
    report, history = (workspace / "report.md").read_bytes(), first.history
    first.restore(tool.before)
    second = new_session()
    prepared(second, agent, RIGHT)
    assert ((workspace / "report.md").read_bytes(), second.history) == (report, history)
