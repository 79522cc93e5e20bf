"""A log that signed two heads of which neither continues the other, shown by what it signed itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from veristate.attest.log import LogReader, extends, roots_of
from veristate.attest.signing import Checkpoint, Head, NoteKey, decode64, encode64, read_json
from veristate.core import InputError, TamperError, canonical_bytes

FORMAT = "veristate.fork/1"


class _ForkJson(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    format: str
    one: str
    other: str
    root: str
    proof: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Two signed heads of one log, `other` not smaller. `proof` shows that `other` had `root` when it was of the size
    of `one`, which signed another root. Of equal sizes the proof is empty and `root` is the other's.
    """

    one: Checkpoint
    other: Checkpoint
    root: bytes
    proof: tuple[bytes, ...]

    @classmethod
    def between(cls, known: Checkpoint, shown: Checkpoint, proof: Sequence[bytes]) -> "Fork | None":
        """The fork that two heads and a consistency proof show; None when they don't show one.

        A proof from a size that is a power of two leaves out the root it begins with, so it shows none by itself;
        `from_reader` does.
        """
        one, other = sorted((known, shown), key=lambda checkpoint: checkpoint.head.size)
        if one.head.size == other.head.size:
            root: bytes | None = other.head.root
        else:
            roots = roots_of(one.head.size, other.head.size, proof, one.head.root)
            root = roots[0] if roots else None
        fork = cls(one=one, other=other, root=root, proof=tuple(proof)) if root is not None else None
        return fork if fork and fork._shown(one.head, other.head) else None

    @classmethod
    def from_reader(cls, known: Checkpoint, shown: Checkpoint, reader: LogReader) -> "Fork | None":
        """The fork between a known head and a larger one, which `reader` reads; None when it continues the known."""
        size = known.head.size
        if size == 0:
            return None
        fork = cls(one=known, other=shown, root=reader.root(size), proof=reader.consistency(size))
        return fork if fork._shown(known.head, shown.head) else None

    def prove(self, origin: str, keys: Sequence[NoteKey]) -> str:
        """What the log did, in a sentence, now that its `keys` are seen to have signed both heads.

        Raises: TamperError when they did not, or the heads can both be honest.
        """
        one, other = self.one.trusted(origin, keys), self.other.trusted(origin, keys)
        if not self._shown(one, other):
            raise TamperError(f"these two heads of {origin} can both be honest; this is no fork")
        return (
            f"{origin} signed root {encode64(one.root)} and root {encode64(self.root)} (under its head of size "
            f"{other.size}) for the same size {one.size}"
        )

    def _shown(self, one: Head, other: Head) -> bool:
        if one.origin != other.origin or one.root == self.root or one.size == 0:
            return False
        if one.size == other.size:
            return self.root == other.root and not self.proof
        return extends(one.size, self.root, other.size, other.root, self.proof)

    def to_bytes(self) -> bytes:
        """The evidence as canonical JSON."""
        heads = {"one": str(self.one), "other": str(self.other), "root": encode64(self.root)}
        return canonical_bytes({"format": FORMAT, **heads, "proof": [encode64(line) for line in self.proof]})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Fork":
        """The evidence in `data`, nothing of it verified. Raises: InputError when it is none."""
        try:
            content = _ForkJson.model_validate(read_json(data))
            if content.format != FORMAT:
                raise ValueError(f"format {content.format!r}")
            return cls(
                one=Checkpoint.parse(content.one.encode()),
                other=Checkpoint.parse(content.other.encode()),
                root=decode64(content.root),
                proof=tuple(decode64(line) for line in content.proof),
            )
        except (ValueError, ValidationError) as error:
            raise InputError(f"no fork evidence: {error}") from error
