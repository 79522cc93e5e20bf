"""The files a laboratory takes on: what is selected, what is tested, the certificate. Written whole or not at all."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path

from veristate.core import EnvironmentUnusableError, plain
from veristate.screening.outcome.result import ScreeningResult


def prepare_folder(folder: Path) -> None:
    """Makes sure before a long run that files can be written there. Raises: EnvironmentUnusableError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EnvironmentUnusableError(f"{folder} can't be written to: {error.strerror}") from error


def write_outputs(result: ScreeningResult, folder: Path) -> tuple[Path, ...]:
    """The paths written: nothing when nothing is certified."""
    if result.certificate is None or result.scores.certified is None:
        return ()
    rows = zip(result.scores.ids, result.scores.names, result.scores.certified, strict=True)
    ranked = sorted(rows, key=lambda row: (-row[2], row[0]))
    written = []
    for kind, name in (("top_k", "selected.csv"), ("threshold", "triage.csv"), ("nearest", "nearest.csv")):
        decision = result.decision(kind)
        if decision:
            chosen = set(decision.chosen)
            shown = ranked if kind == "threshold" else [row for row in ranked if row[0] in chosen]
            lines = [[*row[:2], repr(row[2]), *_verdict(kind, row[0] in chosen)] for row in shown]
            header = ["id", "name", "score"] + (["decision"] if kind == "threshold" else [])
            written.append(write_whole(folder / name, _csv([header, *lines])))
    content = {
        "certificate": {"format": result.certificate.FORMAT} | plain(result.certificate),
        "digest": result.certificate.digest,
        "committed": result.committed or result.committed_earlier is not None,
        "journal_head": result.journal_head,
        "simulated_fault": result.injected,
    }
    written.append(write_whole(folder / "certificate.json", json.dumps(content, indent=1) + "\n"))
    return tuple(written)


def write_whole(path: Path, text: str) -> Path:
    """Writes a file through a temporary one beside it. Raises: EnvironmentUnusableError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        return Path(file.name).replace(path)
    except OSError as error:
        raise EnvironmentUnusableError(f"{path} can't be written: {error.strerror}") from error


def _verdict(kind: str, chosen: bool) -> list[str]:
    if kind != "threshold":
        return []
    return ["test" if chosen else "advance without testing"]


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
