"""One run, stage by stage, up to the commitment; `exact` has the stages of a run under exact arithmetic."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from veristate.agents import load_agent
from veristate.core import Certificate, Clock, Contract, Decision, FaultProvenError, InputError, Request
from veristate.decisions import Box, Question, decide
from veristate.decisions import Outcome as Rounds
from veristate.decisions.enclosures import Terms
from veristate.devices import (
    Coverage,
    FaultModel,
    Group,
    SuspectPass,
    measure_coverage,
    read_settings,
    run_suspect,
)
from veristate.devices.trusted import Certification, PlannedPass, no_export
from veristate.ledger import Outcome
from veristate.screening.challenging import commit_to_screening
from veristate.screening.episode import Episode
from veristate.screening.inputs.contract import contract_of, request_of
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import Prepared
from veristate.screening.outcome.facts import Facts
from veristate.screening.running.executors import Executors
from veristate.screening.running.home import Home
from veristate.screening.running.keeping import keep_findings, keep_injection, keep_pass, keep_recomputation
from veristate.screening.running.phases import Phases
from veristate.screening.running.recovery import (
    GroupRecomputer,
    MemoisedRecomputer,
    Recomputer,
    policy_named,
    recover,
)
from veristate.screening.scoretable import ScoreTable, Table
from veristate.screening.studies.calibrate import calibrated_epsilon


class Run:
    """The stages of one run in order; each leaves what the next needs. The contract is a healthy run's bits."""

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
        self._planned: PlannedPass
        self._certification: Certification | None = None
        self._rounds: Rounds | None = None
        self._findings = ""
        self._recomputed = ""
        self._qualification: dict[str, str] = {}
        self._comparable = True
        self._certificate: Certificate | None = None
        self._certified: Table | None = None
        self._reference: Table | None = None

    def open(self, fault: FaultModel | None) -> None:
        """The request stands in the ledger, the trusted executor has shown that it repeats its bits."""
        trusted = self._executors.trusted
        with self._phases("plan the certification"):
            self._planned = self._plan()
        self._contract = contract_of(
            self._options.wanted.kind,
            self._prepared.trusted_spec(self._options.trusted_device),
            self._prepared.candidates,
            trusted,
            self._executors.suspect.libraries(),
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
            contract_kind=self._contract.kind,
            strategy=self._planned.strategy,
            strategy_reason=self._planned.reason,
            fault=fault.name if fault else "none simulated",
        )
        with self._phases("qualify the trusted executor"):
            self._qualification = trusted.qualify()
        self._journal("executor.qualified", **self._qualification)
        with self._phases("measure coverage"):
            self._coverage = measure_coverage(self._executors.suspect)

    def _plan(self) -> PlannedPass:
        """How everything will be recomputed: memoised where that is predicted to cost less, or was asked for."""
        if self._options.policy != "full":
            reason = f"policy {self._options.policy} chooses what is recomputed first"
            return PlannedPass(strategy="full", reason=reason, predicted=None)
        if self._options.strategy == "full":
            return PlannedPass(strategy="full", reason="full was asked for", predicted=None)
        return self._executors.trusted.plan(self._options.wanted)

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
        self._keep_pass(fault)
        if self._options.recovery != "hold":
            self._release(episode)
        self._findings = keep_findings(self._home, self._request.request_id, self._pass.checked)

    def _keep_pass(self, fault: FaultModel | None) -> None:
        """What the device gave, its settings, and what was simulated are kept."""
        settings = read_settings(self._prepared.spec.device) | self._executors.suspect.libraries()
        # The checks alone use numpy's BLAS: its threads decide no score's bits.
        alike = set(self._contract.settings) - {"openblas_num_threads"}
        same = all(settings.get(name) == self._contract.settings[name] for name in alike)
        self._comparable = self._contract.kind == "C2" and same
        keep_pass(self._home, self._request.request_id, self._pass, settings)
        if fault:
            keep_injection(self._home, self._request.request_id, f"{fault.name}, seed {fault.seed}", fault.events)

    def recompute(self) -> None:
        """Units are recomputed on the trusted executor until every value is certified, or the budget ends.

        The executor is qualified again: if it no longer repeats its bits, nothing it computed is used.
        """
        marked = self._pass.checked.findings.marked_units(*self._pass.scores.shape)
        policy = policy_named(self._options.policy, marked, self._epsilon)
        # `--compare` goes on to everything also where a budget stopped the rounds; that is reported, never certified.
        with self._phases("recompute on the trusted executor", self._groups) as step:
            again = self._recomputer(step)
            rounds = recover(self._question, self._pass.scores, policy, again, self._options.budget)
            known = rounds.values_fixed or self._options.compare
            everything = again.everything(self._pass.scores.shape) if known else None
        self._rounds = rounds
        if isinstance(again, MemoisedRecomputer):
            self._certification = again.certification
        with self._phases("qualify the trusted executor"):
            self._journal("executor.requalified", **self._executors.trusted.qualify())
        current = rounds.current
        self._recomputed = keep_recomputation(
            self._home, self._request.request_id, self._contract.digest, current.members, current.fixed
        )
        if everything is not None:
            self._reference = ScoreTable.of(self._ids, everything, self._options.temperature)
        if rounds.values_fixed and self._reference:
            self._certified = self._reference
            evidence = {"recomputation": self._recomputed, "units_recomputed": str(rounds.units_spent)}
            self._certificate = self._certify(self._certified, rounds.decisions, self._terms, evidence)

    @property
    def _question(self) -> Question:
        return Question(rules=self._prepared.rules, ids=self._ids, temperature=self._options.temperature)

    def _question_within(self, box: Box) -> Question:
        return replace(self._question, enclosures=box)

    @property
    def _terms(self) -> Terms:
        return Terms(kind=self._contract.kind, delta="0", certifies="values")

    def _recomputer(self, step: Callable[[Group], None]) -> Recomputer:
        """What recomputes units, as it was planned."""
        trusted = self._executors.trusted
        if self._planned.strategy == "memo":
            question, wanted = self._question, self._options.wanted
            return MemoisedRecomputer(lambda: trusted.certify(question, wanted, no_export), self._ids)
        return GroupRecomputer(trusted, self._executors.suspect.batches, self._ids, step)

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

    def commit_to(self, clock: Clock) -> str:
        """The digest of the commitment to what was certified, for the log; empty when nothing was."""
        if self._certified is None or self._certificate is None:
            return ""
        return commit_to_screening(
            self._home.path,
            self._prepared,
            trusted_device=self._options.trusted_device,
            contract=self._contract,
            request=self._request,
            certificate=self._certificate,
            table=self._certified.to_csv(),
            clock=clock,
        )

    def _require_agreement(self, certificate: Certificate) -> None:
        """Raises FaultProvenError when this request was certified before with other values: one contract has one."""
        name = self._request.request_id
        earlier = self._home.ledger.gateway.current_certificate(name)
        if earlier is None:
            return
        # Intervals depend on the probes that were drawn: under C1 the decisions alone are one.
        same_table = certificate.contract_kind == "C1" or earlier.table == certificate.table
        if not same_table or earlier.decisions != certificate.decisions:
            self._journal("certificate.contradicted", table=certificate.table, earlier=earlier.digest)
            raise FaultProvenError(
                f"request {name} was certified before with other scores than are recomputed now under one contract: "
                "one of the two trusted recomputations was wrong, or something that the contract does not name has "
                "changed. Nothing is committed now; see the journal"
            )

    def _why_uncertified(self) -> str:
        assert self._rounds is not None
        left = int((~self._rounds.current.fixed).sum())
        done = f"{self._rounds.units_spent} units were recomputed and {left} are not"
        what = (
            "the decisions are certified, the scores that the agent would read are"
            if self._rounds.certified
            else ("checks that passed bound no score, so the decision is")
        )
        return f"{done}; the budget of {self._options.budget} units allows no further round; {what} not certified"

    def facts(self, fault: FaultModel | None, episode: Episode, outcome: Outcome | None, commitment: str) -> Facts:
        """What happened, for the telling."""
        return Facts(
            options=self._options,
            prepared=self._prepared,
            request=self._request,
            coverage=self._coverage,
            suspect=self._pass,
            planned=self._planned,
            rounds=self._rounds,
            certification=self._certification,
            certificate=self._certificate,
            certified=self._certified,
            reference=self._reference,
            fault=fault,
            episode=episode,
            outcome=outcome,
            commitment=commitment,
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

    def _certify(
        self, table: Table, decisions: tuple[Decision, ...], terms: Terms, evidence: Mapping[str, str]
    ) -> Certificate:
        """The certificate of those decisions; the table must give the same ones, since the agent will read it."""
        if decisions != tuple(decide(rule, table.scores, table.ids) for rule in self._prepared.rules):
            raise FaultProvenError("the rounds certified other decisions than the certified table gives")
        done = self._certification
        strategy = (done.strategy, done.reason) if done else (self._planned.strategy, self._planned.reason)
        findings = {
            "findings": self._findings,
            "findings_verdict": self._pass.checked.findings.verdict().value,
        }
        return Certificate(
            request_id=self._request.request_id,
            contract=self._request.contract,
            contract_kind=terms.kind,
            delta=terms.delta,
            certifies=terms.certifies,
            decisions=decisions,
            table=self._home.store.put(table.to_csv()),
            evidence={
                "strategy": strategy[0],
                "strategy_reason": strategy[1],
                "executor": self._executors.trusted.checked_on,
                "qualification": self._qualification["bits"],
                "qualification_arithmetic": self._qualification["arithmetic"],
            }
            | (findings if self._findings else {})
            | dict(evidence),
        )

    def _journal(self, kind: str, **body: str) -> None:
        self._home.ledger.append(kind, {"request_id": self._request.request_id} | body)
