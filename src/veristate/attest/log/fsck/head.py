"""The signed head of a log: a note under which the log's line must stand, and witnesses' lines may.

Source: C2SP signed-note, tlog-checkpoint, tlog-cosignature.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LOG, _WITNESS = 1, 4  # types of keys; a witness's makes cosignature/v1 lines


@dataclass(frozen=True, slots=True)
class Signer:
    """A verifier key, `name+hash+base64`, taken apart."""

    name: str
    kind: int
    public: bytes

    @classmethod
    def parse(cls, verifier_key: str) -> "Signer":
        """The key; its mark was for the eye. Raises: ValueError when it is none."""
        name, _, encoded = verifier_key.strip().split("+", 2)
        data = base64.b64decode(encoded)
        return cls(name, int.from_bytes(data[:1], "big"), data[1:])

    @property
    def mark(self) -> bytes:
        """The four bytes that a line of this key begins with."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    def require(self, signature: bytes, text: bytes) -> None:
        """Returns when this key made it. Raises: InvalidSignature."""
        if self.kind == _WITNESS:
            time, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            text = b"cosignature/v1\ntime %d\n" % time + text
        Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Size and root that the log signed, and the other signers: who did sign, who did not, who is not known."""

    size: int
    root: bytes
    cosigned: tuple[str, ...]
    broken: tuple[str, ...]
    unjudged: tuple[str, ...]


def read_head(note: bytes, log: Signer, witnesses: Sequence[Signer]) -> Head:
    """The head in the note. Raises: ValueError when it is none, InvalidSignature when the log did not sign it."""
    text, _, below = note.decode("utf-8").rpartition("\n\n")
    signed = (text + "\n").encode()
    lines = [re.fullmatch("— (\\S+) (\\S+)", line) for line in below.removesuffix("\n").split("\n")]
    if not below.endswith("\n") or None in lines:
        raise ValueError("not a signed note")
    known = {(signer.name, signer.mark): signer for signer in (*witnesses, log)}
    said: dict[str, list[str]] = {"cosigned": [], "broken": [], "unjudged": []}
    ours = 0
    for name, data in [(line[1], _exact64(line[2])) for line in lines if line]:
        signer = known.get((name, data[:4]))
        if signer is log:
            log.require(data[4:], signed)
            ours += 1
        else:
            said[_judged(signer, data[4:], signed)].append(name)
    if not ours:
        raise InvalidSignature
    origin, size, root = text.split("\n")[:3]
    if origin != log.name or not re.fullmatch("0|[1-9][0-9]*", size):
        raise ValueError(f"it is of {origin!r}, size {size!r}")
    return Head(size=int(size), root=_exact64(root), **{what: tuple(names) for what, names in said.items()})


def _judged(signer: Signer | None, signature: bytes, text: bytes) -> str:
    if signer is None:
        return "unjudged"
    try:
        signer.require(signature, text)
    except InvalidSignature:
        return "broken"
    return "cosigned"


def _exact64(text: str) -> bytes:
    """The bytes that base 64 spells, and the spelling is the only one."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base 64 in another spelling")
    return data
