"""Verifying an export with nothing but the file and whom one believes. No network, no store, nothing unpickled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from veristate.attest.commitments import (
    KEY_TYPE,
    Commitment,
    KeyEvent,
    KeyHistory,
    Manifest,
    Policy,
    Standing,
    read_record,
)
from veristate.attest.export.archive import read_archive
from veristate.attest.export.crate import (
    CONTENTS,
    METADATA,
    SUGGESTED,
    Contents,
    blob_path,
    describe,
    entry_paths,
    stamp_path,
)
from veristate.attest.log import LogProof
from veristate.attest.signing import Checkpoint, Envelope, Trust
from veristate.attest.timestamps import Authority, judge_timestamp
from veristate.core import InputError, Record, RefusedError, TamperError, VeristateError, digest
from veristate.store import disk


class ExportFindingKind(StrEnum):
    """What can be wrong with an export."""

    ARCHIVE = "archive"
    ENTRY = "entry"
    PROOF = "proof"
    QUORUM = "quorum"
    TIMESTAMP = "timestamp"
    CHAIN = "chain"
    SIGNATURE = "signature"
    BLOB = "blob"
    MISSING = "missing"
    STRAY = "stray"
    DESCRIPTION = "description"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFinding:
    """One thing that is wrong, and at which path in the file."""

    kind: ExportFindingKind
    path: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStep:
    """A step as a stranger knows it: the commitment, its place, what its signature is worth."""

    place: int
    commitment: Commitment
    envelope: Envelope
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was in the file, and everything that is wrong with it. `blobs` are what they are called by, `heads`
    the texts of the signed heads that its proofs lead to, `stamps` the sizes of those that have a timestamp, with the
    time that it was judged to say: None when no authority was given to judge it by.
    """

    contents: Contents | None
    steps: tuple[ExportedStep, ...]
    blobs: Mapping[str, bytes]
    suggested: str
    heads: tuple[str, ...]
    cosigned: Mapping[str, int]
    stamps: Mapping[int, datetime | None]
    findings: tuple[ExportFinding, ...]

    def require(self) -> "Export":
        """The export, in which nothing is wrong. Raises: TamperError or RefusedError with what is."""
        if self.findings:
            first = "; ".join(f"{f.path}: {f.kind}: {f.detail}" for f in self.findings[:3])
            only_quorum = all(f.kind is ExportFindingKind.QUORUM for f in self.findings)
            error = RefusedError if only_quorum else TamperError
            raise error(f"{len(self.findings)} findings: {first}")
        return self

    def artifacts(self, manifest: str) -> dict[str, bytes | None]:
        """The artifacts of a manifest by name; None for those that were redacted."""
        named = read_record(Manifest, self.blobs[manifest]).artifacts
        return {name: self.blobs.get(blob) for name, blob in named.items()}


def read_export(path: Path, trust: Trust | None, *, now: int, authority: Authority | None = None) -> Export:
    """What the file says, verified against `trust`; against whom the file itself suggests when None, which convinces
    nobody. With an `authority` each head needs a timestamp by it. A finding is data; `require` raises.

    Raises: EnvironmentUnusableError when the file can't be read, or timestamps are to be judged and what judges them is
    not installed.
    """
    files: dict[str, bytes] = {}
    wrong: list[ExportFinding] = []
    with disk(path), path.open("rb") as source:
        try:
            for name, data in read_archive(source):
                if name in files:
                    wrong.append(_finding(ExportFindingKind.ARCHIVE, name, "stands there twice"))
                files[name] = data
        except TamperError as error:
            wrong.append(_finding(ExportFindingKind.ARCHIVE, path.name, str(error)))
    return _Reading(files, wrong, trust, now, authority).export()


def _finding(kind: ExportFindingKind, path: str, detail: str) -> ExportFinding:
    return ExportFinding(kind=kind, path=path, detail=detail)


@dataclass(slots=True)
class _Reading:
    """One pass over an export's files."""

    files: Mapping[str, bytes]
    wrong: list[ExportFinding]
    trust: Trust | None
    now: int
    authority: Authority | None
    used: set[str] = field(default_factory=set)
    cosigned: dict[str, int] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)

    def export(self) -> Export:
        contents = self._contents()
        suggested = self._take(SUGGESTED).decode("utf-8", "replace")
        entries = list(self._entries(contents, self.trust or self._suggestion(suggested)))
        blobs = dict(self._blobs())
        steps = tuple(self._steps(contents, entries))
        for step in steps:
            self._references(step, blobs, contents)
        self._description(contents, steps)
        stamps = dict(self._stamps())
        strays = [name for name in self.files if name not in self.used]
        self.wrong += [_finding(ExportFindingKind.STRAY, name, "nothing here names it") for name in strays]
        return Export(
            contents=contents,
            steps=steps,
            blobs=blobs,
            suggested=suggested,
            heads=tuple(sorted(self.judged)),
            cosigned=self.cosigned,
            stamps=stamps,
            findings=tuple(self.wrong),
        )

    def _take(self, name: str) -> bytes:
        self.used.add(name)
        if name not in self.files:
            self.wrong.append(_finding(ExportFindingKind.MISSING, name, "the export lacks it"))
        return self.files.get(name, b"")

    def _contents(self) -> Contents | None:
        data = self._take(CONTENTS)
        try:
            return read_record(Contents, data) if data else None
        except TamperError as error:
            self.wrong.append(_finding(ExportFindingKind.DESCRIPTION, CONTENTS, str(error)))
            return None

    def _suggestion(self, text: str) -> Trust:
        try:
            return Trust.parse(text)
        except InputError as error:
            self.wrong.append(_finding(ExportFindingKind.DESCRIPTION, SUGGESTED, str(error)))
            return Trust.parse("quorum none")

    def _entries(self, contents: Contents | None, trust: Trust) -> Iterator[tuple[int, Envelope]]:
        """The entries with their places, in the order of the log, each proven to be there."""
        for name in sorted(self.files):
            if not name.endswith(".dsse.json"):
                continue
            place = int(name[8:-10]) if name[8:-10].isdecimal() else -1
            entry, proof = entry_paths(place)
            if name != entry:
                continue  # a stray
            data = self._take(entry)
            self._prove(place, proof, data, contents, trust)
            try:
                yield place, Envelope.from_bytes(data)
            except TamperError as error:
                self.wrong.append(_finding(ExportFindingKind.ENTRY, entry, str(error)))

    def _prove(self, place: int, path: str, entry: bytes, contents: Contents | None, trust: Trust) -> None:
        origin = contents.origin if contents else ""
        try:
            proof = LogProof.parse(self._take(path))
            if str(proof.checkpoint) not in self.judged:
                proof.checkpoint.trusted(origin, [key for key in trust.logs if key.name == origin])
            proof.leads_from(entry)
            if proof.index != place or proof.extra is not None or str(proof).encode() != self.files[path]:
                raise TamperError(f"a proof for place {proof.index}, or with more in it than a proof")
            text = str(proof.checkpoint)
            if text not in self.judged:
                self.judged.add(text)
                self.cosigned |= trust.quorum.require(proof.checkpoint.note, self.now)
        except RefusedError as error:
            self.wrong.append(_finding(ExportFindingKind.QUORUM, path, str(error)))
        except VeristateError as error:
            self.wrong.append(_finding(ExportFindingKind.PROOF, path, str(error)))

    def _stamps(self) -> Iterator[tuple[int, datetime | None]]:
        """The heads that have a timestamp, each judged where an authority is given."""
        for text in sorted(self.judged):
            head = Checkpoint.parse(text.encode()).head
            path = stamp_path(head.size)
            if path not in self.files:
                if self.authority is not None:
                    self.wrong.append(_finding(ExportFindingKind.TIMESTAMP, path, "the head has no timestamp"))
                continue
            reply = self._take(path)
            time = None
            if self.authority is not None:
                moment = datetime.fromtimestamp(self.now, UTC)
                verdict = judge_timestamp(reply, str(head).encode(), self.authority, now=moment)
                time = verdict.time
                if time is None:
                    self.wrong.append(_finding(ExportFindingKind.TIMESTAMP, path, verdict.reason))
            yield head.size, time

    def _blobs(self) -> Iterator[tuple[str, bytes]]:
        for name, data in self.files.items():
            if name.startswith("blobs/"):
                blob = name.removeprefix("blobs/")
                if digest(data) == blob:
                    yield blob, data
                else:
                    self.used.add(name)
                    self.wrong.append(
                        _finding(ExportFindingKind.BLOB, name, f"its bytes have the digest {digest(data)}")
                    )

    def _steps(self, contents: Contents | None, entries: Sequence[tuple[int, Envelope]]) -> Iterator[ExportedStep]:
        """The steps, the recorder's chain followed and every signature judged at its place."""
        history = KeyHistory.of(entries)
        sequence, predecessor = 0, "0" * 64
        whose: dict[tuple[str, str], str] = {}
        for place, envelope in entries:
            path = entry_paths(place)[0]
            try:
                said = (KeyEvent if envelope.payload_type == KEY_TYPE else Commitment).from_envelope(envelope)
            except TamperError as error:
                self.wrong.append(_finding(ExportFindingKind.ENTRY, path, str(error)))
                continue
            whose.setdefault((said.origin, said.recorder), path)
            if (said.sequence, said.predecessor) != (sequence, predecessor):
                detail = f"number {said.sequence} after {predecessor[:16]}, where number {sequence} is due"
                self.wrong.append(_finding(ExportFindingKind.CHAIN, path, detail))
            sequence, predecessor = said.sequence + 1, envelope.payload_digest
            if place in history.rejected:
                self.wrong.append(_finding(ExportFindingKind.SIGNATURE, path, history.rejected[place]))
            if isinstance(said, Commitment):
                standing = history.standing(said, envelope, place)
                if not standing.good:
                    self.wrong.append(_finding(ExportFindingKind.SIGNATURE, path, standing))
                yield ExportedStep(place=place, commitment=said, envelope=envelope, standing=standing)
        self._belong(contents, whose)

    def _belong(self, contents: Contents | None, whose: Mapping[tuple[str, str], str]) -> None:
        """Reports entries of another log or recorder; when all agree with each other, the export says the wrong one."""
        for owner, path in whose.items():
            if contents and owner != (contents.origin, contents.recorder):
                where = CONTENTS if len(whose) == 1 else path
                self.wrong.append(_finding(ExportFindingKind.CHAIN, where, "entries of another log or recorder"))

    def _references(self, step: ExportedStep, blobs: Mapping[str, bytes], contents: Contents | None) -> None:
        """Marks what a step names, and reports what is not there and was not redacted."""
        said = step.commitment
        named: dict[str, Iterable[str]] = {}
        kinds: list[tuple[type[Policy] | type[Manifest], str]] = [(Policy, said.policy)]
        kinds += [(Manifest, manifest) for manifest in (said.inputs, said.outputs, said.context)]
        for kind, blob in kinds:
            self.used.add(blob_path(blob))
            if blob not in blobs:
                self._lacks(blob, step, "a manifest or policy")
                continue
            try:
                record: Record = read_record(kind, blobs[blob])
            except TamperError as error:
                self.wrong.append(_finding(ExportFindingKind.BLOB, blob_path(blob), str(error)))
                continue
            named[blob] = record.artifacts.values() if isinstance(record, Manifest) else ()
        redacted = set(contents.redacted) if contents else set()
        for blob in {blob for part in named.values() for blob in part}:
            self.used.add(blob_path(blob))
            if blob not in blobs and blob not in redacted:
                self._lacks(blob, step, "an artifact")

    def _lacks(self, blob: str, step: ExportedStep, what: str) -> None:
        path = blob_path(blob)
        if path not in self.files:
            detail = f"{what} of the step at place {step.place}, neither here nor redacted"
            self.wrong.append(_finding(ExportFindingKind.MISSING, path, detail))

    def _description(self, contents: Contents | None, steps: Sequence[ExportedStep]) -> None:
        """Compares the RO-Crate description with the one that follows from the rest."""
        found = self._take(METADATA)
        if contents is None:
            return
        sizes = [(name, len(data)) for name, data in self.files.items() if name != METADATA]
        date = steps[-1].commitment.time if steps else "1970-01-01T00:00:00Z"
        if found != describe(contents, sizes, date):
            self.wrong.append(_finding(ExportFindingKind.DESCRIPTION, METADATA, "not the description of these files"))
