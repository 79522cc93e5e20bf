"""What the pictures of a campaign are drawn from: points in charged seconds, as plain values."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from veristate.research import Card, Decided, Objective, Standing, WorkerStanding

# One colour and mark a worker; more workers than that share them.
CLASSES = ("certified", "competitor", "unchecked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A re-anchoring at its place in time. `back` says that an archived state was restored."""

    worker: str
    seconds: float
    restart: str
    back: bool
    direction: str
    decided: Decided


def worker_class(standing: Standing, worker: str) -> str:
    """The style of a worker's marks."""
    return CLASSES[list(standing.workers).index(worker) % len(CLASSES)]


def seconds_at(standing: Standing, time: str) -> float:
    """The charged wall-clock time at a journal time: sessions follow one another, pauses between them don't count."""
    before = 0.0
    moment = datetime.fromisoformat(time)
    for session in standing.sessions:
        start = datetime.fromisoformat(session.started)
        length = session.wall_ms / 1000 if session.wall_ms is not None else float("inf")
        inside = (moment - start).total_seconds()
        if inside <= length or session is standing.sessions[-1]:
            return before + max(0.0, inside)
        before += length
    return before


def turns(standing: Standing) -> list[Turn]:
    """Every re-anchoring, in order of time."""
    found = [_turn(standing, decided) for worker in standing.workers.values() for decided in worker.decisions]
    return sorted(found, key=lambda turn: turn.seconds)


def improvements(worker: WorkerStanding, objective: Objective) -> Iterator[Card]:
    """The cards that count and were better than all before them."""
    best: str | None = None
    for card in worker.cards:
        if card.counts and objective.better(str(card.metric), best):
            best = card.metric
            yield card


def _turn(standing: Standing, decided: Decided) -> Turn:
    chosen = decided.content["restart"]
    return Turn(
        worker=decided.worker,
        seconds=seconds_at(standing, decided.time),
        restart=decided.live if chosen == "live" else chosen,
        back=chosen != "live",
        direction=decided.content["direction"],
        decided=decided,
    )
