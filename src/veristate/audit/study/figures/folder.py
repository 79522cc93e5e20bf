"""What a run leaves in its folder beside the executions: the tables, each written whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.audit.study.figures.tables import Table
from veristate.audit.study.recorded import Executed, read_recorded
from veristate.core import InputError

TABLES, RESULTS, STUDY = "tables", "results.json", "study.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """A run as it was left: its finished executions, and its results where it wrote any."""

    folder: Path
    executed: Mapping[str, Executed]
    results: Mapping[str, Any]


def texts_of(folder: Path, study: str, tables: Mapping[str, Table], results: Mapping[str, Any]) -> dict[Path, str]:
    """What a run's folder is to hold beside its executions: the study's text, a CSV for each table, and the results as
    JSON.
    """
    texts = {folder / STUDY: study, folder / RESULTS: json.dumps(results, indent=1, allow_nan=False) + "\n"}
    return texts | {folder / TABLES / f"{name}.csv": table.csv() for name, table in tables.items()}


def read_run(folder: Path) -> RunFolder:
    """A run's folder. Raises: EnvironmentUnusableError where no run was; InputError for results that are no JSON."""
    executed = read_recorded(folder)
    path = folder / RESULTS
    try:
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}; run the study again to write it anew") from error
    return RunFolder(folder=folder, executed=executed, results=results)
