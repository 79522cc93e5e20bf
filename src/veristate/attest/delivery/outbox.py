"""The durable outbox: envelopes are journaled where they are made, and logged when the log can be reached.

The journal is the outbox: nothing is removed from it, so nothing can be lost between sending and remembering. Sending
again is harmless, since a log gives an entry it has its old place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from veristate.attest.signing import Envelope
from veristate.core import InputError, RefusedError, VeristateError, canonical_bytes
from veristate.ledger import Entry, Ledger

Submit = Callable[[Sequence[bytes]], Sequence[int]]
MADE, LOGGED, WITNESSED, ANCHORED, UNANCHORED, TIMESTAMPED = (
    "commitment.made",
    "commitment.logged",
    "head.witnessed",
    "head.anchored",
    "head.unanchored",
    "head.timestamped",
)
FIRST = "0" * 64
_BATCH = 1000


class State(StrEnum):
    """How far a commitment has come. Pending is not logged, logged is not witnessed, witnessed is not anchored."""

    PENDING = "pending"
    LOGGED = "logged"
    WITNESSED = "witnessed"
    ANCHORED = "anchored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One envelope: its recorder and number there, its payload's digest, its place in the log once it has one."""

    recorder: str
    sequence: int
    payload: str
    envelope: bytes
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """An authority's word that a head existed at `time`: its reply is the blob `reply`, its address `authority`."""

    size: int
    time: str
    authority: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a flush did: how many were logged, and by recorder or payload what holds the others back."""

    logged: int
    unreachable: Mapping[str, str]
    refused: Mapping[str, str]


class Outbox:
    """The envelopes of a journal, and how far each has come."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seq = 0
        self._items: dict[str, Item] = {}
        self._order: list[str] = []
        self._last: dict[str, Item] = {}
        self._heads: dict[str, int] = {WITNESSED: 0, ANCHORED: 0}
        self._stamps: dict[str, Stamp] = {}

    def add(self, envelope: Envelope, *, recorder: str, sequence: int, more: Mapping[str, Any]) -> Item:
        """The envelope's item, which is on the disk, pending, when this returns. The caller holds the recorder's lock,
        and has refreshed since it has it.

        Raises: RefusedError when its number is not the next of its recorder, or its payload was added before.
        """
        wanted, _ = self.next(recorder)
        if sequence != wanted or envelope.payload_digest in self._items:
            raise RefusedError(
                f"number {sequence} of recorder {recorder[:16]} is not its next, {wanted}; read it again"
            )
        own = {"recorder": recorder, "sequence": sequence, "payload": envelope.payload_digest}
        entry = self._ledger.append(MADE, {**more, **own, "envelope": envelope.to_json()})
        if entry.seq == self._seq + 1:
            self._seq = entry.seq
            self._read(entry)
        else:
            self.refresh()
        return self._items[envelope.payload_digest]

    def next(self, recorder: str) -> tuple[int, str]:
        """The number and the predecessor of the recorder's next envelope, as last refreshed."""
        last = self._last.get(recorder)
        return (0, FIRST) if last is None else (last.sequence + 1, last.payload)

    def items(self, since: int = 0) -> list[tuple[Item, State]]:
        """The envelopes after the first `since`, each with its state, in the order in which they were made."""
        self.refresh()
        return [(item, self.state(item)) for item in self.known(since)]

    def known(self, since: int = 0) -> list[Item]:
        """The same envelopes as last refreshed."""
        return [self._items[payload] for payload in self._order[since:]]

    def anchored_size(self) -> int:
        """The entries below it are anchored, as last refreshed."""
        return self._heads[ANCHORED]

    def state(self, item: Item) -> State:
        """How far the item has come, as last refreshed."""
        if item.place is None:
            return State.PENDING
        if item.place < self._heads[ANCHORED]:
            return State.ANCHORED
        return State.WITNESSED if item.place < self._heads[WITNESSED] else State.LOGGED

    def pending(self) -> dict[str, list[Item]]:
        """The items that are not logged, by recorder, in order."""
        self.refresh()
        waiting: dict[str, list[Item]] = {}
        for item in self._items.values():
            if item.place is None:
                waiting.setdefault(item.recorder, []).append(item)
        return waiting

    def flush(self, submit: Submit) -> Delivery:
        """What was logged now. `submit` gives the places of the entries it is given, all of them durable.

        A recorder's items go in order and together, so none waits for its predecessor's receipt. When the log can't be
        reached a recorder's rest stays pending; an entry that the log refuses stays alone, the ones after it go.
        """
        logged = 0
        unreachable: dict[str, str] = {}
        refused: dict[str, str] = {}
        for recorder, items in self.pending().items():
            try:
                for batch in _batches(items):
                    logged += self._send(batch, submit, refused)
            except (VeristateError, OSError) as error:
                unreachable[recorder] = str(error)
        return Delivery(logged=logged, unreachable=unreachable, refused=refused)

    def witnessed(self, size: int, checkpoint: str, witnesses: Mapping[str, int]) -> None:
        """Remembers a head that a quorum cosigned: the entries below `size` are witnessed."""
        self._ledger.append(WITNESSED, {"size": size, "checkpoint": checkpoint, "witnesses": dict(witnesses)})

    def anchored(self, size: int, evidence: Mapping[str, Any]) -> None:
        """Remembers a head whose anchoring is final: the entries below `size` are anchored."""
        self._ledger.append(ANCHORED, {**evidence, "size": size})

    def unanchored(self, size: int, reason: str) -> None:
        """Remembers that only the entries below `size` are anchored after all."""
        self._ledger.append(UNANCHORED, {"size": size, "reason": reason})

    def timestamped(self, head: str, stamp: Stamp) -> None:
        """Remembers a head, by the text that is signed, that an authority gave a time."""
        body = {"head": head, "size": stamp.size, "time": stamp.time, "authority": stamp.authority}
        self._ledger.append(TIMESTAMPED, body | {"reply": {"blob": stamp.reply}})

    def stamps(self) -> Mapping[str, Stamp]:
        """The timestamps of heads by their texts; of one head the last."""
        self.refresh()
        return self._stamps

    def refresh(self) -> None:
        """Returns when everything in the journal, also what other processes wrote, is known here."""
        for entry in self._ledger.entries(self._seq):
            self._seq = entry.seq
            self._read(entry)

    def _send(self, items: Sequence[Item], submit: Submit, refused: dict[str, str]) -> int:
        try:
            places = submit([item.envelope for item in items])
        except (InputError, RefusedError) as error:
            if len(items) == 1:
                refused[items[0].payload] = str(error)
                return 0
            return sum(self._send([item], submit, refused) for item in items)
        pairs = [[item.payload, place] for item, place in zip(items, places, strict=True)]
        self._ledger.append(LOGGED, {"places": pairs})
        return len(pairs)

    def _read(self, entry: Entry) -> None:
        if entry.kind not in (MADE, LOGGED, WITNESSED, ANCHORED, UNANCHORED, TIMESTAMPED):
            return
        body = entry.content
        if entry.kind == MADE:
            item = Item(
                recorder=body["recorder"],
                sequence=body["sequence"],
                payload=body["payload"],
                envelope=canonical_bytes(body["envelope"]),
            )
            self._items[item.payload] = self._last[item.recorder] = item
            self._order.append(item.payload)
        elif entry.kind == LOGGED:
            for payload, place in body["places"]:
                self._items[payload] = replace(self._items[payload], place=place)
        elif entry.kind == TIMESTAMPED:
            said = {name: body[name] for name in ("size", "time", "authority")}
            self._stamps[body["head"]] = Stamp(**said, reply=body["reply"]["blob"])
        elif entry.kind == UNANCHORED:
            self._heads[ANCHORED] = min(self._heads[ANCHORED], body["size"])
        else:
            self._heads[entry.kind] = max(self._heads[entry.kind], body["size"])


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
