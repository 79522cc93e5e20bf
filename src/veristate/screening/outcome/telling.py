"""From the facts of a run to its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import Decision, InputError, Rule
from veristate.decisions import decide
from veristate.devices import summarise, write_residuals
from veristate.ledger import Ledger
from veristate.screening.outcome.facts import Facts
from veristate.screening.outcome.result import (
    AgentStory,
    Assurance,
    JournalLine,
    Recomputation,
    Scores,
    ScreeningResult,
)
from veristate.screening.outcome.summary import bits_differ, changes_of, layer_flags
from veristate.screening.scoretable import IntervalTable, ScoreTable, Table


def tell(facts: Facts, ledger: Ledger, seconds: Mapping[str, float], peak_mb: float | None) -> ScreeningResult:
    """The result: everything that summary, JSON and report are drawn from."""
    options, findings = facts.options, facts.suspect.checked.findings
    before = _table_of(facts, facts.suspect.scores)
    unchecked = decisions_over(before, facts.request.rules)
    known = facts.reference
    reference = decisions_over(known, facts.request.rules)
    changes = (
        changes_of(before, known, facts.prepared.names, unchecked or (), reference or ()) if before and known else ()
    )
    wrong = _wrong(facts, before)
    mine = [e for e in ledger.entries() if e.content.get("request_id") == facts.request.request_id]
    return ScreeningResult(
        request_id=facts.request.request_id,
        predictor=facts.prepared.title,
        candidates=len(facts.prepared.candidates.ids),
        members=len(facts.suspect.scores),
        dtype=options.dtype,
        device=options.device,
        trusted_device=options.trusted_device,
        injected=f"{facts.fault.name} (seed {facts.fault.seed}, simulated)" if facts.fault else None,
        injected_calls=sum(event.stored > 0 for event in facts.fault.events) if facts.fault else 0,
        injected_residuals=_residuals(facts),
        policy=options.policy,
        epsilon=options.epsilon,
        agent=options.agent,
        rules=facts.request.rules,
        excluded=facts.prepared.excluded,
        coverage=facts.coverage.share,
        unwatched=facts.coverage.unwatched,
        checked_on=findings.checked_on,
        granularity=findings.granularity,
        checks=summarise(findings.calls),
        layer_flags=layer_flags(findings.calls),
        flagged_units=int(findings.flagged_units(*facts.suspect.scores.shape).sum()),
        marked_units=int(findings.marked_units(*facts.suspect.scores.shape).sum()),
        comparable=facts.comparable,
        recomputed_units=_units_recomputed(facts),
        recomputations=_recomputations(facts),
        wrong_values=wrong.values,
        wrong_means=wrong.means,
        largest_displacement=wrong.largest,
        decisions_before=unchecked,
        decisions=facts.certificate.decisions if facts.certificate else None,
        changes=changes,
        scores=_scores(facts, before),
        certificate=facts.certificate,
        committed=facts.outcome is not None and facts.outcome.committed,
        committed_earlier=facts.outcome.earlier.time if facts.outcome and facts.outcome.earlier else None,
        commitment=facts.commitment,
        story=_story(facts),
        journal=tuple(JournalLine(seq=e.seq, time=e.time, kind=e.kind, digest=e.digest) for e in mine),
        journal_head=ledger.head(),
        reference_match=_reference_match(facts, ledger),
        peak_memory_mb=peak_mb,
        assurance=_assurance(facts, seconds),
        seconds=dict(seconds),
    )


def _units_recomputed(facts: Facts) -> int:
    if facts.rounds is not None:
        return facts.rounds.units_spent
    done = facts.certification.done if facts.certification else None
    return 0 if done is None else int(done.sum())


def _assurance(facts: Facts, seconds: Mapping[str, float]) -> Assurance:
    told, certificate = facts.certification, facts.certificate
    kind = facts.options.wanted.kind
    if told is None:
        return Assurance(
            contract_kind=kind,
            certifies=certificate.certifies if certificate else "",
            strategy=facts.planned.strategy,
            reason=facts.planned.reason,
            predicted_seconds=facts.planned.predicted,
            spent_seconds=seconds.get("recompute on the trusted executor"),
        )
    return Assurance(
        contract_kind=kind,
        delta=told.terms.delta,
        certifies=certificate.certifies if certificate else "",
        strategy=told.strategy,
        reason=told.reason,
        predicted_seconds=told.predicted,
        spent_seconds=told.spent,
        rows_checked=told.rows_checked,
        probe_draws=int(told.records[0]["draws"]) if told.records else 0,
        values_evaluated=told.evaluated,
    )


def _table_of(facts: Facts, members: NDArray[np.float32]) -> ScoreTable | None:
    """A table of these members; None when the suspect device gave values that are no probabilities."""
    try:
        return ScoreTable.of(facts.prepared.candidates.ids, members, facts.options.temperature)
    except InputError:
        return None


def decisions_over(table: Table | None, rules: Sequence[Rule]) -> tuple[Decision, ...] | None:
    """The decisions of each rule over a table's scores; None without a table."""
    return None if table is None else tuple(decide(rule, table.scores, table.ids) for rule in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrong:
    """How many values differ from the reference in their bits, how many calibrated means, and the largest move."""

    values: int | None = None
    means: int | None = None
    largest: float | None = None


def _wrong(facts: Facts, before: ScoreTable | None) -> _Wrong:
    after = facts.reference
    if after is None:
        return _Wrong()
    if isinstance(after, IntervalTable):  # between its ends a score may lie anywhere: no value is known to be wrong
        return _Wrong()
    values = int(bits_differ(facts.suspect.scores, after.members).sum())
    if before is None:
        return _Wrong(values=values)
    moves = np.abs(before.scores - after.scores)
    return _Wrong(values=values, means=int(np.count_nonzero(moves)), largest=float(moves.max()))


def _residuals(facts: Facts) -> str:
    lines: list[str] = []
    write_residuals(facts.fault.events if facts.fault else [], lines.append)
    return "".join(lines)


def _recomputations(facts: Facts) -> tuple[Recomputation, ...]:
    """The rounds, with the decisions that stood after each: reported, never committed before the last."""
    if facts.rounds is None:
        told = facts.certification.rounds if facts.certification else ()
        return tuple(Recomputation(reason="unresolved", asked=n, computed=n, decisions=None) for _, n in told)
    rounds, current = facts.rounds.rounds, facts.rounds.current
    done = np.zeros_like(current.fixed)
    found = []
    for each in rounds:
        done |= each.done
        members = np.where(done, current.members, facts.suspect.scores).astype(np.float32)
        table = _table_of(facts, members)
        found.append(
            Recomputation(
                reason=each.reason,
                asked=int(each.asked.sum()),
                computed=int(each.done.sum()),
                decisions=decisions_over(table, facts.request.rules),
            )
        )
    return tuple(found)


def _scores(facts: Facts, before: ScoreTable | None) -> Scores:
    count = len(facts.prepared.candidates.ids)
    after = facts.certified
    ends = after if isinstance(after, IntervalTable) else None
    return Scores(
        ids=facts.prepared.candidates.ids,
        names=facts.prepared.names,
        before=(float("nan"),) * count if before is None else tuple(before.scores.tolist()),
        certified=None if after is None else tuple(after.scores.tolist()),
        lower=None if ends is None else tuple(ends.lower.tolist()),
        upper=None if ends is None else tuple(ends.upper.tolist()),
    )


def _story(facts: Facts) -> AgentStory:
    episode, outcome = facts.episode, facts.outcome
    refused = () if outcome is None or outcome.committed else tuple(reason.value for reason in outcome.reasons)
    steps = tuple(episode.steps) + ((f"Nothing was proposed: {facts.reason}.",) if facts.reason else ())
    return AgentStory(
        agent=episode.agent_name,
        recovery=episode.recovery,
        read_unverified=episode.read_before,
        restored=episode.restored,
        refused=refused,
        steps=steps,
    )


def _reference_match(facts: Facts, ledger: Ledger) -> bool | None:
    """Whether what stands committed is what the healthy reference decides; None without a comparison."""
    if not facts.options.compare or facts.reference is None:
        return None
    committed = ledger.gateway.committed(facts.request.request_id)
    return committed is not None and committed[1].decisions == decisions_over(facts.reference, facts.request.rules)
