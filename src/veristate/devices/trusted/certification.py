"""A certified pass as a run hears of it from its trusted process: the plan before, the outcome after."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.decisions import Box
from veristate.decisions.enclosures import Strategy, Terms
from veristate.numerics import array_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """The strategy, the reason in words, and the trusted side's predicted seconds (None where nothing was weighed).
    `followed` is false for models through which no bounds and no memoised bits are known.
    """

    strategy: Strategy
    reason: str
    predicted: float | None
    followed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certification:
    """What the trusted process says of a pass. Under C1 `box` holds proven enclosures [m, n], `done` [m, n] the units
    recomputed, and each round how many candidates it found open and how many units it asked for; under C2 `values` are
    the bits [m, n], float32. `evaluated` values of exports were wrong and computed anew. `records` repeat every probe;
    they are told after use alone.
    """

    strategy: Strategy
    reason: str
    terms: Terms
    predicted: float
    spent: float
    rows_checked: int
    records: tuple[Mapping[str, str], ...]
    ended: str
    rounds: tuple[tuple[tuple[int, ...], int], ...]
    box: Box | None
    done: NDArray[np.bool_] | None
    values: NDArray[np.float32] | None
    evaluated: int = 0

    def to_message(self) -> tuple[dict[str, Any], bytes]:
        """Header and payload for the channel."""
        arrays: dict[str, NDArray[Any] | None] = {"done": self.done, "values": self.values}
        if self.box is not None:
            arrays |= {"lower": self.box.lower, "upper": self.box.upper}
        held = {name: array for name, array in arrays.items() if array is not None}
        index = [[name, a.dtype.str, list(a.shape)] for name, a in held.items()]
        told = {
            "strategy": self.strategy,
            "reason": self.reason,
            "terms": [self.terms.kind, self.terms.delta, self.terms.certifies],
            "predicted": self.predicted,
            "spent": self.spent,
            "rows_checked": self.rows_checked,
            "evaluated": self.evaluated,
            "records": [dict(record) for record in self.records],
            "ended": self.ended,
            "rounds": [[list(opened), asked] for opened, asked in self.rounds],
        }
        return {"certified": told, "arrays": index}, b"".join(array_bytes(a) for a in held.values())

    @classmethod
    def from_message(cls, header: Mapping[str, Any], payload: bytes | bytearray) -> "Certification":
        """The certification that `to_message` sent."""
        told, arrays, offset = dict(header["certified"]), {}, 0
        for name, dtype, shape in header["arrays"]:
            count = int(np.prod(shape))
            found = np.frombuffer(payload, dtype=np.dtype(dtype), count=count, offset=offset)
            arrays[name] = found.reshape(shape)
            offset += found.nbytes
        kind, delta, certifies = told.pop("terms")
        box = Box(lower=arrays["lower"], upper=arrays["upper"]) if "lower" in arrays else None
        rounds = tuple((tuple(opened), asked) for opened, asked in told.pop("rounds"))
        return cls(
            **told | {"records": tuple(told["records"])},
            terms=Terms(kind=kind, delta=delta, certifies=certifies),
            rounds=rounds,
            box=box,
            done=arrays.get("done"),
            values=arrays.get("values"),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsAsked:
    """What a suspect device is to export of one member over some batches: the rows of the stretch by name, ascending,
    how wide each is, and the message passing's depth.
    """

    member: int
    batches: range
    depth: int
    places: Mapping[str, NDArray[np.intp]]
    widths: Mapping[str, int]

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shape of the rows of each name, in the order in which they lie in memory."""
        return {name: (len(place), self.widths[name]) for name, place in self.places.items()}

    @property
    def size(self) -> int:
        """How many bytes all of them take in float32."""
        return sum(4 * rows * width for rows, width in self.shapes.values())

    def rooms(self, memory: memoryview) -> dict[str, NDArray[np.float32]]:
        """The arrays of each name in that memory."""
        found, offset = {}, 0
        for name, (rows, width) in self.shapes.items():
            flat = np.frombuffer(memory, dtype="<f4", count=rows * width, offset=offset)
            found[name] = flat.reshape(rows, width)
            offset += flat.nbytes
        return found

    def to_message(self) -> tuple[dict[str, Any], bytes]:
        """Header and payload for the channel."""
        told = {
            "member": self.member,
            "batches": [self.batches.start, self.batches.stop],
            "depth": self.depth,
            "names": list(self.places),
            "counts": [len(place) for place in self.places.values()],
            "widths": dict(self.widths),
        }
        return {"export": told}, b"".join(place.astype("<i8").tobytes() for place in self.places.values())

    @classmethod
    def from_message(cls, header: Mapping[str, Any], payload: bytes | bytearray) -> "RowsAsked":
        """What `to_message` sent."""
        told = header["export"]
        rows = np.frombuffer(payload, dtype="<i8").astype(np.intp)
        parts = np.split(rows, np.cumsum(told["counts"])[:-1])
        return cls(
            member=told["member"],
            batches=range(*told["batches"]),
            depth=told["depth"],
            places=dict(zip(told["names"], parts, strict=True)),
            widths=told["widths"],
        )
