"""The data folder: what VERISTATE_DATA names. The task says who reads it: nobody, its evaluator, its worker too."""

import os
from collections.abc import Mapping
from pathlib import Path

from veristate.core import EnvironmentUnusableError

VARIABLE = "VERISTATE_DATA"


def data_folder(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The folder that this environment names, or nothing."""
    named = environment.get(VARIABLE)
    return (Path(named),) if named else ()


def require_data(task: str) -> None:
    """Returns when the data folder is there. Raises: EnvironmentUnusableError saying what to set for this task."""
    folder = data_folder()
    if not folder:
        raise EnvironmentUnusableError(
            f"task {task} reads a data folder: set {VARIABLE} to the one that holds its data"
        )
    if not folder[0].is_dir():
        raise EnvironmentUnusableError(
            f"task {task} reads a data folder, and {VARIABLE} names {folder[0]}, which is none"
        )
