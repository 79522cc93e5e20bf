"""Where a task's data lies: in an installed package that ships it, else in the folder the user names.

Nothing is downloaded, and nothing outside the package's files and that folder is read.
"""

import csv
import gzip
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError, digest

VARIABLE = "VERISTATE_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A file that an installed package carries: `path` inside the import package `module` of `distribution`."""

    distribution: str
    module: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file that tasks read.

    `name` is its path in the data folder, plain or with ".gz" after it; `also` are names that its publisher uses.
    `content` is the SHA-256 of its decompressed bytes as the tests and figures were made with them, "" where there is
    no such file here. `header` is how its first line begins where that is no row; `array` names the array of an
    npz whose length is its rows.
    """

    name: str
    licence: str
    obtain: str
    content: str
    also: tuple[str, ...] = ()
    packaged: Packaged | None = None
    header: str = ""
    array: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file on this machine and where it was found: a package with its version, or the data folder."""

    path: Path
    place: str

    def stored(self) -> bytes:
        """Its bytes as they are stored. Raises: EnvironmentUnusableError when they can't be read."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise EnvironmentUnusableError(f"{self.path}: {error.strerror}; see to its permissions") from error

    def content(self) -> bytes:
        """Its bytes, decompressed. Raises: InputError for a gzip file that is broken."""
        stored = self.stored()
        if self.path.suffix != ".gz":
            return stored
        try:
            return gzip.decompress(stored)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.path} is no whole gzip file: {error}") from error

    def rows(self, file: DataFile) -> int | None:
        """How many rows it holds, None for a file that is no table. Raises: InputError for a file that is broken."""
        content = self.content()
        if file.array:
            return len(_arrays(content, str(self.path), (file.array,))[file.array])
        if file.name.endswith(".pt"):
            return None
        lines = sum(bool(line.strip()) for line in content.splitlines())
        return lines - bool(file.header and content.startswith(file.header.encode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Where to look for data. `folder` is None when the user named none: then packages alone are looked into."""

    folder: Path | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Data":
        """The folder that VERISTATE_DATA names, or none. Raises: EnvironmentUnusableError when it is no folder."""
        named = environment.get(VARIABLE, "")
        if not named:
            return cls(folder=None)
        if not Path(named).is_dir():
            raise EnvironmentUnusableError(f"{VARIABLE}={named}: there is no such folder")
        return cls(folder=Path(named))

    def find(self, file: DataFile) -> FoundFile | None:
        """The file, in its package or in the folder, or None. A link that leads out of the folder is not followed."""
        return _in_package(file.packaged) or self._in_folder(file)

    def read(self, file: DataFile, task: str) -> bytes:
        """The file's bytes, decompressed. Raises: EnvironmentUnusableError saying what is missing and who has it."""
        found = self.find(file)
        if found is None:
            raise EnvironmentUnusableError(f"the task {task} lacks {self.missing(file)}")
        return found.content()

    def table(self, file: DataFile, task: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
        """The rows of a CSV file. Raises: as `read`, and InputError for a table without one of the columns."""
        reader = csv.DictReader(StringIO(self.read(file, task).decode()))
        for column in columns:
            if column not in (reader.fieldnames or ()):
                raise InputError(f"{file.name}, of the task {task}, has no column {column!r}")
        return list(reader)

    def arrays(self, file: DataFile, task: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        """Those arrays of an npz file. Raises: as `read`, and InputError for a file that is none or lacks one."""
        return _arrays(self.read(file, task), file.name, names)

    def missing(self, file: DataFile) -> str:
        """What is missing, where it was looked for, and where it can be obtained, in words."""
        why = f"it is not in {self.folder} ({VARIABLE})" if self.folder else f"{VARIABLE} names no folder to look in"
        return f"{file.name}: {why}; {file.obtain}"

    def _in_folder(self, file: DataFile) -> FoundFile | None:
        if self.folder is None:
            return None
        inside = self.folder.resolve()
        for name in (file.name, *file.also):
            for path in (self.folder / name, self.folder / f"{name}.gz"):
                if path.is_file() and path.resolve().is_relative_to(inside):
                    return FoundFile(path=path, place=str(self.folder))
        return None


def _in_package(packaged: Packaged | None) -> FoundFile | None:
    if packaged is None:
        return None
    spec = find_spec(packaged.module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / packaged.path
    if not path.is_file():
        return None
    try:
        place = f"{packaged.distribution} {version(packaged.distribution)}"
    except PackageNotFoundError:
        place = packaged.distribution
    return FoundFile(path=path, place=place)


def _arrays(content: bytes, name: str, wanted: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    try:
        with np.load(BytesIO(content), allow_pickle=False) as held:
            return {array: held[array] for array in wanted}
    except (ValueError, KeyError, EOFError, BadZipFile, AttributeError, TypeError) as error:
        raise InputError(f"{name} is no npz with the arrays {', '.join(wanted)}: {error}") from error


def is_known(file: DataFile, found: FoundFile) -> bool:
    """Whether the file found holds the bytes that the tests and figures were made with."""
    return bool(file.content) and digest(found.content()) == file.content
