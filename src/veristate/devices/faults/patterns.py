"""Single patterns, as simulations: bit flips, a whole row, a tile, a stuck lane, recorded residuals."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.faults.model import Event, Patch, Site, in_float32


@dataclass(slots=True)
class BitFlips:
    """`bits` flips in one element's float32 (or, where the low half is zero, bfloat16) word, in a share of the calls.

    Flips that give NaN or infinity are drawn again: silent faults are finite.
    """

    bits: int
    share: float = 0.02

    def patch(self, site: Site, Y: NDArray[np.float32], rng: np.random.Generator) -> Patch | None:
        """The patch of this call."""
        if not Y.size or rng.random() >= self.share:
            return None
        row, column = int(rng.integers(Y.shape[0])), int(rng.integers(Y.shape[1]))
        word = Y[row, column].view(np.uint32)
        low = 16 if not np.any(Y.view(np.uint32) & np.uint32(0xFFFF)) else 0
        while True:
            mask = np.uint32(sum(1 << int(b) for b in rng.choice(np.arange(low, 32), self.bits, replace=False)))
            value = (word ^ mask).view(np.float32)
            if np.isfinite(value):
                return Patch(rows=np.array([row]), columns=np.array([column]), values=value.reshape(1, 1))


@dataclass(slots=True)
class Rectangle:
    """A rectangle of rows and columns whose values are moved or replaced, in a share of the calls.

    `height` and `width` of 0 mean the whole call's. `stuck` replaces the values by one constant, else they are moved by
    up to `size` times the mean |Y|.
    """

    height: int
    width: int
    size: float = 1.0
    stuck: bool = False
    share: float = 0.02

    def patch(self, site: Site, Y: NDArray[np.float32], rng: np.random.Generator) -> Patch | None:
        """The patch of this call."""
        if not Y.size or rng.random() >= self.share:
            return None
        rows = _interval(Y.shape[0], self.height, rng)
        columns = _interval(Y.shape[1], self.width, rng)
        scale = np.float32(self.size * float(np.abs(Y).mean(dtype=np.float64)))
        shape = (len(rows), len(columns))
        if self.stuck:
            return Patch(rows=rows, columns=columns, values=np.full(shape, scale, dtype=np.float32))
        moves = scale * rng.uniform(-1.0, 1.0, shape)
        return Patch(rows=rows, columns=columns, values=in_float32(Y[np.ix_(rows, columns)] + moves))


# Rows, columns and residuals of one call.
Record = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]


@dataclass(slots=True)
class Replay:
    """Recorded residuals put back at the calls they came from. A record outside a call's shape is left out."""

    records: dict[int, Record]

    def patch(self, site: Site, Y: NDArray[np.float32], rng: np.random.Generator) -> Patch | None:
        """The patch of this call."""
        found = self.records.get(site.number)
        if found is None:
            return None
        rows, columns, residuals = found
        inside_rows, inside_columns = rows < Y.shape[0], columns < Y.shape[1]
        rows, columns = rows[inside_rows], columns[inside_columns]
        if not len(rows) or not len(columns):
            return None
        moved = Y[np.ix_(rows, columns)] + residuals[np.ix_(inside_rows, inside_columns)]
        return Patch(rows=rows, columns=columns, values=in_float32(moved))


def _interval(length: int, width: int, rng: np.random.Generator) -> NDArray[np.intp]:
    width = min(width or length, length)
    first = int(rng.integers(length - width + 1))
    return np.arange(first, first + width, dtype=np.intp)


def write_residuals(events: list[Event], write: Callable[[str], object]) -> None:
    """Writes events as the lines that `read_residuals` takes: one JSON object a call."""
    for event in events:
        record = {
            "call": event.site.number,
            "layer": event.site.layer,
            "rows": event.rows.tolist(),
            "columns": event.columns.tolist(),
            "residuals": event.residuals.tolist(),
        }
        write(json.dumps(record) + "\n")


def read_residuals(path: Path) -> Replay:
    """The recorded residuals of a file with one JSON object a line: call, rows, columns, residuals.

    Raises: InputError naming the line.
    """
    records: dict[int, Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file of residual records"
        raise InputError(f"--inject replay:{path}: {reason}") from error
    for number, line in enumerate(lines, 1):
        try:
            call, record = _record(json.loads(line))
            if call in records:
                raise ValueError(f"call {call} stands on an earlier line too")
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise InputError(f"{path} line {number} is no residual record: {error}") from error
        records[call] = record
    return Replay(records=records)


def _record(content: dict[str, Any]) -> tuple[int, Record]:
    """The call and the record of one line. Raises: ValueError, KeyError, TypeError or OverflowError."""
    (call,), rows, columns = (_indices(c) for c in ([content["call"]], content["rows"], content["columns"]))
    residuals = np.array(content["residuals"], dtype=np.float64).reshape(len(rows), len(columns))
    if not np.isfinite(residuals).all():
        raise ValueError("residuals must be finite")
    return int(call), (rows, columns, residuals)


def _indices(values: Any) -> NDArray[np.intp]:
    if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
        raise ValueError("call, rows and columns must be whole numbers of 0 or more")
    return np.array(values, dtype=np.intp)
