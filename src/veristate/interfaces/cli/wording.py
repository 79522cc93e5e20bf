"""A screening run in a few plain lines, and its exit code."""

from veristate.screening import Change, ScreeningOptions, ScreeningResult, stands_committed

CHANGES_SHOWN = 12
_RULES = {"top_k": "selection", "threshold": "triage", "nearest": "nearest"}


def opening_line(options: ScreeningOptions) -> str:
    """What is about to run, simulated faults first."""
    table = str(options.table) if options.table else "2,845 approved drugs"
    predictor = "the five built-in hERG members" if options.predictor == ("herg",) else " ".join(options.predictor)
    case = f"{table} with {predictor}"
    if options.inject:
        return (
            f"SIMULATED FAULT {options.inject}, seed {options.seed}: no faulty accelerator is used. Screening {case}."
        )
    return f"Screening {case}."


def summary_lines(result: ScreeningResult) -> list[str]:
    """What happened: what was wrong, what it would have changed, what was decided, what it cost."""
    return [
        *_excluded(result),
        *_assurance(result),
        *_checking(result),
        *_changes(result),
        *_taken_back(result),
        *_decision(result),
        *_commitment(result),
        *_cost(result),
    ]


def exit_code(result: ScreeningResult) -> int:
    """0 when the decision stands committed; 4 when the gateway refused; when nothing is certified 3 or 5, with a proven
    fault or without.
    """
    if stands_committed(result):
        return 0
    if result.certificate is not None:
        return 4
    return 3 if result.checks["flagged"] else 5


def _excluded(result: ScreeningResult) -> list[str]:
    if not result.excluded:
        return []
    shown = [f"  {line}" for line in result.excluded[:5]]
    more = [f"  and {len(result.excluded) - 5} more"] if len(result.excluded) > 5 else []
    return [f"Left out {_candidates(len(result.excluded))} that can't be read:", *shown, *more]


def _assurance(result: ScreeningResult) -> list[str]:
    """The contract, what is certified under it, how, and why so."""
    told = result.assurance
    meaning = {
        "C1": "exact arithmetic of the weights",
        "C2": "the bits of a healthy run on the trusted device",
        "C3": "every layer rounded correctly",
        "C4": "whole numbers",
    }
    said = {"values": "values and decisions certified", "decisions": "decisions certified, not values"}
    chance = "" if told.delta == "0" else f", delta {told.delta}"
    lines = [
        f"Contract {told.contract_kind} ({meaning.get(told.contract_kind, 'named in the certificate')}): "
        f"{said.get(told.certifies, 'nothing certified')}{chance}."
    ]
    if told.reason:
        lines.append(f"Strategy {told.strategy}: {told.reason}.")
    if told.predicted_seconds is not None and told.spent_seconds is not None:
        lines.append(
            f"Cost on the trusted side: predicted {told.predicted_seconds:.2g} s, really {told.spent_seconds:.2g} s."
        )
    return lines


def _checking(result: ScreeningResult) -> list[str]:
    checks, units = result.checks, result.candidates * result.members
    if result.assurance.rows_checked:
        told = result.assurance
        lines = [
            f"Checked {told.rows_checked:,} exported rows with {told.probe_draws} secret Gaussian probes each, drawn "
            f"after the export; {result.recomputed_units:,} of {units:,} units had to be recomputed."
        ]
        if told.values_evaluated:
            lines.append(f"{told.values_evaluated:,} exported values stood out and were evaluated on the trusted side.")
        if result.injected:
            lines.append(f"The simulated fault changed what {result.injected_calls:,} calls gave.")
        return lines
    lines = [
        f"Checked {checks['calls']:,} linear calls ({result.coverage:.1%} of the multiply-adds, {result.dtype}): "
        f"{checks['flagged']:,} flagged, {checks['inapplicable']:,} not applicable."
        f" An error that cancels within one checksum goes unseen with probability 2^-{result.granularity.draws}."
    ]
    if result.injected:
        lines.append(f"The simulated fault changed what {result.injected_calls:,} of them gave.")
    if result.wrong_values is None:
        lines.append(f"{result.marked_units:,} of {units:,} values were marked for recomputation.")
    elif not result.wrong_values:
        lines.append(f"All {units:,} values agree bit for bit with the trusted recomputation.")
    else:
        moved = ""
        if result.largest_displacement is not None:
            scores = f"the scores of {_candidates(result.wrong_means or 0)}"
            moved = f"; {scores} moved, by up to {result.largest_displacement:.3g}"
        source = " (the fault is simulated)" if result.injected else ""
        proven = result.comparable and result.checks["flagged"]
        wrong = "were wrong" if proven else "differ from the trusted recomputation"
        lines.append(f"{result.wrong_values:,} of {units:,} values {wrong}{source}{moved}.")
    return lines


def _changes(result: ScreeningResult) -> list[str]:
    if result.reference_match is None and not result.changes:
        return []
    if not result.changes:
        return ["Without the checks the decisions would have been the same."]
    names = {change.id for change in result.changes}
    lines = [f"Without the checks {_candidates(len(names))} would have been decided otherwise:"]
    lines += [_change(change) for change in result.changes[:CHANGES_SHOWN]]
    if len(result.changes) > CHANGES_SHOWN:
        lines.append(f"  and {len(result.changes) - CHANGES_SHOWN} more")
    return lines


def _change(change: Change) -> str:
    where = _RULES[change.rule]
    wrongly = f"wrongly left out of {where}" if change.entered else f"wrongly in {where}"
    why = (
        f"its score was {change.score_before:.4f}, is {change.score_after:.4f}"
        if change.own
        else f"its score {change.score_after:.4f} was right, a competitor's was wrong"
    )
    return f"  {change.id} {change.name or ''}: {wrongly}; {why} (boundary {change.boundary:.4f})"


def _taken_back(result: ScreeningResult) -> list[str]:
    if not result.story.restored:
        return []
    return [
        f"The agent ({result.story.agent}) had read the unverified scores and prepared an action: it was taken back to "
        "before that read, and decided again from certified scores."
    ]


def _decision(result: ScreeningResult) -> list[str]:
    if result.decisions is None:
        return [f"NOTHING COMMITTED. {step}" for step in result.story.steps[-1:]]
    said = ", ".join(f"{len(d.chosen):,} {_verb(d.rule.kind)}" for d in result.decisions)
    if result.committed:
        return [f"COMMITTED for {result.request_id}: {said}. Journal head {result.journal_head[:16]}."]
    if stands_committed(result):
        return [f"ALREADY COMMITTED for {result.request_id} on {result.committed_earlier}; certified again: {said}."]
    refused = f"the gateway refused the agent's action ({', '.join(result.story.refused)})"
    if result.committed_earlier:
        return [f"{refused[0].upper()}{refused[1:]}; the request stands committed since {result.committed_earlier}."]
    return [f"NOT COMMITTED: {refused}."]


def _candidates(count: int) -> str:
    return f"{count:,} candidate" + ("" if count == 1 else "s")


def _verb(kind: str) -> str:
    return {"top_k": "selected", "threshold": "sent to testing", "nearest": "nearest to the threshold"}[kind]


def _commitment(result: ScreeningResult) -> list[str]:
    if not result.commitment:
        return []
    return [
        f"Its commitment {result.commitment[:16]} is pending: `veristate log deliver` brings it into the log, "
        "`veristate export` makes the file with which others verify and challenge it."
    ]


def _cost(result: ScreeningResult) -> list[str]:
    total = sum(result.seconds.values())
    parts = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items() if value >= 0.5)
    memory = "" if result.peak_memory_mb is None else f"; peak memory {result.peak_memory_mb / 1000:.2f} GB"
    return [
        f"Cost: {result.recomputed_units:,} values recomputed on the trusted executor; {total:.0f} s ({parts}){memory}."
    ]
