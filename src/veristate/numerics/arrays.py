"""Arrays as stored bytes: raw little-endian values in C order, beside a small record of their dtype and shape."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import ArrayRef, InputError, TamperError, digest

_DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint16", "float32", "float64")


def array_bytes(array: NDArray[Any]) -> bytes:
    """The raw little-endian bytes of `array` in C order."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def array_ref(array: NDArray[Any]) -> ArrayRef:
    """The record of `array`: the digest of its bytes, its dtype and shape. Raises: InputError for other dtypes."""
    if array.dtype.name not in _DTYPES:
        raise InputError(f"an array of {array.dtype.name} can't be kept; convert it to one of {', '.join(_DTYPES)}")
    return ArrayRef(blob=digest(array_bytes(array)), dtype=array.dtype.name, shape=tuple(map(int, array.shape)))


def put_array(put: Callable[[bytes], str], array: NDArray[Any]) -> ArrayRef:
    """`array` stored through `put` (which returns the digest of the bytes), and its record."""
    ref = array_ref(array)
    put(array_bytes(array))
    return ref


def array_from(data: bytes, ref: ArrayRef) -> NDArray[Any]:
    """The array that `data` holds. Raises: TamperError when the bytes don't fit the record."""
    if ref.dtype not in _DTYPES or digest(data) != ref.blob:
        raise TamperError(f"the bytes of array {ref.blob[:12]} ({ref.dtype}) are not those that were recorded")
    dtype = np.dtype(ref.dtype).newbyteorder("<")
    if any(length < 0 for length in ref.shape) or math.prod(ref.shape) * dtype.itemsize != len(data):
        raise TamperError(f"{len(data)} bytes of array {ref.blob[:12]} are not {ref.dtype} of shape {ref.shape}")
    return np.frombuffer(data, dtype=dtype).reshape(ref.shape)
