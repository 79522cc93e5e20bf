"""Asking witnesses to cosign a head, and publishing it only when enough of them did."""

import http.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from veristate.attest.log import TileLog
from veristate.attest.signing import Checkpoint, NoteKey, Signature, parse_signatures
from veristate.attest.witness.state import AddCheckpoint, Answer
from veristate.core import InputError, RefusedError, VeristateError

Ask = Callable[[bytes], Answer]
_BODY_UPPER = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessing:
    """What came of asking: who cosigned and when, who did not and why, and the checkpoint published, None without a
    quorum.
    """

    checkpoint: Checkpoint | None
    times: Mapping[str, int]
    refused: Mapping[str, str]

    def require(self) -> Checkpoint:
        """The published checkpoint. Raises: RefusedError with what each witness said."""
        if self.checkpoint is None:
            said = "; ".join(f"{name}: {reason}" for name, reason in self.refused.items())
            raise RefusedError(f"no quorum of witnesses ({said}); the head before it stays published, ask again later")
        return self.checkpoint


def witness_head(log: TileLog, asked: Sequence[tuple[NoteKey, Ask]]) -> Witnessing:
    """The log's integrated head with the cosignatures of those `asked`, published if they make the log's quorum.

    A witness that can't be reached or refuses never counts, and never stops the others.
    """
    checkpoint = log.integrated()
    lines: list[Signature] = []
    refused: dict[str, str] = {}
    for key, ask in asked:
        try:
            lines.append(_cosignature(log, checkpoint, key, ask))
        except (VeristateError, OSError, http.client.HTTPException) as error:
            refused[key.name] = str(error) or type(error).__name__
    note = checkpoint.note.with_signatures(lines)
    signed = note.signed_by([key for key, _ in asked])
    times = {key.name: seconds for key, seconds in signed.items() if seconds is not None}
    try:
        published = log.publish(note)
    except RefusedError as error:
        return Witnessing(checkpoint=None, times=times, refused=refused or {"quorum": str(error)})
    return Witnessing(checkpoint=published, times=times, refused=refused)


def http_ask(prefix: str, *, timeout_s: float = 10.0) -> Ask:
    """Asks the witness whose submission prefix is `prefix`. Raises: InputError when that is no address."""
    where = urlsplit(prefix)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise InputError(f"a witness is asked at http(s)://host/..., not at {prefix!r}")
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection

    def ask(body: bytes) -> Answer:
        connection = kind(str(where.hostname), where.port, timeout=timeout_s)
        try:
            connection.request("POST", f"{where.path.rstrip('/')}/add-checkpoint", body=body)
            reply = connection.getresponse()
            text = reply.read(_BODY_UPPER).decode("utf-8", "replace")
            return Answer(status=HTTPStatus(reply.status), body=text, kind=reply.getheader("Content-Type", ""))
        except ValueError as error:
            raise RefusedError(f"{prefix} answered with {error}") from error
        finally:
            connection.close()

    return ask


def _cosignature(log: TileLog, checkpoint: Checkpoint, key: NoteKey, ask: Ask) -> Signature:
    """The witness's line for the checkpoint, verified. Asks a second time from the size that the witness names."""
    reader, old = log.reader(checkpoint), 0
    answer = ask(AddCheckpoint(old=0, proof=(), checkpoint=checkpoint).to_bytes())
    if answer.status is HTTPStatus.CONFLICT and answer.body.strip().isdecimal():
        old = int(answer.body)
        if old > checkpoint.head.size:
            raise RefusedError(
                f"it has seen {old} entries of this log, which has {checkpoint.head.size}: a fork, or lost"
            )
        request = AddCheckpoint(old=old, proof=reader.consistency(old), checkpoint=checkpoint)
        answer = ask(request.to_bytes())
    if answer.status is not HTTPStatus.OK:
        raise RefusedError(f"{answer.status.value} from size {old}: {answer.body.strip()[:200]}")
    for line in parse_signatures(answer.body):
        note = checkpoint.note.with_signatures([line])
        if (line.name, line.hash) == (key.name, key.hash) and key in note.signed_by([key]):
            return line
    raise RefusedError("it answered without a cosignature of the key it is known by")
