"""`veristate data`: which of the audit tasks' data this machine has."""

import json
from dataclasses import asdict, dataclass

import typer

from veristate.interfaces.cli import options as given


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One file of one task. `sha256` is of the file as it is stored; `known` that it holds the bytes which tests and
    figures were made with. Of an absent file only `missing` is said.
    """

    task: str
    file: str
    licence: str
    place: str = ""
    rows: int | None = None
    sha256: str = ""
    known: bool = False
    missing: str = ""


def command(json_output: given.Json = False) -> None:
    """List the audit tasks' data: what is found and where, with rows, licence and SHA-256; exit 0 even if some lack."""
    lines = _lines()
    if json_output:
        typer.echo(json.dumps({"files": [asdict(line) for line in lines]}))
        return
    for task in dict.fromkeys(line.task for line in lines):
        for text in _said(task, [line for line in lines if line.task == task]):
            typer.echo(text)
    absent = list(dict.fromkeys(line.task for line in lines if line.missing))
    tasks = len({line.task for line in lines})
    typer.echo(
        f"{tasks - len(absent)} of {tasks} tasks can run" + (f"; without data: {', '.join(absent)}" * bool(absent))
    )


def _lines() -> list[Line]:
    from veristate.audit.tasks import FILES, Data, is_known
    from veristate.core import VeristateError, digest

    data, lines = Data.from_environment(), []
    for task, files in FILES.items():
        for file in files:
            found = data.find(file)
            if found is None:
                lines.append(Line(task=task, file=file.name, licence=file.licence, missing=data.missing(file)))
                continue
            try:
                lines.append(
                    Line(
                        task=task,
                        file=found.path.name,
                        licence=file.licence,
                        place=found.place,
                        rows=found.rows(file),
                        sha256=digest(found.stored()),
                        known=is_known(file, found),
                    )
                )
            except VeristateError as error:
                lines.append(Line(task=task, file=file.name, licence=file.licence, missing=str(error)))
    return lines


def _said(task: str, lines: list[Line]) -> list[str]:
    said = [task + (" (incomplete)" if any(line.missing for line in lines) else "")]
    for line in lines:
        if line.missing:
            said.append(f"  missing {line.missing}")
            continue
        rows = "" if line.rows is None else f"{line.rows:,} rows, "
        other = "" if line.known else "; other bytes than the ones tests and figures were made with"
        said.append(f"  {line.file}: {rows}{line.licence}, from {line.place}")
        said.append(f"    sha256 {line.sha256}{other}")
    return said
