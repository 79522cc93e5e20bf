"""What a worker is told at a segment's start: the text of AGENTS.md, and the same facts for a Python worker."""

import time
from typing import Any

from veristate.core import digest
from veristate.research.deciding import Evidence, ReAnchoring, gather, peer_text
from veristate.research.memory import abandoned_tail, brief, fold, state_packet
from veristate.research.running.gate import Gate
from veristate.research.states import Decided, Segment, WorkerStanding
from veristate.research.tasks import Objective


def evidence_for(gate: Gate, worker: str) -> Evidence:
    """What is known now that bears on this worker's next step."""
    evidence: Evidence = gate.record.read(
        lambda standing: gather(standing, worker, gate.task.objective, remaining=gate.meter.share(worker))
    )
    return evidence


def memory_of(mine: WorkerStanding, objective: Objective) -> str:
    """The worker's cards within the budget of a view; the restart state's and the last segment's stay raw."""
    segment = mine.segments[-1]
    return fold(mine.cards, objective, recent=segment.number, keep={segment.restart}).text


def decision_in(decided: Decided) -> ReAnchoring:
    """The decision as it was journaled."""
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in decided.content.items()}
    return ReAnchoring(**fields)


def brief_for(gate: Gate, worker: str, segment: Segment, seed: int) -> tuple[str, dict[str, Any]]:
    """The brief, and the facts. `seed` is the campaign's; the worker gets one of its own for each segment."""
    mine, task = gate.record.standing.workers[worker], gate.task
    evidence = evidence_for(gate, worker)
    peers, lead = peer_text(evidence.peers), evidence.lead
    seconds = min(task.segment.wall_s, gate.meter.wall_left_s())
    queries = gate.meter.queries_left(worker)
    packet = state_packet(
        gate.store,
        segment.tree,
        decision_in(mine.decisions[-1]) if mine.decisions else None,
        restart=segment.restart,
        memory=memory_of(mine, task.objective),
        peers=peers,
        tail=abandoned_tail(mine.cards, segment.restart, task.objective)[1],
    )
    told = {
        "worker": worker,
        "segment": segment.number,
        "seed": int(digest(f"{seed}/{worker}/{segment.number}".encode())[:12], 16),
        "direction": segment.direction,
        "restart": segment.restart,
        "focus": segment.focus,
        "plateau": len(evidence.plateau),
        "turns": evidence.turns,
        "peers": peers,
        "peer_best": lead.best if lead else None,
        "best": evidence.best.metric if evidence.best else None,
        "queries_left": queries,
        "target": task.objective.target,
        "parameters": dict(task.parameters),
        "seconds": seconds,
        "deadline": time.time() + seconds,
    }
    whose = "you" if task.budget.split_queries else "all workers"
    limits = [f"this segment: {task.segment.wall_s:g} s and {task.segment.stages} results"]
    limits += [] if queries is None else [f"evaluator queries left to {whose}: {queries}"]
    return brief(task, worker=worker, packet=packet, told=limits), told
