"""What is signed and how: keys, signed notes, checkpoints, DSSE envelopes. Pure but for `SigningKey.open`."""

from veristate.attest.signing.base64_text import decode64, encode64, read_json
from veristate.attest.signing.checkpoints import Checkpoint, Head
from veristate.attest.signing.envelopes import Envelope, EnvelopeSignature, pre_authentication
from veristate.attest.signing.keys import NoteKey, NoteKind, PublicKey, SigningKey
from veristate.attest.signing.notes import (
    NOTE_BYTES_UPPER,
    Note,
    Seconds,
    Signature,
    cosign_note,
    parse_signatures,
    sign_note,
    unix_seconds,
)
from veristate.attest.signing.quorum import UNWITNESSED, Quorum, Trust

__all__ = [
    "NOTE_BYTES_UPPER",
    "UNWITNESSED",
    "Checkpoint",
    "Envelope",
    "EnvelopeSignature",
    "Head",
    "Note",
    "NoteKey",
    "NoteKind",
    "PublicKey",
    "Quorum",
    "Seconds",
    "Signature",
    "SigningKey",
    "Trust",
    "cosign_note",
    "decode64",
    "encode64",
    "parse_signatures",
    "pre_authentication",
    "read_json",
    "sign_note",
    "unix_seconds",
]
