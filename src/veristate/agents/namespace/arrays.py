"""Arrays as memory and windows onto it, so that aliases and views still share their memory after loading.

numpy's own way copies every view. Here the array at the end of the chain of bases is written once and each view of it
as offset, strides and shape. numpy is never imported for this: without it there are no arrays, and a pickle that holds
some brings it along.
"""

import array
import pickle
import sys
from importlib import import_module
from typing import Any

Reduced = tuple[Any, ...]


def reduce_array(value: Any) -> Reduced | None:
    """How the pickler is to write the ndarray `value`; None when numpy's own way is right for it.

    Raises: pickle.PicklingError when its memory belongs to something that a copy would part from.
    """
    numpy = sys.modules["numpy"]
    owner, source = _owner(value, numpy)
    if source is not None:
        return _reduce_over(value, source, numpy)
    axes = _axes(owner)
    if value.dtype.hasobject or not value.dtype.itemsize:
        return _reduce_objects(value, owner)
    if not _dense(owner, axes):
        return None
    if value is owner or not value.size:
        return _reduce_owner(value, numpy)
    offset = _address(value) - _address(owner)
    return _view, (owner, offset, value.strides, value.shape, value.dtype, value.flags.writeable)


def reduce_frame(manager: Any) -> Reduced:
    """How the pickler is to write what holds the columns of a pandas frame or series: with memory of its own.

    Frames that share memory copy it before they write, and know of each other by weak references that no pickle
    holds. Restored as sharing, a write to one would show in the other.
    """
    twin = manager.copy(deep=False)
    twin.axes = list(manager.axes)
    twin.blocks = tuple(block.make_block_same_class(_own(block.values)) for block in manager.blocks)
    return twin.__reduce_ex__(5)  # type: ignore[no-any-return]


def _own(values: Any) -> Any:
    # "K": sums over another memory layout would not give the same bits.
    return values.copy(order="K") if type(values).__module__ == "numpy" else values.copy()


def _owner(value: Any, numpy: Any) -> tuple[Any, Any]:
    """The array at the end of the chain of bases, and the Python object whose memory it uses, if any."""
    while True:
        base = value.base
        if type(base).__name__ == "DummyArray":  # what numpy.lib.stride_tricks puts between
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if not isinstance(base, numpy.ndarray):
            break
        value = base
    if isinstance(base, bytes | bytearray | array.array):
        return value, base
    if type(base).__module__.partition(".")[0] in ("torch", "mmap"):
        kind = f"{type(base).__module__}.{type(base).__qualname__}"
        raise pickle.PicklingError(f"an array on the memory of a {kind}, from which a copy would part it; copy it")
    return value, None


def _address(value: Any) -> int:
    return int(value.__array_interface__["data"][0])


def _axes(value: Any) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost; those of length one, which have no place, first."""
    return tuple(sorted(range(value.ndim), key=lambda i: (value.shape[i] > 1, -value.strides[i])))


def _dense(value: Any, axes: tuple[int, ...]) -> bool:
    return bool(value.transpose(axes).flags.c_contiguous)


def _memory(value: Any, numpy: Any) -> Any:
    """The bytes of an array without gaps, in the order of memory; they share its memory."""
    flat = numpy.asarray(value).transpose(_axes(value)).reshape(-1)
    return flat.view(numpy.uint8)


def _reduce_owner(value: Any, numpy: Any) -> Reduced:
    axes = _axes(value) if value.size else tuple(range(value.ndim))
    shape = tuple(value.shape[i] for i in axes)
    memory = pickle.PickleBuffer(_memory(value, numpy)) if value.size else b""
    return _owned, (memory, shape, axes, value.dtype, value.flags.writeable)


def _reduce_over(value: Any, source: Any, numpy: Any) -> Reduced | None:
    if not value.size or not value.dtype.itemsize:
        return None
    offset = _address(value) - _address(numpy.frombuffer(source, numpy.uint8))
    return _over, (source, offset, value.strides, value.shape, value.dtype, value.flags.writeable)


def _reduce_objects(value: Any, owner: Any) -> Reduced | None:
    """A view of Python objects counts in elements. The owner goes numpy's way, which keeps C or Fortran order."""
    ordered = owner.flags.c_contiguous or owner.flags.f_contiguous
    if value is owner or not value.size or value.dtype != owner.dtype or not value.dtype.itemsize or not ordered:
        return None
    offset = (_address(value) - _address(owner)) // value.dtype.itemsize
    return _object_view, (owner, offset, value.strides, value.shape, value.flags.writeable)


def _owned(memory: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any, writeable: bool) -> Any:
    """An array that owns its memory, as it did: one that lay on the buffer could not be told from a view."""
    numpy = import_module("numpy")
    if 0 in shape:
        value = numpy.empty(tuple(shape[axes.index(i)] for i in range(len(axes))), dtype)
    else:
        laid = numpy.frombuffer(memory, numpy.uint8).view(dtype).reshape(shape)
        value = laid.transpose([axes.index(i) for i in range(len(axes))]).copy(order="K")
    value.flags.writeable = writeable
    return value


def _view(owner: Any, offset: int, strides: Any, shape: Any, dtype: Any, writeable: bool) -> Any:
    numpy = import_module("numpy")
    guarded = writeable and not owner.flags.writeable  # made read-only after the view was taken
    if guarded:
        owner.flags.writeable = True
    value = numpy.ndarray(shape, dtype, buffer=_memory(owner, numpy), offset=offset, strides=strides)
    value.flags.writeable = writeable
    if guarded:
        owner.flags.writeable = False
    return value


def _over(source: Any, offset: int, strides: Any, shape: Any, dtype: Any, writeable: bool) -> Any:
    numpy = import_module("numpy")
    value = numpy.ndarray(shape, dtype, buffer=source, offset=offset, strides=strides)
    value.flags.writeable = writeable
    return value


def _object_view(owner: Any, offset: int, strides: Any, shape: Any, writeable: bool) -> Any:
    tricks = import_module("numpy.lib.stride_tricks")
    flat = owner.reshape(-1, order="A")
    return tricks.as_strided(flat[offset:], shape, strides, writeable=writeable)
