"""numba, in one place: loops over arrays, compiled on first use and kept beside the package for the next process.

numba itself is imported at the first call of a kernel: a process whose checks the C kernels decide never loads it.
"""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(*, reorder: bool = False) -> Callable[[Function], Function]:
    """A decorator that compiles a function of arrays and scalars on first call.

    `reorder` lets sums be taken in any order, which is faster and gives other last bits: for guards, whose bound covers
    every order, never for a definition. NaN and infinities keep their meaning either way.
    """

    def typed(function: Function) -> Function:
        return cast("Function", _Compiled(function, reorder=reorder))

    return typed


class _Compiled:
    """A function that compiles itself when it is first called, from Python or from another one that is compiled."""

    def __init__(self, function: Callable[..., object], *, reorder: bool) -> None:
        update_wrapper(self, function)
        self._reorder = reorder

    def __call__(self, *arguments: Any) -> Any:
        return self._dispatcher(*arguments)

    @cached_property
    def _dispatcher(self) -> Any:
        import numba

        flags: set[str] | bool = {"reassoc", "contract", "nsz"} if self._reorder else False
        return numba.njit(cache=True, nogil=True, fastmath=flags)(self.__wrapped__)  # type: ignore[attr-defined]

    @property
    def _numba_type_(self) -> Any:
        """What numba asks a value that it does not know for: here, the compiled function."""
        return self._dispatcher._numba_type_
