"""Signed notes: text with signature lines under it, of which only known keys' count.

Source: C2SP signed-note. A line of an unknown key is ignored; a line of a known key that fails rejects the note.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from veristate.attest.signing.base64_text import decode64, encode64
from veristate.attest.signing.keys import NoteKey, NoteKind, SigningKey
from veristate.core import InputError, TamperError

NOTE_BYTES_UPPER = 1_000_000
_DASH = "— "
Seconds = Callable[[], int]


def unix_seconds() -> int:
    """The present time as whole seconds since 1970, UTC."""
    return int(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature line, believed by nobody yet."""

    name: str
    hash: bytes
    data: bytes

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {encode64(self.hash + self.data)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text and its signature lines."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(map(str, self.signatures))

    @classmethod
    def parse(cls, data: bytes) -> "Note":
        """The note in `data`. Raises: InputError when it is none."""
        if len(data) > NOTE_BYTES_UPPER:
            raise InputError(f"a note of {len(data)} bytes; at most {NOTE_BYTES_UPPER} are read")
        try:
            content = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"a note that is no UTF-8: {error}") from error
        text, blank, below = content.rpartition("\n\n")
        if not blank or not below.endswith("\n") or any(c < " " and c != "\n" for c in content):
            raise InputError("not a signed note: text, an empty line, signature lines, each ended by a newline")
        return cls(text=text + "\n", signatures=parse_signatures(below))

    def with_signatures(self, more: Sequence[Signature]) -> "Note":
        """The note with further lines, each line once."""
        return Note(text=self.text, signatures=tuple(dict.fromkeys((*self.signatures, *more))))

    def signed_by(self, keys: Sequence[NoteKey]) -> dict[NoteKey, int | None]:
        """The keys that signed the note, with the time a witness gave (seconds since 1970).

        Raises: TamperError when a line of a known key is not its signature.
        """
        known = {(key.name, key.hash): key for key in keys}
        signed: dict[NoteKey, int | None] = {}
        for line in self.signatures:
            key = known.get((line.name, line.hash))
            if key is None:
                continue
            if not _verifies(key, line.data, self.text):
                raise TamperError(f"the line of {key.name} under this note is not its signature; don't trust the note")
            signed[key] = _seconds(line.data) if key.kind is NoteKind.WITNESS else None
        return signed


def parse_signatures(text: str) -> tuple[Signature, ...]:
    """The signature lines that `text` consists of. Raises: InputError when a line is none."""
    found = []
    for line in text.removesuffix("\n").split("\n"):
        name, space, encoded = line.removeprefix(_DASH).partition(" ")
        try:
            if not line.startswith(_DASH) or not name or not space:
                raise ValueError("no dash, name and base 64")
            data = decode64(encoded)
            if len(data) < 5:
                raise ValueError("shorter than a signature")
        except ValueError as error:
            raise InputError(f"not a signature line: {line[:120]!r}: {error}") from error
        found.append(Signature(name=name, hash=data[:4], data=data[4:]))
    return tuple(found)


def sign_note(text: str, key: NoteKey, signing: SigningKey) -> Signature:
    """The signature line of a log's key under `text`."""
    _check_pair(key, signing, NoteKind.LOG)
    return Signature(name=key.name, hash=key.hash, data=signing.sign(text.encode()))


def cosign_note(text: str, key: NoteKey, signing: SigningKey, seconds: int) -> Signature:
    """The cosignature/v1 line of a witness's key under `text`, at that time. Source: C2SP tlog-cosignature."""
    _check_pair(key, signing, NoteKind.WITNESS)
    data = seconds.to_bytes(8, "big") + signing.sign(_cosigned(text, seconds))
    return Signature(name=key.name, hash=key.hash, data=data)


def _check_pair(key: NoteKey, signing: SigningKey, kind: NoteKind) -> None:
    if key.public != signing.public or key.kind is not kind:
        raise InputError(f"{key} is not the verifier key of this signing key, or of another kind than {kind.name}")


def _cosigned(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _seconds(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def _verifies(key: NoteKey, data: bytes, text: str) -> bool:
    if key.kind is NoteKind.LOG:
        return key.public.verifies(data, text.encode())
    return len(data) == 72 and _seconds(data) < 2**63 and key.public.verifies(data[8:], _cosigned(text, _seconds(data)))
