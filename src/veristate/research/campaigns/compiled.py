"""numba, in one place for the campaigns: loops over arrays, compiled on first use and kept for the next process."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function of arrays and scalars, compiled on its first call. NaN and infinities keep their meaning."""
    compile_: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
    done: Function = compile_(function)
    return done


def by_type(function: Callable[..., object]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates what gives, for the types of arguments, the function that compiled code calls in place of that one."""
    decorate: Any = numba.extending.overload(function, strict=False)  # which would compare annotations too
    return decorate  # type: ignore[no-any-return]
