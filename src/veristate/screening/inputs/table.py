"""The table of candidates: read whole and checked before anything is computed."""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from veristate.core import InputError

_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A candidate as the table gives it. `line` is its line in the file, the header being line 1."""

    line: int
    id: str
    smiles: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows in their order, and the columns of the file."""

    rows: tuple[Row, ...]
    columns: tuple[str, ...]


def read_table(path: Path, id_column: str, smiles_column: str) -> Table:
    """The table of a CSV file.

    Raises: InputError for a file that can't be read, a missing column, no rows, and missing or repeated identifiers,
    naming column and lines.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or []
            for column in (id_column, smiles_column):
                if column not in columns:
                    raise InputError(
                        f"{path} has no column {column!r}; it has {', '.join(map(repr, columns)) or 'none'} "
                        "(--id-column and --smiles-column name them)"
                    )
            rows = tuple(
                Row(
                    line=reader.line_num,
                    id=(record[id_column] or "").strip(),
                    smiles=(record[smiles_column] or "").strip(),
                    name=(record.get("name") or "").strip(),
                )
                for record in reader
            )
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a UTF-8 CSV table: {error}") from error
    return Table(rows=_identified(path, rows, id_column), columns=tuple(columns))


def _identified(path: Path, rows: tuple[Row, ...], id_column: str) -> tuple[Row, ...]:
    if not rows:
        raise InputError(f"{path} holds no candidates")
    missing = [row.line for row in rows if not row.id]
    if missing:
        raise InputError(f"{path}: no {id_column!r} in {_lines(missing)}")
    repeated = [name for name, count in Counter(row.id for row in rows).items() if count > 1]
    if repeated:
        lines = [row.line for row in rows if row.id == repeated[0]]
        raise InputError(
            f"{path}: {len(repeated)} identifiers appear more than once; {repeated[0]!r} in {_lines(lines)}"
        )
    return rows


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED_AT_MOST]))
    more = f" and {len(numbers) - _NAMED_AT_MOST} more" if len(numbers) > _NAMED_AT_MOST else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"
