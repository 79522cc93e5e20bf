"""DSSE envelopes: a payload, its type, and who signed both. Source: secure-systems-lab/dsse, protocol v1.

An envelope is kept and logged as its RFC 8785 bytes, so one envelope has one spelling and one leaf hash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from veristate.attest.signing.base64_text import decode64, encode64, read_json
from veristate.attest.signing.keys import PublicKey, SigningKey
from veristate.core import InputError, TamperError, canonical_bytes, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeSignature:
    """A signature and the id of the key that is said to have made it."""

    key: str
    data: bytes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _SignatureJson(_Strict):
    keyid: str
    sig: str


class _EnvelopeJson(_Strict):
    payloadType: str  # noqa: N815 - the standard's name
    payload: str
    signatures: list[_SignatureJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A signed payload."""

    payload_type: str
    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    @classmethod
    def seal(cls, payload_type: str, payload: bytes, keys: Sequence[SigningKey]) -> "Envelope":
        """The envelope that all of `keys` signed."""
        message = pre_authentication(payload_type, payload)
        signed = tuple(EnvelopeSignature(key=key.public.id, data=key.sign(message)) for key in keys)
        return cls(payload_type=payload_type, payload=payload, signatures=signed)

    @property
    def payload_digest(self) -> str:
        """SHA-256 of the payload: what the signers signed, whoever they are."""
        return digest(self.payload)

    def signed_by(self, key: PublicKey) -> bool:
        """Whether the key signed the payload under this type."""
        message = pre_authentication(self.payload_type, self.payload)
        return any(s.key == key.id and key.verifies(s.data, message) for s in self.signatures)

    def to_json(self) -> dict[str, Any]:
        """The envelope as plain JSON."""
        signatures = [{"keyid": s.key, "sig": encode64(s.data)} for s in self.signatures]
        return {"payloadType": self.payload_type, "payload": encode64(self.payload), "signatures": signatures}

    def to_bytes(self) -> bytes:
        """The canonical bytes that are kept and logged."""
        return canonical_bytes(self.to_json())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Envelope":
        """The envelope in `data`. Raises: TamperError when it is none, or not in canonical bytes."""
        try:
            content = _EnvelopeJson.model_validate(read_json(data))
            signatures = tuple(EnvelopeSignature(key=s.keyid, data=decode64(s.sig)) for s in content.signatures)
            envelope = cls(payload_type=content.payloadType, payload=decode64(content.payload), signatures=signatures)
            canonical = envelope.to_bytes()
        except (ValueError, ValidationError, InputError) as error:
            raise TamperError(f"not a DSSE envelope: {error}") from error
        if canonical != data:
            raise TamperError("a DSSE envelope whose bytes are not canonical; don't trust where it came from")
        return envelope


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: type and payload with their lengths, so that neither can pass for the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
