"""A new task's folder, which runs as it is and is there to be changed."""

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from veristate.core import EnvironmentUnusableError, InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new_task(folder: Path) -> Path:
    """The folder of the new task, named as its last part. Raises: InputError when it exists or can't be a name."""
    if not _NAME.fullmatch(folder.name):
        raise InputError(f"{folder.name!r} can't be a task's name; use letters, digits, - and _")
    if folder.exists():
        raise InputError(f"{folder} exists; give a new folder")
    try:
        with as_file(files("veristate.research.tasks") / "starter") as starter:
            shutil.copytree(starter, folder, ignore=shutil.ignore_patterns("__pycache__"))
        toml = folder / "task.toml"
        toml.write_text(toml.read_text(encoding="utf-8").replace("NAME", folder.name, 1), encoding="utf-8")
    except OSError as error:
        raise EnvironmentUnusableError(f"{folder}: {error.strerror or error}; choose another place") from error
    return folder
