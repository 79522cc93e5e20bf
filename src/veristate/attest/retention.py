"""Asking for an artifact by its digest, and what it means when it doesn't come.

Unavailable is never inconsistent: a refusal, a partition and a fault of whoever asks look alike from here. What stays
is signed evidence that somebody says to have asked, when, and what came.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from veristate.attest.commitments import Commitment, Count, Digest, Name, Policy, read_record
from veristate.attest.signing import Envelope, PublicKey, Seconds, SigningKey
from veristate.core import Record, TamperError, VeristateError, digest

EVIDENCE_TYPE = "application/vnd.veristate.request+json"
Ask = Callable[[str], bytes | None]


class Availability(StrEnum):
    """What became of a request."""

    FOUND = "found"
    WITHIN = "unavailable within the retention interval"
    AFTER = "unavailable after the retention interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvidence(Record):
    """Who asked for what and when, in seconds since 1970, and what came. `kept_since` is when a witness saw the
    commitment's head, and so not the recorder's to choose; `kept_until` adds the interval of the policy.
    """

    FORMAT: ClassVar[str] = "veristate.request-evidence/1"
    asker: Digest
    recorder: Digest
    commitment: Digest
    artifact: Digest
    asked: Count
    kept_since: Count
    kept_until: Count
    nonce: Name
    answer: Literal["found", "nothing", "other bytes", "no answer"]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What came of a request: the bytes if they are the artifact's, and the evidence, signed by the asker."""

    availability: Availability
    data: bytes | None
    evidence: Envelope


def fetch_artifact(
    artifact: str,
    ask: Ask,
    *,
    commitment: Commitment,
    payload: str,
    policy: Policy,
    kept_since: int,
    key: SigningKey,
    nonce: str,
    clock: Seconds,
) -> Fetched:
    """The artifact of that digest, re-hashed, or why it is unavailable. `payload` is the commitment's payload digest.

    Bytes of another digest are not the artifact, an error or a timeout of `ask` is no answer: both are unavailable.
    """
    asked, until = clock(), kept_since + policy.retention_s
    data, answer, detail = _asked(artifact, ask)
    evidence = RequestEvidence(
        asker=key.public.id,
        recorder=commitment.recorder,
        commitment=payload,
        artifact=artifact,
        asked=asked,
        kept_since=kept_since,
        kept_until=until,
        nonce=nonce,
        answer=answer,
        detail=detail,
    )
    return Fetched(
        availability=availability(evidence),
        data=data,
        evidence=Envelope.seal(EVIDENCE_TYPE, evidence.to_bytes(), [key]),
    )


def availability(evidence: RequestEvidence) -> Availability:
    """What the evidence says of the artifact; the last second of the interval is within it."""
    if evidence.answer == "found":
        return Availability.FOUND
    return Availability.WITHIN if evidence.asked <= evidence.kept_until else Availability.AFTER


def read_evidence(envelope: Envelope, asker: PublicKey) -> RequestEvidence:
    """What `asker` says to have asked and got. Raises: TamperError when it is no such evidence, or not the asker's."""
    if envelope.payload_type != EVIDENCE_TYPE or not envelope.signed_by(asker):
        raise TamperError("no evidence of a request that this key signed")
    evidence = read_record(RequestEvidence, envelope.payload)
    if evidence.asker != asker.id:
        raise TamperError("evidence of a request that names another asker than its signer")
    return evidence


def _asked(
    artifact: str, ask: Ask
) -> tuple[bytes | None, Literal["found", "nothing", "other bytes", "no answer"], str]:
    try:
        data = ask(artifact)
    except (OSError, VeristateError) as error:
        return None, "no answer", str(error) or type(error).__name__
    if data is None:
        return None, "nothing", ""
    if digest(data) != artifact:
        return None, "other bytes", f"bytes of the digest {digest(data)}"
    return data, "found", ""
