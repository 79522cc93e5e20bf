"""Two agents without a model, which do the work in Python cells: one keeps what it prepared, one reads again.

They are the two ways an agent meets a corrected file. `keeps` works as a notebook does: its variables and its prepared
action stay what they were, so only going back to before the read corrects it. `rereads` looks again before it acts.
"""

import json
from importlib.resources import files

from veristate.agents.agent import Agent, Proposal, Task, pending_proposal
from veristate.agents.session import Session
from veristate.agents.state import Payload
from veristate.core import InputError, plain


class Keeps:
    """Hands in what it prepared."""

    name = "keeps"

    def analyse(self, session: Session, task: Task) -> None:
        """Returns when the table is read, the report written and the action prepared. Raises: as `decide`."""
        session.read()
        session.propose(decide(session, task))

    def submit(self, session: Session, task: Task) -> Proposal:
        """The prepared action. Raises: RefusedError when there is none."""
        return pending_proposal(session, task)


class Rereads:
    """Reads again and decides anew before it hands in."""

    name = "rereads"

    def analyse(self, session: Session, task: Task) -> None:
        """Returns when the table is read, the report written and the action prepared. Raises: as `decide`."""
        session.read()
        session.propose(decide(session, task))

    def submit(self, session: Session, task: Task) -> Proposal:
        """The action prepared on what the tool delivers now. Raises: as `analyse`."""
        self.analyse(session, task)
        return pending_proposal(session, task)


BUILT_IN: dict[str, Agent] = {"keeps": Keeps(), "rereads": Rereads()}


def decide(session: Session, task: Task) -> Payload:
    """What the rules choose from the delivered table, worked out in the namespace; the report is in the workspace.

    Raises: InputError with the traceback when a cell fails.
    """
    rules = json.dumps([plain(rule) for rule in task.rules])
    names = f"{task.table!r}, {task.report!r}"
    _cell(session, files("veristate.agents").joinpath("table_cell.py").read_text(encoding="utf-8"))
    work = f"import json\nrules = json.loads({rules!r})\nchosen = work({names}, rules)\nprint(json.dumps(chosen))"
    printed = _cell(session, work)
    session.say("assistant", f"The decision and its margins are in {task.report}.")
    return {rule: tuple(chosen) for rule, chosen in json.loads(printed).items()}


def _cell(session: Session, code: str) -> str:
    result = session.run(code)
    if not result.ok:
        raise InputError(f"the controller's cell failed:\n{result.observation}")
    return result.output
