"""Reading what a log's entries say, one after another: numbers, executions, predecessors and signatures.

These are the three guarantees that an anchoring contract gives on chain (sequence, unique execution, predecessor), here
for whoever reads the log. What is found was signed by the recorder, so it accuses the recorder and nobody else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from veristate.attest.commitments.key_events import KEY_TYPE, KeyEvent, KeyHistory
from veristate.attest.commitments.records import Commitment
from veristate.attest.delivery.outbox import FIRST
from veristate.attest.signing import Envelope
from veristate.core import TamperError


class AuditFindingKind(StrEnum):
    """What can be wrong with an entry."""

    FOREIGN = "no commitment and no key event"
    ORIGIN = "meant for another log"
    FORKED = "number used twice"
    GAP = "number or predecessor is not the next"
    EXECUTION = "execution used twice"
    SIGNATURE = "signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One thing that is wrong, and the place of the entry."""

    kind: AuditFindingKind
    place: int
    detail: str


class LogAudit:
    """The entries of a log so far. An entry that stood later than its successors is a gap, told once for each."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._history = KeyHistory()
        self._payloads: dict[tuple[str, int], tuple[int, str]] = {}
        self._executions: dict[tuple[str, str], int] = {}
        self._last: dict[str, tuple[int, str]] = {}

    def read(self, place: int, entry: bytes) -> Iterator[AuditFinding]:
        """What is wrong with the entry at `place`; entries are read in order."""
        try:
            envelope = Envelope.from_bytes(entry)
            said = (KeyEvent if envelope.payload_type == KEY_TYPE else Commitment).from_envelope(envelope)
        except TamperError as error:
            yield AuditFinding(kind=AuditFindingKind.FOREIGN, place=place, detail=str(error))
            return
        if said.origin != self._origin:
            yield AuditFinding(kind=AuditFindingKind.ORIGIN, place=place, detail=f"of {said.origin!r}")
            return
        self._history.read(place, envelope)
        wrong = self._history.rejected.get(place)
        if isinstance(said, Commitment):
            standing = self._history.standing(said, envelope, place)
            wrong = None if standing.good else str(standing)
        if wrong is not None:
            # Whoever signed it was not the recorder: it says nothing about the recorder's chain.
            yield AuditFinding(kind=AuditFindingKind.SIGNATURE, place=place, detail=wrong)
            return
        yield from self._follow(place, said, envelope.payload_digest)

    def _follow(self, place: int, said: Commitment | KeyEvent, payload: str) -> Iterator[AuditFinding]:
        number = said.recorder, said.sequence
        earlier = self._payloads.setdefault(number, (place, payload))
        if earlier[1] != payload:
            detail = f"number {said.sequence} stands at place {earlier[0]} too, and says something else"
            yield AuditFinding(kind=AuditFindingKind.FORKED, place=place, detail=detail)
        due = self._last.get(said.recorder, (0, FIRST))
        if (said.sequence, said.predecessor) != due:
            detail = f"number {said.sequence} after {said.predecessor[:16]}, due was {due[0]} after {due[1][:16]}"
            yield AuditFinding(kind=AuditFindingKind.GAP, place=place, detail=detail)
        self._last[said.recorder] = said.sequence + 1, payload
        if isinstance(said, Commitment):
            first = self._executions.setdefault((said.recorder, said.execution), place)
            if first != place:
                detail = f"execution {said.execution!r} stands at place {first} too"
                yield AuditFinding(kind=AuditFindingKind.EXECUTION, place=place, detail=detail)
