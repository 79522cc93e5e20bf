"""One request's agent, through one of three recovery conditions, up to what the gateway says.

    hold      nothing is shown before it is certified (recovery before the read)
    replace   the agent reads at once; if a value is replaced, only the file is corrected
    restore   the agent reads at once; if a value is replaced, it goes back to the state before its first read

Source: BioAgent-DF Algorithm 3, I.7, K.3.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from veristate.agents import Agent, Checkpoint, Proposal, Session, Task
from veristate.core import (
    Action,
    Certificate,
    Decision,
    EnvironmentUnusableError,
    InputError,
    Recovery,
    RefusedError,
    Request,
    Rule,
    VeristateError,
    View,
)
from veristate.core.records import RuleKind
from veristate.ledger import Ledger, Outcome
from veristate.screening.scoretable import FILE, ScoreTable, Table
from veristate.store import Store, remove_folder

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Episode:
    """An agent at work on `request`. The order is `read_unverified` (not under hold), then `conclude`.

    `make_agent` gives a new agent: after a restoration the one that had read the discarded values is not used again.
    `dropped` are the input columns that the agent is not shown. `steps` tells what happened in plain sentences.
    """

    request: Request
    make_agent: Callable[[], Agent]
    recovery: Recovery
    dropped: tuple[str, ...]
    workspace: Path
    store: Store
    ledger: Ledger
    new_salt: Callable[[], str]
    cell_timeout: float = 60.0
    steps: list[str] = field(default_factory=list)
    first_proposal: Proposal | None = None
    restored: bool = False
    _agent: Agent = field(init=False)
    _session: Session = field(init=False)
    _offered: Table | None = None
    _start: Checkpoint | None = None
    _kept: bool = False
    _shown: View | None = None
    _unverified: View | None = None

    def __post_init__(self) -> None:
        try:
            if self.workspace.is_symlink():
                self.workspace.unlink()
            elif self.workspace.exists():
                remove_folder(self.workspace)
            self.workspace.mkdir(parents=True)
        except OSError as error:
            raise EnvironmentUnusableError(f"{self.workspace} can't be made anew: {error.strerror}") from error
        self._agent = self.make_agent()
        self._session = Session(
            self.workspace,
            self.store,
            request_id=self.request.request_id,
            new_salt=self.new_salt,
            cell_timeout=self.cell_timeout,
        )
        self._session.tool = self._deliver
        if self.recovery == "hold":
            self._session.hold(FILE, "its scores are not certified yet")
        self._session.say("user", f"Apply the rules of {self.request.request_id} to {FILE} and prepare the action.")

    def __enter__(self) -> "Episode":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def agent_name(self) -> str:
        """What records call the agent."""
        return self._agent.name

    @property
    def read_before(self) -> bool:
        """Whether the agent was shown values before they were certified."""
        return self._unverified is not None

    def read_unverified(self, table: ScoreTable) -> None:
        """The agent may read values that nothing vouches for yet, analyses them and prepares an action.

        Whatever goes wrong with it on such values is only noted: it will be asked again on certified ones.
        """
        self._offered = table
        # The agent starts again from the top after a restoration, so this is where it is taken back to.
        self._start = self._session.checkpoint()
        self._note("agent.checkpoint", checkpoint=self._start.digest)
        try:
            self._ask(self._agent.analyse)
            self.steps.append(f"The agent ({self.agent_name}) read the unverified scores and prepared an action.")
        except VeristateError as error:
            self.steps.append(f"The agent ({self.agent_name}) failed on the unverified scores: {error}.")
        self._unverified = self._shown
        pending = self._session.pending
        if pending:
            self.first_proposal = Proposal(
                request_id=self.request.request_id, view=pending.view, payload=pending.payload
            )

    def conclude(self, table: Table, certificate: Certificate) -> Outcome:
        """What the gateway says of the action the agent hands in, the certified table being there now.

        Raises: RefusedError naming what of the agent's state can't be kept, so that nothing is released to it;
        InputError when the agent fails.
        """
        self.ledger.gateway.certify(certificate)
        self._offered = table
        if self._shown is None:
            self.steps.append("Nothing was shown to the agent before it was certified.")
        elif self._shown.table == certificate.table:
            self.steps.append("Every value the agent had read was certified as it was: nothing had to be replaced.")
        else:
            self._correct()
        if self._session.pending is None:
            self._ask(self._agent.analyse)
            self.steps.append(f"The agent ({self.agent_name}) read the certified scores and prepared its action.")
        return self._commit(self._ask(self._agent.submit))

    def _deliver(self, session: Session) -> None:
        """The tool: what is offered now. Before the first read of all, the agent's state is kept as it is then; if it
        can't be kept, the value is not released.
        """
        if self._offered is None:
            raise RefusedError(f"{FILE} is held: its scores are not certified yet")
        if not self._kept:
            try:
                self._note("agent.checkpoint", checkpoint=session.checkpoint().digest)
            except RefusedError as error:
                self._note("release.refused", reason=str(error))
                raise
            self._kept = True
        view = self._release()
        session.deliver(FILE, self._offered.to_csv(), view.digest)

    def _release(self) -> View:
        """The offered table as the current view."""
        assert self._offered is not None
        view = View(
            request_id=self.request.request_id,
            contract=self.request.contract,
            table=self.store.put(self._offered.to_csv()),
            fields=self._offered.fields,
            dropped=self.dropped,
        )
        self.ledger.gateway.release_view(view)
        self._shown = view
        return view

    def _correct(self) -> None:
        """Brings the certified table to an agent that had read another, in the way of the recovery condition."""
        assert self._start is not None
        assert self._offered is not None
        view = self._release()
        self.steps.append("The certified table became the current view; what the agent had read is superseded.")
        if self.recovery == "restore":
            self._session.restore(self._start)
            self._agent = self.make_agent()
            self.restored = True
            self._note("agent.restored", checkpoint=self._start.digest)
            self.steps.append(
                "The agent was taken back to where it began, before its first read: history, variables and files "
                "restored, its prepared action discarded, its request salt replaced."
            )
        else:
            self._session.replace_file(FILE, self._offered.to_csv())
            self._note("agent.file-replaced", view=view.digest)
            self.steps.append("Only the file was replaced; its history, variables and prepared action stayed.")

    def _commit(self, proposal: Proposal) -> Outcome:
        action = Action(
            request_id=proposal.request_id,
            contract=self.request.contract,
            view=proposal.view,
            decisions=decisions_of(proposal, self.request),
        )
        outcome = self.ledger.gateway.commit(action)
        if outcome.committed:
            self.steps.append(f"The gateway committed its action (journal entry {outcome.entry.seq}).")
        else:
            self.steps.append(f"The gateway refused its action: {', '.join(outcome.reasons)}.")
        return outcome

    def _ask(self, step: Callable[[Session, Task], T]) -> T:
        """What the agent answers. Raises: InputError for whatever a user's agent raises."""
        task = Task(request_id=self.request.request_id, rules=self.request.rules, table=FILE)
        try:
            return step(self._session, task)
        except VeristateError:
            raise
        except Exception as error:
            raise InputError(f"--agent {self.agent_name} raised {error!r}") from error

    def _note(self, kind: str, **more: str) -> None:
        about = {"request_id": self.request.request_id, "agent": self.agent_name, "recovery": self.recovery}
        self.ledger.append(kind, about | more)


def decisions_of(proposal: Proposal, request: Request) -> tuple[Decision, ...]:
    """The whole proposal as decisions: those of the request's rules first, then what nobody asked for.

    Nothing is left out or filled in: what lacks a rule, or says more, is for the gateway to refuse.
    """
    rules = {rule.kind: rule for rule in request.rules if rule.kind in proposal.payload}
    unasked = sorted(set(proposal.payload) - set(rules))
    named = [*rules.values(), *(Rule(kind=cast("RuleKind", name)) for name in unasked)]
    return tuple(Decision(rule=rule, chosen=tuple(sorted(proposal.payload[rule.kind]))) for rule in named)
