"""What a witness remembers: of each log the last head it cosigned. Checked and replaced in one locked step.

Source: C2SP tlog-witness. Its answers are the standard's status codes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from veristate.attest.disk import locked, write_whole
from veristate.attest.log import EMPTY_ROOT, extends
from veristate.attest.signing import (
    Checkpoint,
    NoteKey,
    NoteKind,
    Seconds,
    SigningKey,
    cosign_note,
    decode64,
    encode64,
    unix_seconds,
)
from veristate.attest.witness.forks import Fork
from veristate.core import InputError, TamperError, digest
from veristate.store import disk

PROOF_LINES_UPPER = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCheckpoint:
    """A request to cosign: the size the log believes we know, the proof from there, and the new checkpoint."""

    old: int
    proof: tuple[bytes, ...]
    checkpoint: Checkpoint

    def to_bytes(self) -> bytes:
        """The body of the request."""
        lines = [f"old {self.old}", *map(encode64, self.proof), "", str(self.checkpoint)]
        return "\n".join(lines).encode()

    @classmethod
    def parse(cls, data: bytes) -> "AddCheckpoint":
        """The request in `data`. Raises: InputError when it is none."""
        above, _, note = data.partition(b"\n\n")
        try:
            first, *lines = above.decode("ascii").split("\n")
            size = first.removeprefix("old ")
            if not first.startswith("old ") or not size.isdecimal() or str(int(size)) != size:
                raise ValueError(f"its first line is {first[:60]!r}")
            proof = tuple(decode64(line) for line in lines)
            if len(proof) > PROOF_LINES_UPPER or any(len(line) != 32 for line in proof):
                raise ValueError("proof lines that are no hashes, or more than 63")
        except ValueError as error:
            raise InputError(f"not an add-checkpoint request: {error}") from error
        return cls(old=int(size), proof=proof, checkpoint=Checkpoint.parse(note))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and a body; `kind` is the body's media type."""

    status: HTTPStatus
    body: str
    kind: str = "text/plain; charset=utf-8"


class Witness:
    """A cosigner with a folder of its own. Of two heads of a log that it cosigned, one always continues the other.

    What it is shown that can't both be honest is kept as a fork, with both signed heads.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        key: SigningKey,
        logs: Sequence[NoteKey],
        clock: Seconds = unix_seconds,
    ) -> None:
        self.key = NoteKey(name=name, kind=NoteKind.WITNESS, public=key.public)
        self._folder = folder
        self._signing = key
        self._clock = clock
        self._logs: dict[str, list[NoteKey]] = {}
        for log in logs:
            self._logs.setdefault(log.name, []).append(log)

    def add_checkpoint(self, body: bytes) -> Answer:
        """The answer to a request; a cosignature only when the new head continues the one we cosigned last."""
        try:
            request = AddCheckpoint.parse(body)
        except InputError as error:
            return Answer(status=HTTPStatus.BAD_REQUEST, body=f"{error}\n")
        origin = request.checkpoint.head.origin
        keys = self._logs.get(origin)
        if keys is None:
            return Answer(status=HTTPStatus.NOT_FOUND, body=f"unknown origin {origin!r}\n")
        try:
            request.checkpoint.trusted(origin, keys)
        except TamperError as error:
            return Answer(status=HTTPStatus.FORBIDDEN, body=f"{error}\n")
        if request.old > request.checkpoint.head.size:
            return Answer(status=HTTPStatus.BAD_REQUEST, body="old size beyond the checkpoint's\n")
        with locked(self._place(origin)):
            return self._judge(request)

    def last(self, origin: str) -> Checkpoint | None:
        """The last head of that log that was cosigned; None when none was."""
        path = self._place(origin) / "cosigned"
        if not path.exists():
            return None
        with disk(path):
            checkpoint = Checkpoint.parse(path.read_bytes())
        checkpoint.trusted(origin, self._logs[origin])
        return checkpoint

    def forks(self) -> list[Fork]:
        """The forks that were seen, each provable by itself."""
        return [Fork.from_bytes(path.read_bytes()) for path in sorted(self._folder.glob("*/fork-*.json"))]

    def _judge(self, request: AddCheckpoint) -> Answer:
        """The answer, and the new head on the disk before it is given; under the log's lock."""
        head, known = request.checkpoint.head, self.last(request.checkpoint.head.origin)
        size = known.head.size if known else 0
        if request.old != size:
            self._watch(known, request)
            return Answer(status=HTTPStatus.CONFLICT, body=f"{size}\n", kind="text/x.tlog.size")
        if known and head.size == size:
            if head.root != known.head.root:
                self._watch(known, request)
                return Answer(status=HTTPStatus.CONFLICT, body=f"{size}\n", kind="text/x.tlog.size")
            if request.proof:
                return Answer(status=HTTPStatus.UNPROCESSABLE_ENTITY, body="a proof where there is nothing to prove\n")
        elif not self._continues(known, request):
            self._watch(known, request)
            return Answer(status=HTTPStatus.UNPROCESSABLE_ENTITY, body=f"no proof from {size} to {head.size}\n")
        line = cosign_note(request.checkpoint.note.text, self.key, self._signing, self._clock())
        write_whole(self._place(head.origin) / "cosigned", str(request.checkpoint).encode())
        return Answer(status=HTTPStatus.OK, body=str(line))

    def _continues(self, known: Checkpoint | None, request: AddCheckpoint) -> bool:
        head = request.checkpoint.head
        if known is None or known.head.size == 0:
            # From nothing there is nothing to prove: an empty proof, and for an empty tree its only root.
            return not request.proof and (head.size > 0 or head.root == EMPTY_ROOT)
        return extends(known.head.size, known.head.root, head.size, head.root, request.proof)

    def _watch(self, known: Checkpoint | None, request: AddCheckpoint) -> None:
        """Keeps the two heads if, with this proof, they show a fork."""
        fork = Fork.between(known, request.checkpoint, request.proof) if known else None
        if fork is not None:
            data = fork.to_bytes()
            write_whole(self._place(request.checkpoint.head.origin) / f"fork-{digest(data)[:32]}.json", data)

    def _place(self, origin: str) -> Path:
        return self._folder / digest(origin.encode())
