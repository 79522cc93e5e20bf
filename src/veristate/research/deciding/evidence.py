"""What a decision may rest on, gathered from the standing: values only, in one fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass

from veristate.research.states import Card, Standing, WorkerStanding
from veristate.research.tasks import Objective

PEER_EVIDENCE_UPPER = 1400


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEvidence:
    """One peer in short: counts, its best metric and how it got there in its own note. Never an artifact."""

    worker: str
    stages: int
    best: str | None
    note: str
    direction: str
    focus: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A finished segment: where it started, how many results it had and how many of them count, what was best before
    it and after it in all, and the first and the best of its own.
    """

    number: int
    restart: str
    direction: str
    stages: int
    counting: int
    best_before: str | None
    best_after: str | None
    reason: str
    first: str | None = None
    best: str | None = None

    @property
    def cut(self) -> bool:
        """Whether the worker was still searching when it ended: at a limit, or with the engine."""
        return self.reason.startswith(("stages:", "segment:", "the context limit", "stopped", "the engine was killed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a decider sees. `remaining` is the smallest share of the budget that is left, in thousandths."""

    worker: str
    objective: Objective
    live: str
    cards: tuple[Card, ...]
    stretches: tuple[Stretch, ...]
    peers: tuple[PeerEvidence, ...]
    remaining: int

    @property
    def counting(self) -> tuple[Card, ...]:
        """The cards that are evidence, best first; of equal ones the earlier."""
        found = [card for card in self.cards if card.counts]
        return tuple(self.objective.ordered(found, lambda card: str(card.metric)))

    @property
    def best(self) -> Card | None:
        """The best card that counts."""
        return next(iter(self.counting), None)

    @property
    def records(self) -> tuple[Card, ...]:
        """The cards that were better than all before them, in their order; the last one is the best."""
        found: list[Card] = []
        for card in self.cards:
            if card.counts and self.objective.better(str(card.metric), found[-1].metric if found else None):
                found.append(card)
        return tuple(found)

    @property
    def plateau(self) -> tuple[Stretch, ...]:
        """The segments at the end that had no gain."""
        gains = [i for i, each in enumerate(self.stretches, start=1) if each.best_after != each.best_before]
        return self.stretches[max(gains, default=0) :]

    @property
    def turns(self) -> int:
        """How often the plateau was redirected."""
        return sum(stretch.direction == "redirect" for stretch in self.plateau)

    @property
    def lead(self) -> PeerEvidence | None:
        """The peer that is ahead of this worker, the furthest one."""
        ahead: PeerEvidence | None = None
        mine = self.best.metric if self.best else None
        for peer in self.peers:
            if peer.best is not None and self.objective.better(peer.best, ahead.best if ahead else mine):
                ahead = peer
        return ahead


def gather(standing: Standing, worker: str, objective: Objective, *, remaining: int) -> Evidence:
    """The evidence for one worker as of now."""
    own = standing.workers[worker]
    peers = tuple(_peer(each, objective) for name, each in sorted(standing.workers.items()) if name != worker)
    return Evidence(
        worker=worker,
        objective=objective,
        live=own.live,
        cards=tuple(own.cards),
        stretches=tuple(_stretches(own, objective)),
        peers=peers,
        remaining=remaining,
    )


def peer_text(peers: Sequence[PeerEvidence]) -> str:
    """The peers for a worker's brief: at most 1,400 characters, whatever they wrote."""
    if not peers:
        return ""
    room = PEER_EVIDENCE_UPPER // len(peers) - 1
    return "\n".join(_peer_line(peer)[: max(room, 0)] for peer in peers)[:PEER_EVIDENCE_UPPER]


def _peer_line(peer: PeerEvidence) -> str:
    best = peer.best[:40] if peer.best is not None else "no valid result"
    said = " ".join(peer.note.split())
    return f"{peer.worker}: best {best} after {peer.stages} results; now {peer.direction}: {peer.focus}. {said}"


def _peer(worker: WorkerStanding, objective: Objective) -> PeerEvidence:
    counting = [card for card in worker.cards if card.counts]
    best = objective.best([str(card.metric) for card in counting])
    note = next((card.note for card in counting if card.metric == best), "")
    segment = worker.segments[-1] if worker.segments else None
    return PeerEvidence(
        worker=worker.name,
        stages=len(worker.cards),
        best=best,
        note=note,
        direction=segment.direction if segment else "extend",
        focus=segment.focus if segment else "start",
    )


def _stretches(worker: WorkerStanding, objective: Objective) -> list[Stretch]:
    found, best = [], None
    for segment in worker.segments:
        mine = [card for card in worker.cards if card.segment == segment.number]
        counting = [str(card.metric) for card in mine if card.counts]
        after = objective.best([*([best] if best is not None else []), *counting])
        if segment.reason is not None:
            found.append(
                Stretch(
                    number=segment.number,
                    restart=segment.restart,
                    direction=segment.direction,
                    stages=len(mine),
                    counting=len(counting),
                    best_before=best,
                    best_after=after,
                    reason=segment.reason,
                    first=counting[0] if counting else None,
                    best=objective.best(counting),
                )
            )
        best = after
    return found
