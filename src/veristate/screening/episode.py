"""One request's agent, through one of three recovery conditions, up to what the gateway says.

    hold      nothing is shown before it is certified (recovery before the read)
    replace   the agent reads at once; if a value is replaced, only the file is corrected
    restore   the agent reads at once; if a value is replaced, it goes back to the state before that read

Source: BioAgent-DF Algorithm 3, I.7, K.3.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from veristate.agents import Agent, Checkpoint, Proposal, Session, Task
from veristate.core import Action, Certificate, Decision, RefusedError, Request, View
from veristate.ledger import Ledger, Outcome
from veristate.screening.inputs.options import Recovery
from veristate.screening.scoretable import DROPPED, FILE, ScoreTable
from veristate.store import Store


@dataclass(slots=True, kw_only=True)
class Episode:
    """An agent at work on `request`. The order is `read_unverified` (not under hold), then `conclude`.

    `steps` tells what happened in plain sentences.
    """

    request: Request
    agent: Agent
    recovery: Recovery
    workspace: Path
    store: Store
    ledger: Ledger
    new_salt: Callable[[], str]
    cell_timeout: float = 60.0
    steps: list[str] = field(default_factory=list)
    first_proposal: Proposal | None = None
    restored: bool = False
    _session: Session = field(init=False)
    _checkpoint: Checkpoint | None = None
    _shown: View | None = None

    def __post_init__(self) -> None:
        if self.workspace.exists():
            shutil.rmtree(self.workspace)
        self.workspace.mkdir(parents=True)
        self._session = Session(
            self.workspace,
            self.store,
            request_id=self.request.request_id,
            new_salt=self.new_salt,
            cell_timeout=self.cell_timeout,
        )
        self._session.say("user", f"Apply the rules of {self.request.request_id} to {FILE} and prepare the action.")

    def __enter__(self) -> "Episode":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def task(self) -> Task:
        """What the agent is asked."""
        return Task(request_id=self.request.request_id, rules=self.request.rules, table=FILE)

    @property
    def read_before(self) -> bool:
        """Whether the agent was shown values before they were certified."""
        return self._shown is not None

    def hold(self) -> None:
        """The value is held: a read is refused until `conclude` releases the certified one."""
        self._session.hold(FILE, "not certified yet")
        self._session.tool = _refuse
        self.steps.append("The scores were held: nothing was shown to the agent before it was certified.")

    def read_unverified(self, table: ScoreTable) -> None:
        """The agent reads values that nothing vouches for yet, analyses them and prepares an action.

        The state before the read is kept first: if it can't be kept, the value is not released.
        """
        self._keep_state()
        self._shown = self._release(table, certified=False)
        self._session.tool = self._tool(table, self._shown)
        self.agent.analyse(self._session, self.task)
        if self._session.pending:
            pending = self._session.pending
            self.first_proposal = Proposal(
                request_id=self.request.request_id, view=pending.view, payload=pending.payload
            )
        self.steps.append(
            f"The agent ({self.agent.name}) read the scores before they were verified and prepared an action."
        )

    def conclude(self, table: ScoreTable, certificate: Certificate) -> Outcome:
        """What the gateway says of the action the agent hands in, the certified table being there now."""
        self.ledger.gateway.certify(certificate)
        if self._checkpoint is None:
            self._keep_state()
        if self._shown is None or self._shown.table != certificate.table:
            view = self._release(table, certified=True)
            self._session.tool = self._tool(table, view)
            if self._shown is not None:
                self._correct(table.to_csv(), view)
        else:
            self.steps.append("Every value the agent had read was certified as it was: nothing had to be replaced.")
        if self._session.pending is None:
            self.agent.analyse(self._session, self.task)
            self.steps.append(f"The agent ({self.agent.name}) read the certified scores and prepared its action.")
        return self._commit(self.agent.submit(self._session, self.task))

    def _keep_state(self) -> None:
        """Keeps the state before a read. Raises: RefusedError naming what can't be kept; then nothing is released."""
        self._checkpoint = self._session.checkpoint()
        self._note("agent.checkpoint", checkpoint=self._checkpoint.digest)

    def _correct(self, data: bytes, view: View) -> None:
        """Brings the certified table to an agent that had read another, in the way of the recovery condition."""
        assert self._checkpoint is not None
        if self.recovery == "restore":
            self._session.restore(self._checkpoint)
            self.restored = True
            self._note("agent.restored", checkpoint=self._checkpoint.digest)
            self.steps.append(
                "It was taken back to the state before that read: history, variables and files restored, its prepared "
                "action discarded, its request salt replaced."
            )
        else:
            (self.workspace / FILE).write_bytes(data)
            self._note("agent.file-replaced", view=view.digest)
            self.steps.append("Only the file was replaced; its history, variables and prepared action stayed.")

    def _tool(self, table: ScoreTable, view: View) -> Callable[[Session], None]:
        return lambda session: session.deliver(FILE, table.to_csv(), view.digest)

    def _release(self, table: ScoreTable, *, certified: bool) -> View:
        data = table.to_csv()
        view = View(
            request_id=self.request.request_id,
            contract=self.request.contract,
            table=self.store.put(data),
            fields=table.fields,
            dropped=DROPPED,
        )
        self.ledger.gateway.release_view(view)
        self.steps.append(
            "The certified table became the current view." if certified else "The unverified table was released to it."
        )
        return view

    def _commit(self, proposal: Proposal) -> Outcome:
        action = Action(
            request_id=self.request.request_id,
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

    def _note(self, kind: str, **more: str) -> None:
        about = {"request_id": self.request.request_id, "agent": self.agent.name, "recovery": self.recovery}
        self.ledger.append(kind, about | more)


def _refuse(_session: Session) -> None:
    raise RefusedError(f"{FILE} is held: its scores are not certified yet")


def decisions_of(proposal: Proposal, request: Request) -> tuple[Decision, ...]:
    """The proposal's decisions in the order of the request's rules. Raises: RefusedError when a rule has none."""
    missing = [rule.kind for rule in request.rules if rule.kind not in proposal.payload]
    if missing:
        raise RefusedError(f"the agent's action says nothing for {', '.join(missing)}")
    return tuple(Decision(rule=rule, chosen=tuple(sorted(proposal.payload[rule.kind]))) for rule in request.rules)
