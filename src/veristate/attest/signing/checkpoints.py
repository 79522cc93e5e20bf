"""Checkpoints: the signed note in which a log says its size and root. Source: C2SP tlog-checkpoint."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from veristate.attest.signing.base64_text import decode64, encode64
from veristate.attest.signing.keys import NoteKey, NoteKind
from veristate.attest.signing.notes import Note
from veristate.core import InputError, TamperError

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a checkpoint says: the log by its origin, how many entries, and the root over them."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text that is signed."""
        return "".join(f"{line}\n" for line in (self.origin, self.size, encode64(self.root), *self.extensions))

    @classmethod
    def parse(cls, text: str) -> "Head":
        """The head that a note's text says. Raises: InputError when it is no checkpoint."""
        lines = text.removesuffix("\n").split("\n")
        try:
            origin, size, root, *extensions = lines
            if not origin or not _SIZE.fullmatch(size) or not all(extensions):
                raise ValueError("an empty line, or a size that is no plain decimal")
            head = cls(origin=origin, size=int(size), root=decode64(root), extensions=tuple(extensions))
            if len(head.root) != 32:
                raise ValueError(f"a root of {len(head.root)} bytes")
        except ValueError as error:
            raise InputError(f"not a checkpoint: {error}") from error
        return head


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A head and the note that says it. Whether anybody signed it is what `trusted` tells."""

    head: Head
    note: Note

    def __str__(self) -> str:
        return str(self.note)

    @classmethod
    def parse(cls, data: bytes) -> "Checkpoint":
        """The checkpoint in `data`, its signatures not verified. Raises: InputError when it is none."""
        note = Note.parse(data)
        return cls(head=Head.parse(note.text), note=note)

    def trusted(self, origin: str, keys: Sequence[NoteKey]) -> Head:
        """The head, now that one of the log's `keys` is seen to have signed it for `origin`.

        Raises: TamperError when none did, or for another origin. A root is taken from nowhere else.
        """
        if self.head.origin != origin:
            raise TamperError(f"a checkpoint of {self.head.origin!r}, not of {origin!r}; take the right one")
        if not any(key.kind is NoteKind.LOG for key in self.note.signed_by(keys)):
            raise TamperError(f"no key of {origin!r} signed this checkpoint; don't trust it")
        return self.head
