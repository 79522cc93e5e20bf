"""Values that one execution left at one computation site, and where they come from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, Record, Site, canonical_bytes, digest
from veristate.numerics import Representation, array_bytes, from_storage_bits, is_stored, storage_bits

Labels = tuple[tuple[str, ...], ...]

_OF_DTYPE: dict[str, Representation] = {"float64": "fp64", "float32": "fp32", "float16": "fp16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Record):
    """What made the values. `model` and `inputs` are digests by name, `order` is the digest of the document order,
    `settings` what the device computed with; `constructed` says that a simulator or a hand made them, and no device.
    """

    FORMAT: ClassVar[str] = "veristate.provenance/1"
    model: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    order: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    constructed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Saved:
    """`values` at `site`, held as `representation` asks. `labels` names the coordinates along each axis, `()` where
    an axis has positions alone; those of the last axis are the document order.
    """

    values: NDArray[Any]
    representation: Representation
    site: Site
    labels: Labels
    provenance: Provenance

    @classmethod
    def of(
        cls,
        values: NDArray[Any],
        *,
        site: Site,
        representation: Representation | None = None,
        labels: Sequence[Sequence[str]] = (),
        provenance: Provenance | None = None,
    ) -> Self:
        """A copy of `values` that nobody can change, with the digest of the document order where labels tell it.

        Without `representation`, that of the array's type; bfloat16 must be named, and is given in float32 or in bits.
        Raises: InputError for a type that fits no representation, values that the representation doesn't hold, and
        labels that don't fit the shape, repeat, or are not those of the provenance's document order.
        """
        held = _held(np.asarray(values), representation)
        kind = representation or _OF_DTYPE[held.dtype.name]
        held.flags.writeable = False
        names = _labels(labels, held.shape)
        made = provenance or Provenance()
        if names[-1:] and names[-1]:
            made = _with_order(made, names[-1])
        return cls(values=held, representation=kind, site=site, labels=names, provenance=made)

    @property
    def bits_digest(self) -> str:
        """SHA-256 of the stored bits, little-endian, in C order."""
        return digest(array_bytes(storage_bits(self.values, self.representation)))

    def coordinate(self, index: Iterable[int]) -> str:
        """The name of a coordinate for a message: its position, and its labels where there are any."""
        where = [int(i) for i in index]
        position = ", ".join(map(str, where))
        named = [names[i] for names, i in zip(self.labels, where, strict=True) if names]
        return f"({position}: {', '.join(named)})" if named else f"({position})"


def _held(values: NDArray[Any], representation: Representation | None) -> NDArray[Any]:
    """A copy of `values` in the machine's byte order. Raises: InputError when it isn't what was named."""
    native = values.astype(values.dtype.newbyteorder("="), order="C", copy=True)
    if representation is None and native.dtype.name not in _OF_DTYPE:
        raise InputError(
            f"an array of {native.dtype} is no capture: give float64, float32 or float16 values, or name the "
            "representation bf16 and give float32 values or uint16 bits"
        )
    if representation == "bf16" and native.dtype == np.uint16:
        return from_storage_bits(native, "bf16")
    if representation is not None and not is_stored(native, representation):
        raise InputError(
            f"an array of {native.dtype} was given as {representation}, and not all its values are of that "
            "representation; give the values as they were stored"
        )
    return native


def _labels(labels: Sequence[Sequence[str]], shape: tuple[int, ...]) -> Labels:
    names = tuple(tuple(axis) for axis in labels) or ((),) * len(shape)
    if len(names) != len(shape):
        raise InputError(f"labels were given for {len(names)} axes of an array with {len(shape)}")
    for axis, (given, length) in enumerate(zip(names, shape, strict=True)):
        if given and len(given) != length:
            raise InputError(f"axis {axis} has {length} coordinates and {len(given)} labels")
        if len(set(given)) != len(given):
            twice = next(name for name in given if given.count(name) > 1)
            raise InputError(f"label {twice!r} stands twice on axis {axis}; every coordinate needs its own")
    return names


def _with_order(provenance: Provenance, documents: tuple[str, ...]) -> Provenance:
    found = digest(canonical_bytes(list(documents)))
    if provenance.order not in ("", found):
        raise InputError(
            f"the labels of the last axis have the order digest {found[:12]}, the provenance says "
            f"{provenance.order[:12]}; they are of different document orders"
        )
    return replace(provenance, order=found)
