"""Certified commitment, whole: hold, verify, recompute, restore, commit.

Source: BioAgent-DF Algorithm 3 and Appendix K. Differs: without valid per-score bounds every round ends in full trusted
recomputation, so R1 and R1+M only say what is recomputed first.
"""

import secrets
from collections.abc import Callable
from contextlib import ExitStack

from veristate.agents import load_agent
from veristate.core import Certificate, Clock, Contract, FaultProvenError, InputError, Request, utc_now
from veristate.decisions import Outcome as Rounds
from veristate.decisions import Question, decide
from veristate.devices import (
    Coverage,
    FaultModel,
    SuspectPass,
    fault_named,
    measure_coverage,
    read_settings,
    run_suspect,
)
from veristate.ledger import Outcome
from veristate.screening.episode import Episode
from veristate.screening.inputs.contract import contract_of, request_of
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import Prepared, prepare
from veristate.screening.outcome.facts import Facts
from veristate.screening.outcome.result import ScreeningResult
from veristate.screening.outcome.telling import tell
from veristate.screening.running.executors import Executors, start_executors
from veristate.screening.running.home import Home, open_home
from veristate.screening.running.keeping import (
    keep_findings,
    keep_injection,
    keep_pass,
    keep_recomputation,
    keep_unsafe,
)
from veristate.screening.running.memory import peak_memory
from veristate.screening.running.phases import Phases, Progress, silent
from veristate.screening.running.recovery import GroupRecomputer, policy_named, recover
from veristate.screening.scoretable import ScoreTable
from veristate.screening.studies.calibrate import calibrated_epsilon


def run_screening(
    options: ScreeningOptions,
    *,
    progress: Progress = silent,
    clock: Clock = utc_now,
    new_salt: Callable[[], str] = lambda: secrets.token_hex(16),
) -> ScreeningResult:
    """What the run ended with: a committed decision, or why there is none.

    Raises: InputError for what can't be used, the table and the options before anything is written; RefusedError when
    the store is in use, the request id stands for something else, or the agent's state can't be kept before a read;
    EnvironmentUnusableError when an executor can't be used; FaultProvenError when the request was certified before with
    other values. What was journaled by then stays.
    """
    fault = fault_named(options.inject, options.seed) if options.inject else None
    load_agent(options.agent)
    phases = Phases(progress)
    with peak_memory() as peak:
        with phases("read the table"):
            prepared = prepare(options)
        with open_home(options.store, clock) as home, ExitStack() as stack:
            keep_unsafe(home, prepared.spec)
            with phases("load both executors"):
                executors = stack.enter_context(start_executors(prepared, options.trusted_device, options.granularity))
            run = _Run(options, prepared, executors, home, phases)
            run.open(fault)
            with run.episode(new_salt) as episode:
                run.hold_and_verify(fault, episode)
                run.recompute()
                outcome = run.commit(episode)
            peak.sample()
            return tell(run.facts(fault, episode, outcome), home.ledger, phases.seconds, peak.mb)


class _Run:
    """The stages of one run in order; each leaves what the next one needs."""

    def __init__(
        self, options: ScreeningOptions, prepared: Prepared, executors: Executors, home: Home, phases: Phases
    ) -> None:
        self._options = options
        self._prepared = prepared
        self._executors = executors
        self._home = home
        self._phases = phases
        self._ids = prepared.candidates.ids
        self._groups = len(executors.suspect.models) * len(executors.suspect.batches)
        self._reason = ""
        self._epsilon = options.epsilon
        self._contract: Contract
        self._request: Request
        self._coverage: Coverage
        self._pass: SuspectPass
        self._rounds: Rounds
        self._findings = ""
        self._recomputed = ""
        self._qualification: dict[str, str] = {}
        self._comparable = True
        self._certificate: Certificate | None = None
        self._certified: ScoreTable | None = None
        self._reference: ScoreTable | None = None

    def open(self, fault: FaultModel | None) -> None:
        """The request stands in the ledger, the trusted executor has shown that it repeats its bits."""
        trusted = self._executors.trusted
        self._contract = contract_of(
            self._prepared.trusted_spec(self._options.trusted_device),
            self._prepared.candidates,
            trusted,
            self._options.temperature,
        )
        self._request = request_of(self._contract, self._prepared.rules, self._options.request_id)
        if self._options.policy == "r1m" and self._epsilon is None:
            self._epsilon = calibrated_epsilon(self._home.ledger, self._contract.digest)
        self._home.ledger.record(self._contract)
        self._home.ledger.gateway.open_request(self._request)
        self._journal(
            "run.started",
            policy=self._options.policy,
            recovery=self._options.recovery,
            contract=self._contract.digest,
            fault=fault.name if fault else "none simulated",
        )
        with self._phases("qualify the trusted executor"):
            self._qualification = trusted.qualify()
        self._journal("executor.qualified", **self._qualification)
        with self._phases("measure coverage"):
            self._coverage = measure_coverage(self._executors.suspect)

    def episode(self, new_salt: Callable[[], str]) -> Episode:
        """The agent's session for this request."""
        return Episode(
            request=self._request,
            make_agent=lambda: load_agent(self._options.agent),
            dropped=self._prepared.dropped,
            recovery=self._options.recovery,
            workspace=self._home.workspace,
            store=self._home.store,
            ledger=self._home.ledger,
            new_salt=new_salt,
        )

    def hold_and_verify(self, fault: FaultModel | None, episode: Episode) -> None:
        """The suspect pass has run, its calls are checked; under `hold` nothing was shown to the agent."""
        with self._phases("score and check", self._groups) as step:
            self._pass = run_suspect(self._executors.suspect, self._executors.trusted, fault=fault, progress=step)
        settings = read_settings(self._prepared.spec.device) | self._executors.suspect.libraries()
        # The checks alone use numpy's BLAS: its threads decide no score's bits.
        alike = set(self._contract.settings) - {"openblas_num_threads"}
        self._comparable = all(settings.get(name) == self._contract.settings[name] for name in alike)
        keep_pass(self._home, self._request.request_id, self._pass, settings)
        if fault:
            keep_injection(self._home, self._request.request_id, f"{fault.name}, seed {fault.seed}", fault.events)
        if self._options.recovery != "hold":
            self._release(episode)
        self._findings = keep_findings(self._home, self._request.request_id, self._pass.checked)

    def recompute(self) -> None:
        """Units are recomputed on the trusted executor until every value is certified, or the budget ends.

        The executor is qualified again: if it no longer repeats its bits, nothing it computed is used.
        """
        suspect = self._executors.suspect
        marked = self._pass.checked.findings.marked_units(*self._pass.scores.shape)
        policy = policy_named(self._options.policy, marked, self._epsilon)
        # `--compare` goes on to everything also where a budget stopped the rounds; that is reported, never certified.
        with self._phases("recompute on the trusted executor", self._groups) as step:
            again = GroupRecomputer(self._executors.trusted, suspect.batches, self._ids, step)
            question = Question(rules=self._prepared.rules, ids=self._ids, temperature=self._options.temperature)
            self._rounds = recover(question, self._pass.scores, policy, again, self._options.budget)
            known = self._rounds.values_fixed or self._options.compare
            everything = again.everything(self._pass.scores.shape) if known else None
        with self._phases("qualify the trusted executor"):
            self._journal("executor.requalified", **self._executors.trusted.qualify())
        current = self._rounds.current
        self._recomputed = keep_recomputation(
            self._home, self._request.request_id, self._contract.digest, current.members, current.fixed
        )
        if everything is not None:
            self._reference = ScoreTable.of(self._ids, everything, self._options.temperature)
        if self._rounds.values_fixed and self._reference:
            self._certified = self._reference
            self._certificate = self._certify(self._certified)

    def commit(self, episode: Episode) -> Outcome | None:
        """What the gateway said of the agent's action; None when nothing is certified, so nothing was proposed.

        Raises: FaultProvenError when the request was certified before with other values.
        """
        if self._certified is None or self._certificate is None:
            self._reason = self._why_uncertified()
            self._journal("nothing.committed", reason=self._reason)
            return None
        self._require_agreement(self._certificate)
        with self._phases("agent and commitment"):
            return episode.conclude(self._certified, self._certificate)

    def _require_agreement(self, certificate: Certificate) -> None:
        """Raises FaultProvenError when this request was certified before with other values: one contract has one."""
        name = self._request.request_id
        earlier = self._home.ledger.gateway.current_certificate(name)
        if earlier and (earlier.table, earlier.decisions) != (certificate.table, certificate.decisions):
            self._journal("certificate.contradicted", table=certificate.table, earlier=earlier.digest)
            raise FaultProvenError(
                f"request {name} was certified before with other scores than are recomputed now under one contract: "
                "one of the two trusted recomputations was wrong, or something that the contract does not name has "
                "changed. Nothing is committed now; see the journal"
            )

    def _why_uncertified(self) -> str:
        left = int((~self._rounds.current.fixed).sum())
        done = f"{self._rounds.units_spent} units were recomputed and {left} are not"
        what = (
            "the decisions are certified, the scores that the agent would read are"
            if self._rounds.certified
            else ("checks that passed bound no score, so the decision is")
        )
        return f"{done}; the budget of {self._options.budget} units allows no further round; {what} not certified"

    def facts(self, fault: FaultModel | None, episode: Episode, outcome: Outcome | None) -> Facts:
        """What happened, for the telling."""
        return Facts(
            options=self._options,
            prepared=self._prepared,
            request=self._request,
            coverage=self._coverage,
            suspect=self._pass,
            rounds=self._rounds,
            certificate=self._certificate,
            certified=self._certified,
            reference=self._reference,
            fault=fault,
            episode=episode,
            outcome=outcome,
            reason=self._reason,
            comparable=self._comparable,
        )

    def _release(self, episode: Episode) -> None:
        """The agent reads what nothing vouches for yet, if that is a table at all."""
        try:
            table = ScoreTable.of(self._ids, self._pass.scores, self._options.temperature)
        except InputError as error:
            episode.steps.append(f"The unverified scores could not be shown to the agent: {error}.")
            return
        with self._phases("agent and commitment"):
            episode.read_unverified(table)

    def _certify(self, table: ScoreTable) -> Certificate:
        """The certificate of the rounds' decisions; the table must give the same ones, since the agent will read it."""
        decisions = self._rounds.decisions
        if decisions != tuple(decide(rule, table.scores, table.ids) for rule in self._prepared.rules):
            raise FaultProvenError("the rounds certified other decisions than the certified table gives")
        return Certificate(
            request_id=self._request.request_id,
            contract=self._request.contract,
            contract_kind=self._contract.kind,
            delta="0",
            certifies="values",
            decisions=decisions,
            table=self._home.store.put(table.to_csv()),
            evidence={
                "recomputation": self._recomputed,
                "units_recomputed": str(self._rounds.units_spent),
                "executor": self._executors.trusted.checked_on,
                "qualification": self._qualification["bits"],
                "qualification_arithmetic": self._qualification["arithmetic"],
                "findings": self._findings,
                "findings_verdict": self._pass.checked.findings.verdict().value,
            },
        )

    def _journal(self, kind: str, **body: str) -> None:
        self._home.ledger.append(kind, {"request_id": self._request.request_id} | body)
