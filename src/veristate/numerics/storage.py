"""Storage representations: values as they are held in memory, as they are stored, and the bits they are stored in.

bfloat16 values are held in float32, which they fit exactly; every other representation has a type in numpy.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.formats import round_to_bf16

Representation = Literal["fp64", "fp32", "bf16", "fp16"]
REPRESENTATIONS: tuple[Representation, ...] = get_args(Representation)

_HELD = {"fp64": np.float64, "fp32": np.float32, "bf16": np.float32, "fp16": np.float16}
_BITS = {"fp64": np.uint64, "fp32": np.uint32, "bf16": np.uint16, "fp16": np.uint16}
_LOW_HALF = np.uint32(0xFFFF)


def stored(values: NDArray[Any], representation: Representation) -> NDArray[Any]:
    """Q(values): rounded to `representation`, to nearest with ties to even, in the type it is held in.

    What is stored already keeps its bits, a NaN's included; what is too large becomes infinite.
    Raises: InputError for a representation there isn't.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        held = np.asarray(values, order="C").astype(held_dtype(representation), copy=False)
    if representation != "bf16":
        return held
    exact = (held.view(np.uint32) & _LOW_HALF) == 0
    return held if exact.all() else np.where(exact, held, round_to_bf16(held))


def is_stored(values: NDArray[Any], representation: Representation) -> bool:
    """Whether `values` are held as `representation` asks, and each is a value of it."""
    if values.dtype != held_dtype(representation):
        return False
    return representation != "bf16" or not (_contiguous(values).view(np.uint32) & _LOW_HALF).any()


def storage_bits(values: NDArray[Any], representation: Representation) -> NDArray[Any]:
    """The bits of stored values, as unsigned integers: 16 a value for bf16 and fp16. -0.0 and 0.0 differ in them.

    Raises: InputError for values that are not stored ones.
    """
    if not is_stored(values, representation):
        raise InputError(f"an array of {values.dtype} does not hold {representation} values; convert it with stored()")
    if representation == "bf16":
        return (_contiguous(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return _contiguous(values).view(_BITS[representation])


def from_storage_bits(bits: NDArray[Any], representation: Representation) -> NDArray[Any]:
    """The values that `bits` store, as `storage_bits` gives them. Raises: InputError for bits of another width."""
    if bits.dtype != _BITS[_known(representation)]:
        raise InputError(f"{representation} is stored in {np.dtype(_BITS[representation])}, not {bits.dtype}")
    if representation == "bf16":
        return (_contiguous(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return _contiguous(bits).view(_HELD[representation])


def held_dtype(representation: Representation) -> np.dtype[Any]:
    """The numpy type that `representation` is held in. Raises: InputError for one there isn't."""
    return np.dtype(_HELD[_known(representation)])


def _known(representation: str) -> Representation:
    if representation not in REPRESENTATIONS:
        raise InputError(f"no storage representation {representation!r}; known: {', '.join(REPRESENTATIONS)}")
    return representation


def _contiguous(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.c_contiguous else array.copy(order="C")
