"""Where cloudpickle writes something that comes back different, and what is written instead."""

import functools
import random
import sys
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any

import cloudpickle

from veristate.agents.namespace.arrays import reduce_array, reduce_frame

Reduced = tuple[Any, ...]


def reduce_special(value: Any) -> Reduced | None:
    """How to write `value` when it is one of those that need care; None when cloudpickle's way is right."""
    kind = type(value)
    if kind in _BY_TYPE:
        return _BY_TYPE[kind](value)
    match (kind.__module__, kind.__name__):
        case ("numpy", "ndarray"):
            return reduce_array(value)
        case ("numpy.random.mtrand", "RandomState"):
            return (_shared_numpy_random, ()) if value is sys.modules["numpy.random.mtrand"]._rand else None
        case ("pandas.core.internals.managers", _):
            return reduce_frame(value)
    return None


def _reduce_code(code: types.CodeType) -> Reduced:
    make, arguments = cloudpickle.cloudpickle._code_reduce(code)
    # cloudpickle drops the file name; tracebacks and inspect need `<cell n>`.
    return make, tuple(fresh(code.co_filename if part == "<dynamic-code>" else part) for part in arguments)


def _reduce_module(module: types.ModuleType) -> Reduced:
    make, arguments = cloudpickle.cloudpickle._module_reduce(module)
    return make, fresh(arguments)


def fresh(part: Any) -> Any:
    """`part` of code, a class or a module with strings of its own: whether it shares them with data is chance
    (interning), and the same namespace should give the same bytes.
    """
    if type(part) is str:
        return "".join(part)
    return tuple(fresh(item) for item in part) if type(part) is tuple else part


def _reduce_cell(cell: types.CellType) -> Reduced:
    """Empty first, filled once it has a place in the pickle: its content may be the function that holds it."""
    try:
        content = cell.cell_contents
    except ValueError:
        return types.CellType, ()
    return types.CellType, (), (content,), None, None, _fill_cell


def _fill_cell(cell: types.CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state


def _reduce_cached(cached: Any) -> Reduced:
    """A function under `lru_cache`, its cache empty: what it held can't be read, and after a restore would come from a
    discarded time. cloudpickle writes the bare name.
    """
    attributes = {name: value for name, value in vars(cached).items() if name != "cache_parameters"}
    return _make_cached, (cached.__wrapped__, cached.cache_parameters()), attributes


def _make_cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_random(generator: random.Random) -> Reduced | None:
    """The generator behind the functions of `random` as itself, so that `from random import shuffle` stays with it."""
    return (_shared_random, ()) if generator is random._inst else None


def _shared_random() -> random.Random:
    return random._inst


def _shared_numpy_random() -> Any:
    return import_module("numpy.random.mtrand")._rand


_BY_TYPE: dict[type, Callable[[Any], Reduced | None]] = {
    types.CodeType: _reduce_code,
    types.CellType: _reduce_cell,
    types.ModuleType: _reduce_module,
    functools._lru_cache_wrapper: _reduce_cached,
    random.Random: _reduce_random,
}
