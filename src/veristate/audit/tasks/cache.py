"""What took long to prepare, kept in the user's cache folder. Losing it costs time and changes nothing."""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from veristate.core import canonical_bytes, digest

# Raised when the way something is prepared changes.
EDITION = 1

Arrays = dict[str, NDArray[Any]]


def default_cache() -> Path:
    """$XDG_CACHE_HOME/veristate/tasks, or ~/.cache/veristate/tasks."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / ".cache") / "veristate" / "tasks"


def prepared(name: str, settings: Mapping[str, Any], inputs: tuple[str, ...], make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` gives, read-only, from the cache when they were made before.

    The key is a digest of the edition, the settings, the digests of the inputs and numpy's version: `settings` holds no
    floats and names every other library that decides the bits. A file that can't be read is made again; a folder that
    can't be written is done without.
    """
    key = digest(
        canonical_bytes({"edition": EDITION, "settings": settings, "inputs": inputs, "numpy": version("numpy")})
    )
    path = default_cache() / f"{name}-{key}.npz"
    arrays = _read(path)
    if arrays is None:
        arrays = make()
        with suppress(OSError):
            _write(path, arrays)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _read(path: Path) -> Arrays | None:
    try:
        # Opened here: numpy leaves a file open that it can't read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, BadZipFile):
        return None


def _write(path: Path, arrays: Arrays) -> None:
    """Writes beside the place and moves it there, so that nobody reads a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub takes a name for allow_pickle
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
