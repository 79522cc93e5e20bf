"""The final audit: the best candidates read again from their snapshots, judged by the task's exact check.

What the exact check refuses is excluded, whatever the evaluator said. A repair may only lower a score: one that
raises it is refused. Without a check in the task nothing is audited, and the result says so.
"""

import shutil
from pathlib import Path

from veristate.research.evaluating import Judgement, evaluate, materialise, read_candidate
from veristate.research.running.gate import Gate
from veristate.research.states import Card, Standing
from veristate.research.tasks import Objective


def audit_campaign(gate: Gate) -> None:
    """Returns when the candidates are audited, best first, until one stands that no later one can beat, each once."""
    code = gate.task.audit
    if code is None:
        return
    standing, objective = gate.record.standing, gate.task.objective
    for card in ranked(standing, objective)[: gate.task.audit_candidates]:
        stood = best_audited(standing, objective)
        if stood is not None and not objective.better(str(card.metric), stood[1]):
            return
        if card.place not in standing.audits:
            judged = _audit(gate, card)
            body = {
                "place": card.place,
                "status": judged.status,
                "metric": judged.metric,
                "claimed": card.metric,
                "reason": judged.reason,
                "repaired": judged.repaired,
                "seconds": f"{judged.seconds:.3f}",
            }
            gate.record.append("audit.recorded", body)


def ranked(standing: Standing, objective: Objective) -> list[Card]:
    """The cards that count, best claimed metric first, each candidate once."""
    first = {card.candidate: card for card in reversed(standing.cards) if card.counts}
    return objective.ordered(reversed(first.values()), lambda card: str(card.metric))


def best_audited(standing: Standing, objective: Objective) -> tuple[str, str] | None:
    """Place and exact metric of the best candidate that stood the audit; None when none did."""
    stood = {place: str(said["metric"]) for place, said in standing.audits.items() if said["status"] == "valid"}
    best = objective.best(list(stood.values()))
    return next(((place, metric) for place, metric in stood.items() if metric == best), None)


def _audit(gate: Gate, card: Card) -> Judgement:
    code = gate.task.audit
    assert code is not None
    folder: Path = gate.scratch / f"audit-{card.place.replace('/', '-')}"
    if folder.exists():
        shutil.rmtree(folder)
    try:
        (folder / "run").mkdir(parents=True)
        candidate = read_candidate(gate.store, card.tree, gate.task.artifact)
        materialise(gate.store, candidate, folder / "candidate")
        judged = evaluate(
            gate.task,
            code,
            candidate=folder / "candidate",
            scratch=folder / "run",
            mark=gate.mark,
            confine=gate.confine,
        )
        gate.commit_to(f"{gate.mark}/{folder.name}", code, candidate, judged, folder / "run" / "reply.json")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raised = judged.metric is not None and gate.task.objective.better(judged.metric, card.metric)
    if judged.repaired and raised:
        reason = f"the repair raised the score from {card.metric} to {judged.metric}; it may only lower it"
        return Judgement(status="rejected", reason=reason, repaired=True, seconds=judged.seconds)
    return judged
