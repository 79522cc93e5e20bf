"""What an agent is to the procedures: somebody who analyses a table in a session and hands in an action."""

from dataclasses import dataclass
from typing import Protocol

from veristate.agents.session import Session
from veristate.agents.state import Payload, frozen_payload
from veristate.core import InputError, RefusedError, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is asked of an agent: apply `rules` to the file `table` of its workspace (columns `id` and `score`, and
    others) and say in the file `report` what was decided. A rule goes by its kind, so each kind stands once.
    """

    request_id: str
    rules: tuple[Rule, ...]
    table: str = "scores.csv"
    report: str = "report.md"

    def __post_init__(self) -> None:
        """Raises: InputError when there is no rule or a kind stands twice."""
        kinds = [rule.kind for rule in self.rules]
        if not kinds or len(set(kinds)) < len(kinds):
            raise InputError(f"a task needs rules of different kinds, not {kinds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The action an agent hands in: the chosen identifiers by rule name, prepared on `view`."""

    request_id: str
    view: str
    payload: Payload

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", frozen_payload(self.payload))


class Agent(Protocol):
    """An agent of whatever kind. It proposes; it can't make anything happen."""

    @property
    def name(self) -> str:
        """What records call it."""
        ...

    def analyse(self, session: Session, task: Task) -> None:
        """Returns when the table is read, the report written and an action prepared with `session.propose`."""
        ...

    def submit(self, session: Session, task: Task) -> Proposal:
        """The action the agent hands in now."""
        ...


def pending_proposal(session: Session, task: Task) -> Proposal:
    """The pending action as a proposal.

    Raises: RefusedError when none is pending, as after going back to before it was prepared.
    """
    pending = session.pending
    if pending is None:
        raise RefusedError(f"nothing is prepared for request {task.request_id}; let the agent analyse first")
    return Proposal(request_id=task.request_id, view=pending.view, payload=pending.payload)
