"""numba, in one place: loops over arrays, compiled on first use and kept beside the package for the next process."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(*, reorder: bool = False) -> Callable[[Function], Function]:
    """A decorator that compiles a function of arrays and scalars on first call.

    `reorder` lets sums be taken in any order, which is faster and gives other last bits: for guards, whose bound covers
    every order, never for a definition. NaN and infinities keep their meaning either way.
    """
    flags: set[str] | bool = {"reassoc", "contract", "nsz"} if reorder else False
    decorator: Any = numba.njit(cache=True, nogil=True, fastmath=flags)
    typed: Callable[[Function], Function] = decorator
    return typed
