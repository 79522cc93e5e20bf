"""What the journal says taken together. `Standing.take` is the only way it changes, live and on resuming alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from veristate.ledger import Entry
from veristate.research.states.cards import Card, Place


@dataclass(slots=True, kw_only=True)
class Session:
    """One engine process: from its start to its end, or to the last sign of life that the next engine found."""

    started: str
    mark: str
    wall_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class Segment:
    """One stretch of a worker. `reason` is None while it is open."""

    number: int
    restart: str
    tree: str
    direction: str
    focus: str
    started: str
    stages: int = 0
    reason: str | None = None
    end_tree: str = ""
    ended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One re-anchoring as it was journaled: where from, after which segment, and its content."""

    worker: str
    after: int
    live: str
    content: Mapping[str, Any]
    time: str


@dataclass(slots=True, kw_only=True)
class WorkerStanding:
    """What is known of one worker."""

    name: str
    cards: list[Card] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    claimed: dict[int, tuple[Mapping[str, Any], int]] = field(default_factory=dict)
    queries: int = 0
    folded: list[tuple[str, str]] = field(default_factory=list)
    ended: str | None = None

    @property
    def open_segment(self) -> Segment | None:
        """The segment that has begun and not ended."""
        return self.segments[-1] if self.segments and self.segments[-1].reason is None else None

    @property
    def live(self) -> str:
        """The state that the live workspace grew from: the last judged one of this segment, or its restart state."""
        if not self.segments:
            return str(Place(worker=self.name, stage=0))
        segment = self.segments[-1]
        mine = [card for card in self.cards if card.segment == segment.number]
        return mine[-1].place if mine else segment.restart


@dataclass(slots=True, kw_only=True)
class Standing:
    """A campaign as recorded."""

    opened: Mapping[str, Any] = field(default_factory=dict)
    workers: dict[str, WorkerStanding] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cpu_ms: int = 0
    gpu_ms: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    reserved: dict[int, tuple[int, Decimal]] = field(default_factory=dict)
    queries: int = 0
    audits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    finished: Mapping[str, Any] | None = None
    entries: int = 0
    jobs: list[Mapping[str, Any]] = field(default_factory=list)
    released: set[str] = field(default_factory=set)

    @property
    def cards(self) -> list[Card]:
        """The cards of all workers, in the order in which they were recorded."""
        return sorted((card for each in self.workers.values() for card in each.cards), key=lambda card: card.time)

    def card(self, place: str) -> Card | None:
        """The card of that state."""
        read = Place.read(place)
        cards = self.workers[read.worker].cards if read and read.worker in self.workers else []
        return next((card for card in cards if card.place == place), None)

    def wall_ms(self) -> int:
        """Wall-clock time charged for the sessions that have ended."""
        return sum(session.wall_ms or 0 for session in self.sessions)

    def spent_tokens(self) -> int:
        """Tokens settled, and those reserved for calls whose answer never came."""
        return self.tokens + sum(tokens for tokens, _ in self.reserved.values())

    def spent_money(self) -> Decimal:
        """The same of money."""
        return self.money + sum((money for _, money in self.reserved.values()), Decimal(0))

    def take(self, entry: Entry) -> None:
        """Returns when the entry is part of the standing. Entries of other rooms change nothing."""
        self.entries = entry.seq
        handler = _HANDLERS.get(entry.kind)
        if handler is not None:
            handler(self, entry, entry.content)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one journal time to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _opened(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    standing.opened = content | {"time": entry.time}
    standing.workers = {name: WorkerStanding(name=name) for name in content["workers"]}


def _session(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    if standing.sessions and standing.sessions[-1].wall_ms is None:
        standing.sessions[-1].wall_ms = content["charged_ms"]
    standing.sessions.append(Session(started=entry.time, mark=content["mark"]))
    standing.warnings.extend(text for text in content["warnings"] if text not in standing.warnings)
    standing.finished = None
    for worker in standing.workers.values():
        worker.ended = None


def _session_ended(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.sessions[-1].wall_ms = content["wall_ms"]


def _segment(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    segment = Segment(
        number=content["segment"],
        restart=content["restart"],
        tree=content["tree"],
        direction=content["direction"],
        focus=content["focus"],
        started=entry.time,
    )
    standing.workers[content["worker"]].segments.append(segment)


def _claimed(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    worker = standing.workers[content["worker"]]
    _, attempts = worker.claimed.get(content["stage"], ({}, 0))
    worker.claimed[content["stage"]] = (content, attempts + 1)
    # Run again after a kill it is the same query: nobody has seen the first answer.
    standing.queries += attempts == 0
    worker.queries += attempts == 0


def _stage(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    worker = standing.workers[content["worker"]]
    card = Card.from_bytes(content["card"].encode())
    worker.cards.append(card)
    standing.released.discard(card.tree)  # what was let go and is named again was captured again
    worker.claimed.pop(content["stage"], None)
    worker.segments[-1].stages += 1
    standing.cpu_ms += content["cpu_ms"]


def _segment_ended(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    worker = standing.workers[content["worker"]]
    segment = worker.segments[-1]
    segment.reason, segment.end_tree, segment.ended = content["reason"], content["tree"], entry.time
    standing.released.discard(content["tree"])
    standing.cpu_ms += content["cpu_ms"]
    standing.gpu_ms += content.get("gpu_ms", 0)


def _decided(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    worker = standing.workers[content["worker"]]
    decided = Decided(
        worker=content["worker"],
        after=content["after"],
        live=content["live"],
        content=content["decision"],
        time=entry.time,
    )
    worker.decisions.append(decided)


def _reserved(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    standing.reserved[entry.seq] = (content["tokens"], Decimal(content["money"]))


def _settled(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.reserved.pop(content["reserved"], None)
    standing.tokens += content["tokens"]
    standing.money += Decimal(content["money"])


def _folded(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.workers[content["worker"]].folded.append((content["id"], content["summary"]))


def _worker_ended(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.workers[content["worker"]].ended = content["reason"]


def _audited(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.audits[content["place"]] = content


def _finished(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    standing.finished = content | {"time": entry.time}


def _job(standing: Standing, entry: Entry, content: dict[str, Any]) -> None:
    standing.jobs.append(content | {"time": entry.time})
    standing.cpu_ms += content.get("cpu_ms", 0)
    standing.gpu_ms += content.get("gpu_ms", 0)


def _released(standing: Standing, _entry: Entry, content: dict[str, Any]) -> None:
    standing.released.update(content["trees"])


_HANDLERS = {
    "campaign.opened": _opened,
    "engine.started": _session,
    "engine.ended": _session_ended,
    "segment.started": _segment,
    "evaluation.claimed": _claimed,
    "stage.recorded": _stage,
    "segment.ended": _segment_ended,
    "restart.decided": _decided,
    "call.reserved": _reserved,
    "call.settled": _settled,
    "memory.folded": _folded,
    "worker.ended": _worker_ended,
    "audit.recorded": _audited,
    "campaign.finished": _finished,
    "job.changed": _job,
    "snapshots.released": _released,
}
