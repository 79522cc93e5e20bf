"""The whole namespace in one pickle, and back into the living dictionary.

One dump, because variables share objects. The namespace itself is written as a token, so that whatever refers to it
(functions above all, wherever they are kept) refers to the living one after loading.
"""

import builtins
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle

from veristate.agents.namespace.reducers import fresh, reduce_special
from veristate.agents.namespace.refusals import reason_against, reduce_refused

IN_BAND_UPPER = 2**16
_THE_NAMESPACE = "namespace"


def dump(namespace: dict[str, Any], beside: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle of all variables and of `beside`, and the buffers that stay out of it, in their order.

    Raises: whatever refuses to be pickled; `measure` says in which variable it is.
    """
    buffers: list[memoryview] = []

    def in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= IN_BAND_UPPER:
            buffers.append(raw)
        return raw.nbytes < IN_BAND_UPPER

    content = {_interned(name): value for name, value in namespace.items() if name != "__builtins__"}
    stream = io.BytesIO()
    with _hidden_main():
        _Pickler(stream, namespace, in_band).dump((content, beside))
    return stream.getvalue(), buffers


def measure(namespace: dict[str, Any], value: Any) -> tuple[int, str]:
    """The size of `value` when pickled alone and an empty string, or zero and the reason why it can't be kept."""
    stream = _Count()

    def in_band(buffer: pickle.PickleBuffer) -> bool:
        stream.size += buffer.raw().nbytes
        return False

    try:
        with _hidden_main():
            _Pickler(stream, namespace, in_band).dump(value)
    except Exception as error:  # whatever the objects of an agent raise
        return 0, str(error) or type(error).__name__
    return stream.size, ""


def load(namespace: dict[str, Any], data: bytes | bytearray, buffers: list[bytearray]) -> tuple[dict[str, Any], Any]:
    """The content that `refill` puts into `namespace`, and what `dump` was given beside it; nothing changes yet."""
    before = dict(namespace)
    # Classes would be looked up among the living ones and keep every attribute that was added since.
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.clear()
    try:
        content, beside = _Unpickler(io.BytesIO(data), namespace, buffers).load()
    finally:
        refill(namespace, before)
    return content, beside


def refill(namespace: dict[str, Any], content: dict[str, Any]) -> None:
    """Returns when `namespace`, the same dictionary as before, holds `content` and nothing else."""
    namespace.clear()
    namespace.update((_interned(name), value) for name, value in content.items())
    namespace["__builtins__"] = builtins


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, stream: Any, namespace: dict[str, Any], in_band: Callable[[pickle.PickleBuffer], bool]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=in_band)
        self._namespace = namespace
        self._reasons: dict[type, str] = {}
        # Functions made here ask this table for the globals they will have.
        self.globals_ref[id(namespace)] = namespace

    def persistent_id(self, obj: Any) -> str | None:
        return _THE_NAMESPACE if obj is self._namespace else None

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind not in self._reasons:
            self._reasons[kind] = reason_against(kind)
        if self._reasons[kind]:
            return reduce_refused(obj, self._reasons[kind])
        reduced = reduce_special(obj) or super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == 6:
            make, arguments, (attributes, slots), *rest = reduced
            attributes.pop("__slotnames__", None)  # noted by copyreg when an instance was first pickled
            return make, fresh(arguments), (attributes, slots), *rest
        return reduced

    def _dynamic_function_reduce(self, func: types.FunctionType) -> Any:
        """cloudpickle's, with the function's own cells, which functions may share, and without a copy of globals that
        are in the namespace anyway.
        """
        make, (code, base, *_), (state, slots), *rest = super()._dynamic_function_reduce(func)
        slots["__closure__"] = None
        if func.__globals__ is self._namespace:
            slots["__globals__"] = {}
        return make, (code, base, None, None, func.__closure__), (state, slots), *rest


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, namespace: dict[str, Any], buffers: list[bytearray]) -> None:
        super().__init__(stream, buffers=buffers)
        self._namespace = namespace

    def persistent_load(self, pid: Any) -> Any:
        if pid != _THE_NAMESPACE:
            raise pickle.UnpicklingError(f"unknown persistent id {pid!r}")
        return self._namespace


class _Count:
    """A stream that only counts."""

    size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)


@contextmanager
def _hidden_main() -> Iterator[None]:
    """A block in which nothing is found in `__main__`, so that nothing is written as a mere name there: it would be
    looked up in the namespace as it is at loading. What insists on its name is refused.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _interned(name: Any) -> Any:
    # Names in code are interned; one that is not would be written twice now and once after loading.
    return sys.intern(name) if type(name) is str else name
