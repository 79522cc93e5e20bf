"""A recorder's keys over time. Events are entries of the log like steps are, so their order is the log's.

Signed by a retired key is a verdict, not an error: what was logged while the key was current stays good.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from veristate.attest.commitments.reading import Digest, Name, read_record
from veristate.attest.commitments.records import STATEMENT_TYPE, Commitment, Count
from veristate.attest.signing import Envelope, PublicKey, SigningKey
from veristate.core import Record, TamperError

KEY_TYPE = "application/vnd.veristate.key+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEvent(Record):
    """`introduced`: the recorder's first key, signed by itself. `rotated`: `key` takes over, signed by the one before
    and by itself. `revoked`: nothing that `key` signed is good if it is logged after this; signed by the current key.
    """

    FORMAT: ClassVar[str] = "veristate.key-event/1"
    origin: Name
    recorder: Digest
    sequence: Count
    predecessor: Digest
    action: Literal["introduced", "rotated", "revoked"]
    key: Digest
    time: Name
    reason: str = ""

    def sealed(self, *keys: SigningKey) -> Envelope:
        """The event in a DSSE envelope, signed by all of `keys`."""
        return Envelope.seal(KEY_TYPE, self.to_bytes(), keys)

    @property
    def public(self) -> PublicKey:
        """The key that the event is about."""
        return PublicKey.from_hex(self.key)

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> "KeyEvent":
        """The event that an envelope's payload says. Raises: TamperError when it says none."""
        if envelope.payload_type != KEY_TYPE:
            raise TamperError(f"an envelope of type {envelope.payload_type!r}, not of a key event")
        return read_record(cls, envelope.payload)


class Standing(StrEnum):
    """What a signature is worth at the place where it was logged."""

    CURRENT = "signed by the current key"
    RETIRED = "signed by a retired key, while it was current"
    REVOKED = "signed by a revoked key, before it was revoked"
    AFTER_RETIREMENT = "signed by a retired key, after it was retired"
    AFTER_REVOCATION = "signed by a revoked key, after it was revoked"
    UNKNOWN = "signed by no key of this recorder"
    FORGED = "the signature is not the key's"

    @property
    def good(self) -> bool:
        """Whether the signature holds. Of a revoked key it does for what was logged, and so fixed, before."""
        return self in (Standing.CURRENT, Standing.RETIRED, Standing.REVOKED)


@dataclass(slots=True, kw_only=True)
class _Span:
    """The places in the log between which a key was current, and where it was revoked."""

    key: PublicKey
    start: int
    end: int | None = None
    revoked: int | None = None


class KeyHistory:
    """The keys of every recorder, from a log's entries in order. An event whose signatures don't hold changes nothing
    and stands in `rejected`.
    """

    def __init__(self) -> None:
        self._spans: dict[str, list[_Span]] = {}
        self.rejected: dict[int, str] = {}

    @classmethod
    def of(cls, entries: Iterable[tuple[int, Envelope]]) -> "KeyHistory":
        """The history that these entries, with their places, tell."""
        history = cls()
        for place, envelope in entries:
            history.read(place, envelope)
        return history

    def read(self, place: int, envelope: Envelope) -> None:
        """Takes in the entry at `place`; one that is no key event changes nothing."""
        if envelope.payload_type != KEY_TYPE:
            return
        try:
            event = KeyEvent.from_envelope(envelope)
            self._take(place, event, envelope)
        except (TamperError, ValueError) as error:
            self.rejected[place] = str(error)

    def current(self, recorder: str) -> PublicKey | None:
        """The recorder's present key; None when it has none that is not revoked."""
        spans = self._spans.get(recorder, [])
        return spans[-1].key if spans and spans[-1].revoked is None else None

    def standing(self, commitment: Commitment, envelope: Envelope, place: int) -> Standing:
        """What the envelope's signature is worth, logged at `place`."""
        spans = self._spans.get(commitment.recorder, [])
        span = next((s for s in spans if s.key.id == commitment.key and s.start <= place), None)
        if span is None:
            return Standing.UNKNOWN
        if envelope.payload_type != STATEMENT_TYPE or not envelope.signed_by(span.key):
            return Standing.FORGED
        if span.revoked is not None and place > span.revoked:
            return Standing.AFTER_REVOCATION
        if span.end is not None and place > span.end:
            return Standing.AFTER_RETIREMENT
        if span.revoked is not None:
            return Standing.REVOKED
        return Standing.CURRENT if span.end is None else Standing.RETIRED

    def _take(self, place: int, event: KeyEvent, envelope: Envelope) -> None:
        key, spans = event.public, self._spans.get(event.recorder, [])
        current = self.current(event.recorder)
        if event.action == "introduced":
            _require(not spans and key.id == event.recorder and envelope.signed_by(key), "a first key signs for itself")
            self._spans[event.recorder] = [_Span(key=key, start=place)]
            return
        _require(current is not None and envelope.signed_by(current), "the recorder's current key did not sign it")
        if event.action == "rotated":
            _require(envelope.signed_by(key), "the new key did not sign it")
            _require(all(span.key != key for span in spans), "a key that was used before")
            spans[-1].end = place
            spans.append(_Span(key=key, start=place))
            return
        span = next((span for span in spans if span.key == key and span.revoked is None), None)
        _require(span is not None, "no key of this recorder, or revoked before")
        assert span is not None
        span.revoked = place


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise TamperError(otherwise)
