"""Saved values from files that the user brings: `.npy`, `.npz` and safetensors."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from veristate.audit.captures.saved import Provenance, Saved
from veristate.core import InputError, Site
from veristate.numerics import Representation

# The types of safetensors that hold captures; bfloat16 has no type in numpy and comes as its bits.
_STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U16": "<u2"}


def read_saved(
    path: Path,
    *,
    site: Site,
    array: str = "",
    representation: Representation | None = None,
    labels: Sequence[Sequence[str]] = (),
    provenance: Provenance | None = None,
) -> Saved:
    """The values that a file holds, as `Saved.of` takes them; `array` names one of several in a file.

    A safetensors file tells bfloat16 by itself; the other two hold it as float32 values or uint16 bits, and
    `representation` says so.
    Raises: InputError for a file that can't be read, holds no such array, or holds pickled objects.
    """
    readers = {".npy": _read_npy, ".npz": _read_npz, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        raise InputError(f"{path}: captures are read from {', '.join(readers)} files, and this is none of them")
    try:
        values, told = readers[path.suffix](path, array)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, safetensors.SafetensorError) as error:
        raise InputError(f"{path}: can't be read as {path.suffix}: {error}") from error
    if told and representation not in (None, told):
        raise InputError(f"{path}: the file says {told}, and {representation} was asked for; leave it out")
    return Saved.of(values, site=site, representation=told or representation, labels=labels, provenance=provenance)


def _read_npy(path: Path, array: str) -> tuple[NDArray[Any], None]:
    if array:
        raise InputError(f"{path}: a .npy file holds one array without a name; leave out {array!r}")
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise InputError(f"{path}: is an archive of arrays; name it .npz")
    return loaded, None


def _read_npz(path: Path, array: str) -> tuple[NDArray[Any], None]:
    archive = np.load(path, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise InputError(f"{path}: is a single array; name it .npy")
    with archive:
        return archive[_chosen(path, array, archive.files)], None


def _read_safetensors(path: Path, array: str) -> tuple[NDArray[Any], Representation | None]:
    tensors = dict(safetensors.deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    found = tensors[_chosen(path, array, list(tensors))]
    kind, shape = found["dtype"], tuple(found["shape"])
    if kind not in _STORED:
        raise InputError(f"{path}: tensors of {kind} are no captures; known: {', '.join(_STORED)}")
    values = np.frombuffer(found["data"], dtype=_STORED[kind], count=math.prod(shape)).reshape(shape)
    return values, "bf16" if kind == "BF16" else None


def _chosen(path: Path, array: str, names: list[str]) -> str:
    if array in names:
        return array
    if array or len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise InputError(f"{path}: holds {len(names)} arrays ({listed}) and no {array!r}; name one of them")
    return names[0]
