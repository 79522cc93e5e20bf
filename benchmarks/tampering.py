"""Claim: every change of a byte that a digest covers, in records, artifacts and exports, is reported with what it hit.

Three kinds of change: one bit in a file as it lies there; one bit of a file inside an export by an adversary who then
makes archive and description right again; one bit of the run's database. Whether a byte is covered is decided
without the code under test: a change is *uncovered* when what the file says, read by another program, is the same, or
when the byte stands in a field that is listed here as signed by nobody.
"""

import io
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import zstandard
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.record import Claim, note, write
from veristate.attest import (
    Home,
    NoteKey,
    NoteKind,
    Quorum,
    Recorder,
    SigningKey,
    TileLog,
    Trust,
    Witness,
    check_log,
    export_run,
    read_export,
    unix_seconds,
    witness_head,
)
from veristate.attest.export import read_archive, write_archive
from veristate.attest.export.crate import CONTENTS, METADATA, SUGGESTED, Contents, describe
from veristate.core import VeristateError
from veristate.ledger import Ledger
from veristate.store import Store

TRIALS = 10_000
SHARES = {"log": 0.25, "artifacts": 0.2, "export": 0.25, "export, repaired": 0.2, "journal": 0.1}
RENAMED = "told as a line that can't be judged, its signer's name being another"
FREE = {SUGGESTED: "the policy that an export suggests: signed by nobody, believed by nobody"}


def main() -> None:
    """Measures and writes; `--soak` makes 100,000 changes, a number so many."""
    arguments = sys.argv[1:]
    trials = 100_000 if "--soak" in arguments else int(arguments[0]) if arguments else TRIALS
    started, chance = time.time(), random.Random(12)
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name))
        carriers: dict[str, Callable[[random.Random], str]] = {
            "log": run.log,
            "artifacts": run.artifact,
            "export": run.export,
            "export, repaired": run.repaired,
            "journal": run.journal,
        }
        counts: dict[str, Counter[str]] = {}
        for kind, share in SHARES.items():
            counts[kind] = Counter(carriers[kind](chance) for _ in range(round(trials * share)))
            note(f"{kind}: {dict(counts[kind])}")
            run.require_whole()
    write("tampering", [claim(counts, trials)], {kind: dict(found) for kind, found in counts.items()}, started)


def claim(counts: dict[str, Counter[str]], trials: int) -> Claim:
    """The row."""
    total = sum(counts.values(), Counter())
    missed, elsewhere, crashed = total["MISSED"], total["REPORTED ELSEWHERE"], total["REPORTED BY A CRASH"]
    uncovered = {what: count for what, count in total.items() if what.startswith("uncovered: ")}
    listed = "; ".join(f"{what.removeprefix('uncovered: ')} ({count})" for what, count in sorted(uncovered.items()))
    return Claim(
        claim=f"Changes of one bit in records, artifacts and exports, {trials:,} at random",
        measured=f"{missed} missed, {elsewhere} reported elsewhere than where they hit, {crashed} by a crash",
        unit="",
        bar="every change that a digest covers reported with what it hit",
        met=missed + elsewhere + crashed == 0,
        detail=f"{total['reported']:,} reported, {total[RENAMED]} {RENAMED}. Not covered: {listed}",
    )


class Run:
    """A witnessed run of twelve steps: its folder, its log, its export."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorder_folder = folder / "run"
        with Recorder.open(self._recorder_folder) as recorder:
            key = SigningKey.open(self._recorder_folder / "keys" / "log.pem")
            log_key = NoteKey(name=recorder.origin, kind=NoteKind.LOG, public=key.public)
            witness = Witness(folder / "witness", name="w.example", key=SigningKey.new(), logs=[log_key])
            quorum = Quorum(members=(witness.key,), threshold=1)
            log = TileLog.open(self._recorder_folder / "log", origin=recorder.origin, key=key, quorum=quorum)
            for n in range(12):
                recorder.commit_to(
                    "step",
                    inputs={"question": b"question %d " % n * 20},
                    outputs={"answer": b"answer %d " % n * 20},
                    context={"model": b"m1"},
                )
                if n == 6:
                    recorder.rotate("planned")
                if n % 6 == 5:  # twice, so that files of an older head lie there too
                    recorder.outbox.flush(log.append)
            witness_head(log, [(witness.key, witness.add_checkpoint)]).require()
            self._trust = Trust(logs=(log_key,), quorum=quorum, addresses={})
            export_run(Home(recorder, log, self._trust), folder / "run.zip")
        self._log, self._key, self._witness = log.folder, str(log_key), str(witness.key)
        self._export = (folder / "run.zip").read_bytes()
        self._members = dict(read_archive(io.BytesIO(self._export)))
        self._public = [p for p in log.folder.rglob("*") if p.is_file() and ".state" not in p.parts]
        self._blobs = [p for p in (self._recorder_folder / "objects" / "blobs").rglob("*") if p.is_file()]
        self._store = Store.open(self._recorder_folder / "objects")
        self._ledger = self._recorder_folder / "ledger.sqlite"
        self._dump = dump(self._ledger)

    def require_whole(self) -> None:
        """Nothing is wrong when nothing was changed."""
        report = check_log(self._log, self._key, witnesses=[self._witness])
        assert (report.findings, report.cosigned) == ((), ("w.example",))
        assert not list(self._store.fsck([]))
        assert self._read(self._export) == []

    def log(self, chance: random.Random) -> str:
        """A bit of a file of the public log, read by the independent reader."""
        path = chance.choice(self._public)
        kept = path.read_bytes()
        changed = flipped(kept, chance)
        path.write_bytes(changed)
        report = check_log(self._log, self._key, witnesses=[self._witness])
        path.write_bytes(kept)
        found = report.findings
        if not found:
            return RENAMED if report.unjudged and path.name == "checkpoint" else "MISSED"
        name = path.relative_to(self._log).as_posix().split(".p/")[0]
        return "reported" if any(name in finding.path for finding in found) else "REPORTED ELSEWHERE"

    def artifact(self, chance: random.Random) -> str:
        """A bit of a blob on the disk, read by the store."""
        path = chance.choice(self._blobs)
        kept = path.read_bytes()
        mode = path.stat().st_mode
        changed = flipped(kept, chance)
        path.chmod(0o600)
        path.write_bytes(changed)
        found = list(self._store.fsck([]))
        path.write_bytes(kept)
        path.chmod(mode)
        if not found:
            same = content(kept) == content(changed)
            return "uncovered: how a blob is compressed, its content the same" if same else "MISSED"
        return "reported" if any(f.path == path for f in found) else "REPORTED ELSEWHERE"

    def export(self, chance: random.Random) -> str:
        """A bit anywhere in an export."""
        at = chance.randrange(len(self._export))
        changed = bytearray(self._export)
        changed[at] ^= 1 << chance.randrange(8)
        return "reported" if self._read(bytes(changed)) else "MISSED"

    def repaired(self, chance: random.Random) -> str:
        """A bit of a file inside an export, the archive and its description made right again."""
        name = chance.choice([name for name in self._members if name != METADATA])
        files = self._members | {name: flipped(self._members[name], chance)}
        try:
            contents = Contents.from_bytes(files[CONTENTS])
        except VeristateError:
            contents = Contents.from_bytes(self._members[CONTENTS])
        date = json.loads(self._members[METADATA])["@graph"][1]["datePublished"]
        sizes = [(path, len(data)) for path, data in files.items() if path != METADATA]
        target = io.BytesIO()
        write_archive(target, (files | {METADATA: describe(contents, sizes, date)}).items())
        with zipfile.ZipFile(target) as archive:
            assert archive.testzip() is None
        found = self._read(target.getvalue())
        base = name.removesuffix(".dsse.json").removesuffix(".tlog-proof")
        if found:
            return "reported" if any(base in path or path == CONTENTS for path in found) else "REPORTED ELSEWHERE"
        if name in FREE:
            return f"uncovered: {FREE[name]}"
        if name == CONTENTS and free_contents(self._members[name]) == free_contents(files[name]):
            return "uncovered: how many commitments an export calls pending"
        return "MISSED"

    def journal(self, chance: random.Random) -> str:
        """A bit of the database file; what it says is read by sqlite alone."""
        copy = self._folder / "copy" / "ledger.sqlite"
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        copy.write_bytes(flipped(self._ledger.read_bytes(), chance))
        try:
            with Ledger.open(copy) as ledger:
                found = bool(ledger.verify())
        except VeristateError:
            found = True
        except (ValueError, SQLAlchemyError):
            return "REPORTED BY A CRASH"  # text that is no text, which the driver refuses and nobody here puts in words
        if found:
            return "reported"
        said = dump(copy)
        if said == self._dump:
            return "uncovered: free space and counters of the database file"
        if said is not None and rows(said) == rows(self._dump or []):
            return "uncovered: the wording of the database's table definitions"
        return "MISSED"

    def _read(self, data: bytes) -> list[str]:
        """The paths of what is wrong with an export."""
        path = self._folder / "changed.zip"
        path.write_bytes(data)
        return [finding.path for finding in read_export(path, self._trust, now=unix_seconds()).findings]


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def content(blob: bytes) -> bytes:
    """What a blob's file holds: as it is after an `r`, as a zstd frame after a `z`; nothing otherwise."""
    if blob[:1] == b"r":
        return blob[1:]
    try:
        return zstandard.ZstdDecompressor().decompress(blob[1:], max_output_size=2**20)
    except zstandard.ZstdError:
        return b""


def free_contents(data: bytes) -> dict[str, object]:
    """What an export says of itself, but for the field that nothing covers."""
    return {key: value for key, value in json.loads(data).items() if key != "pending"}


def rows(said: list[str]) -> list[str]:
    """What a dump says of rows, without how tables are defined."""
    return [line for line in said if not line.startswith("CREATE ")]


def dump(path: Path) -> list[str] | None:
    """Everything that a database says, by sqlite's own dump."""
    try:
        with sqlite3.connect(path) as connection:
            return list(connection.iterdump())
    except sqlite3.DatabaseError:
        return None


if __name__ == "__main__":
    main()
