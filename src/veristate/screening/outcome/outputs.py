"""The files a laboratory takes on: what is selected, what is tested, the certificate. Each is written whole."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path

from veristate.core import EnvironmentUnusableError, plain
from veristate.screening.outcome.result import ScreeningResult

_RESIDUALS = "simulated-fault.jsonl"
_FILES = {"top_k": "selected.csv", "threshold": "triage.csv", "nearest": "nearest.csv"}


def prepare_folder(folder: Path) -> None:
    """Makes sure before a long run that files can be written there. Raises: EnvironmentUnusableError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EnvironmentUnusableError(f"{folder} can't be written to: {error.strerror}") from error


def write_outputs(result: ScreeningResult, folder: Path) -> tuple[Path, ...]:
    """The paths written: nothing unless the decision stands committed. Ours of an earlier run are removed then."""
    if not stands_committed(result) or result.certificate is None or result.scores.certified is None:
        return ()
    scores = result.scores
    ends = [scores.lower, scores.upper] if scores.lower is not None and scores.upper is not None else []
    rows = zip(scores.ids, scores.names, result.scores.certified, *ends, strict=True)
    ranked = sorted(rows, key=lambda row: (-row[2], row[0]))
    texts = {}
    for kind, name in _FILES.items():
        decision = result.decision(kind)
        if decision:
            chosen = set(decision.chosen)
            shown = ranked if kind == "threshold" else [row for row in ranked if row[0] in chosen]
            lines = [[*row[:2], *map(repr, row[2:]), *_verdict(kind, row[0] in chosen)] for row in shown]
            header = ["id", "name", "score", *(["score_lower", "score_upper"] if ends else [])] + (
                ["decision"] if kind == "threshold" else []
            )
            texts[name] = _csv([header, *lines])
    content = {
        "certificate": {"format": result.certificate.FORMAT} | plain(result.certificate),
        "digest": result.certificate.digest,
        "journal_head": result.journal_head,
        "simulated_fault": result.injected,
    }
    texts["certificate.json"] = json.dumps(content, indent=1) + "\n"
    if result.injected_residuals:
        texts[_RESIDUALS] = result.injected_residuals
    written = tuple(write_whole(folder / name, text) for name, text in texts.items())
    for name in {*_FILES.values(), _RESIDUALS} - set(texts):
        (folder / name).unlink(missing_ok=True)
    return written


def left_from_earlier(folder: Path) -> tuple[Path, ...]:
    """Files of ours that lie in the folder already."""
    return tuple(folder / name for name in (*_FILES.values(), "certificate.json") if (folder / name).exists())


def stands_committed(result: ScreeningResult) -> bool:
    """Whether the certified decision is committed, by this run or by an earlier one of the same request."""
    return result.committed or (result.committed_earlier is not None and result.story.refused == ("already committed",))


def write_whole(path: Path, text: str) -> Path:
    """Writes a file through a temporary one beside it. Raises: EnvironmentUnusableError."""
    draft = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
            draft = file.name
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o644)
        return Path(draft).replace(path)
    except OSError as error:
        if draft:
            Path(draft).unlink(missing_ok=True)
        raise EnvironmentUnusableError(f"{path} can't be written: {error.strerror}") from error


def _verdict(kind: str, chosen: bool) -> list[str]:
    if kind != "threshold":
        return []
    return ["test" if chosen else "advance without testing"]


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
