"""`.tlog-proof` files: that something is in a log, verifiable offline. Source: C2SP tlog-proof@v1."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from veristate.attest.log.tree import includes, leaf_hash
from veristate.attest.signing import Checkpoint, Head, NoteKey, decode64, encode64
from veristate.core import InputError, TamperError

HEADER = "c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")
_HASHES_UPPER = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProof:
    """An entry's index, the path to the root, and the checkpoint. `extra` is authenticated by nothing."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: Checkpoint
    extra: bytes | None = None

    def __str__(self) -> str:
        lines = [HEADER]
        if self.extra is not None:
            lines.append(f"extra {encode64(self.extra)}")
        lines += [f"index {self.index}", *map(encode64, self.hashes), "", str(self.checkpoint)]
        return "\n".join(lines)

    @classmethod
    def parse(cls, data: bytes) -> "LogProof":
        """The proof in `data`, nothing of it verified. Raises: InputError when it is none."""
        try:
            above, _, note = data.partition(b"\n\n")
            header, *lines = above.decode("ascii").split("\n")
            if header != HEADER:
                raise ValueError(f"begins with {header[:60]!r}")
            extra = decode64(lines.pop(0).removeprefix("extra ")) if lines and lines[0].startswith("extra ") else None
            index = _INDEX.fullmatch(lines.pop(0)) if lines else None
            hashes = tuple(decode64(line) for line in lines)
            if index is None or len(hashes) > _HASHES_UPPER or any(len(h) != 32 for h in hashes):
                raise ValueError("no index, or lines that are no hashes")
        except ValueError as error:
            raise InputError(f"not a tlog-proof: {error}") from error
        return cls(index=int(index[1]), hashes=hashes, checkpoint=Checkpoint.parse(note), extra=extra)

    def trusted(self, entry: bytes, *, origin: str, keys: Sequence[NoteKey]) -> Head:
        """The signed head under which `entry` is proven to stand at `index`.

        Raises: TamperError when the log did not sign the head, or the entry is not under its root.
        """
        head = self.checkpoint.trusted(origin, keys)
        self.leads_from(entry)
        return head

    def leads_from(self, entry: bytes) -> None:
        """Returns when the path leads from the entry to the checkpoint's root, whoever signed that.

        Raises: TamperError when it doesn't.
        """
        head = self.checkpoint.head
        if not includes(leaf_hash(entry), self.index, head.size, self.hashes, head.root):
            raise TamperError(f"the proof does not lead from this entry, at {self.index}, to the root of {head.origin}")
