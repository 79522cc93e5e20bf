"""The finished executions of a study, on the disk one by one, so that a killed run loses at most the one in flight.

One line for each in an append-only file: the SHA-256 of what follows, a blank, canonical JSON. A line is written by
one write and synced before the next execution starts. What a kill leaves of a last line has no end and is cut off when
the file is opened again; any other line that doesn't fit its digest is tampering. Transcripts are blobs of the store,
on the disk before the line that names them: a kill leaves at worst a transcript that nobody names.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.audit.design import Condition, Replacement, Role
from veristate.audit.endpoints import Citation, Exchange
from veristate.audit.endpoints import Path as EvidencePath
from veristate.audit.statistics import Attempt, Outcome
from veristate.core import EnvironmentUnusableError, RefusedError, TamperError, canonical_bytes, digest, plain
from veristate.store import Store

FORMAT = "veristate.execution/1"
LINES, BLOBS = "attempts.lines", "transcripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """One finished execution. `key` is the digest of everything that fixed it; an agent's has one attempt, that of an
    array-only task one for each list or row it decided. `replacement` is None where nothing was replaced;
    `transcript` the digest of the transcript, "" where there is none; `exchanges` and `metrics` are as `Done` has them.
    """

    key: str
    arm: str
    environment: str
    role: Role
    condition: Condition
    attempts: tuple[Attempt, ...]
    replacement: Replacement | None
    transcript: str
    rejected: int
    reply_tokens: int
    exchanges: tuple[Exchange, ...]
    metrics: tuple[tuple[str, str], ...]
    seconds: str
    at: str

    def to_bytes(self) -> bytes:
        """The canonical bytes of the line."""
        return canonical_bytes({"format": FORMAT} | plain(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Executed":
        """The execution a line holds. Raises: TamperError for bytes that are no such line."""
        try:
            content = json.loads(data)
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            replaced = content.pop("replacement")
            found = cls(
                role=Role(content.pop("role")),
                condition=Condition(content.pop("condition")),
                attempts=tuple(_attempt(one) for one in content.pop("attempts")),
                replacement=None if replaced is None else Replacement(**replaced),
                exchanges=tuple(Exchange(**one) for one in content.pop("exchanges")),
                metrics=tuple((name, value) for name, value in content.pop("metrics")),
                **content,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TamperError(f"not a line of {FORMAT}: {error!r}") from error
        if found.to_bytes() != data:
            raise TamperError(f"a line of {FORMAT} whose bytes are not canonical")
        return found


class Recorded:
    """The executions in a run's folder. Made by `opened`, which keeps other writers out."""

    def __init__(self, folder: Path, descriptor: int, found: dict[str, Executed]) -> None:
        self.folder = folder
        self._descriptor = descriptor
        self._found = found
        self._store = Store.open(folder / BLOBS)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    @property
    def all(self) -> Mapping[str, Executed]:
        """What is finished, by key, in the order in which it finished."""
        return self._found

    def keep(self, transcript: bytes) -> str:
        """The digest of a transcript, which is on the disk when this returns."""
        return self._store.put(transcript)

    def add(self, executed: Executed) -> None:
        """Returns when the execution is on the disk. Raises: EnvironmentUnusableError when the disk refuses."""
        data = executed.to_bytes()
        line = memoryview(f"{digest(data)} ".encode() + data + b"\n")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise EnvironmentUnusableError(
                f"{self.folder / LINES}: {error.strerror}; see to the disk, run again"
            ) from error
        self._found[executed.key] = executed


@contextmanager
def opened(folder: Path) -> Iterator[Recorded]:
    """The executions in a folder, made if there is none, for one writer alone.

    Raises: RefusedError when another process writes there; TamperError for a line that is not what was written;
    EnvironmentUnusableError when the folder can't be used.
    """
    path = folder / LINES
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise EnvironmentUnusableError(f"{path}: {error.strerror}; choose another folder for the run") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"{folder} is in use by another run; wait for it or stop it") from None
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(descriptor, len(whole))
            os.fsync(descriptor)
        yield Recorded(folder, descriptor, _lines(path, whole))
    finally:
        os.close(descriptor)


def read_recorded(folder: Path) -> Mapping[str, Executed]:
    """The finished executions of a run that may still be going on.

    Raises: EnvironmentUnusableError for a folder without any; TamperError for a line that is not what was written.
    """
    path = folder / LINES
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentUnusableError(
            f"{path}: {error.strerror}; give the folder of a run of `veristate audit`"
        ) from error
    return _lines(path, data[: data.rfind(b"\n") + 1])


def read_transcript(folder: Path, name: str) -> bytes:
    """A transcript by its digest. Raises: as `Store.get`."""
    return Store.open(folder / BLOBS).get(name)


def _lines(path: Path, data: bytes) -> dict[str, Executed]:
    found: dict[str, Executed] = {}
    for number, line in enumerate(data.splitlines(), 1):
        told, _, content = line.partition(b" ")
        if told.decode(errors="replace") != digest(content):
            raise TamperError(f"{path} line {number} is not what was written; keep the folder and ask who changed it")
        try:
            executed = Executed.from_bytes(content)
        except TamperError as error:
            raise TamperError(f"{path} line {number}: {error}") from error
        if executed.key in found:
            raise TamperError(f"{path} line {number} repeats the execution {executed.key[:12]}")
        found[executed.key] = executed
    return found


def _attempt(content: dict[str, Any]) -> Attempt:
    path = content.pop("path")
    return Attempt(
        outcome=Outcome(content.pop("outcome")), path=None if path is None else evidence_path(path), **content
    )


def evidence_path(content: Mapping[str, Any]) -> EvidencePath:
    """A path from its JSON."""
    cited = tuple(Citation(document=c["document"], sentences=tuple(c["sentences"])) for c in content["cited"])
    return EvidencePath(
        retrieved=tuple(content["retrieved"]),
        read=tuple(content["read"]),
        cited=cited,
        actions=tuple(content["actions"]),
        verdict=content["verdict"],
    )
