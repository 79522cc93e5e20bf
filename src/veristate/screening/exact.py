"""A run under exact arithmetic: enclosures of every score, proven by probes or evaluated, certify the decisions."""

from dataclasses import replace

import numpy as np

from veristate.core import InputError
from veristate.decisions import Certified, Current, Question, equal_inputs
from veristate.decisions.question import score_box
from veristate.devices import CheckedPass, FaultModel, SuspectPass
from veristate.devices.findings import Findings
from veristate.devices.trusted import PlannedPass, no_export, run_exported
from veristate.screening.episode import Episode
from veristate.screening.run import Run
from veristate.screening.running.keeping import keep_certification
from veristate.screening.scoretable import IntervalTable


class ExactRun(Run):
    """The stages that differ. The agent reads intervals, never what the suspect device gave."""

    def _plan(self) -> PlannedPass:
        """Raises: InputError for models that can't be followed: another contract must not be met silently instead."""
        planned = self._executors.trusted.plan(self._options.wanted)
        if not planned.followed:
            raise InputError(
                f"--contract exact: {planned.reason.removesuffix('; full instead')}; use --contract device"
            )
        return planned

    @property
    def _question(self) -> Question:
        """With equal inputs as equal candidates: their exact scores are the same."""
        return replace(super()._question, classes=equal_inputs(self._prepared.candidates.inputs))

    def hold_and_verify(self, fault: FaultModel | None, episode: Episode) -> None:
        """The suspect pass has run: with its exports probed and bounded, or its calls checked as under `device`."""
        if self._planned.strategy != "probes":
            super().hold_and_verify(fault, episode)
            return
        trusted = self._executors.trusted
        with self._phases("score, export and certify", self._groups) as step:
            done = run_exported(
                self._executors.suspect, trusted, self._question, self._options.wanted, fault=fault, progress=step
            )
        self._certification = done.certification
        checked = Findings(calls=(), checked_on=trusted.checked_on, granularity=self._options.granularity)
        nothing = CheckedPass(findings=checked, evidence=(), entropy="")
        self._pass = SuspectPass(scores=done.scores, checked=nothing, seconds=done.seconds)
        self._keep_pass(fault)

    def recompute(self) -> None:
        """The enclosures stand, what they leave open was recomputed, and the executor still repeats its bits."""
        trusted = self._executors.trusted
        if self._certification is None:
            with self._phases("certify on the trusted executor"):
                self._certification = trusted.certify(self._question, self._options.wanted, no_export)
        with self._phases("qualify the trusted executor"):
            self._journal("executor.requalified", **trusted.qualify())
        told = self._certification
        kept = keep_certification(self._home, self._request.request_id, self._contract.digest, told)
        assert told.box is not None
        assert told.done is not None
        nothing_fixed = np.zeros(told.box.lower.shape)
        asked = self._question_within(told.box)
        results = Current.of(asked, nothing_fixed).results
        decisions = tuple(result.decision for result in results if isinstance(result, Certified))
        if told.ended != "certified" or len(decisions) < len(results):
            return
        scores = score_box(asked, nothing_fixed, nothing_fixed.astype(np.bool_))
        self._certified = self._reference = IntervalTable.of(self._ids, scores)
        evidence = {
            "enclosures_lower": kept.lower,
            "enclosures_upper": kept.upper,
            "units_recomputed": str(int(told.done.sum())),
        }
        if told.records:
            evidence |= {
                "probes": kept.probes,
                "probe_draws": told.records[0]["draws"],
                "rows_checked": str(told.rows_checked),
                "values_evaluated": str(told.evaluated),
            }
        self._certificate = self._certify(self._certified, decisions, told.terms, evidence)

    def _why_uncertified(self) -> str:
        told = self._certification
        assert told is not None
        assert told.done is not None
        done = f"{int(told.done.sum())} units were recomputed and the decision is still open; "
        if told.ended == "budget":
            return f"{done}the budget of {self._options.budget} units allows no further round"
        return f"{done}two exact scores lie closer together than FP64 tells apart"
