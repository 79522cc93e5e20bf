"""Faults of products, simulated below torch: what a kernel returns is changed, or the kernel refuses."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("mm", "addmm", "bmm", "linear", "_int_mm", "_scaled_mm")
Act = Callable[[str, torch.Tensor], object]


class Kernels(TorchDispatchMode):
    """While open, `act` sees the name and the result of every call of `names`; it may change the result or raise."""

    def __init__(self, act: Act, names: tuple[str, ...] = PRODUCTS) -> None:
        super().__init__()
        self.act = act
        self.names = names

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in self.names:
            self.act(name, result)
        return result


def rows_of(result: torch.Tensor) -> int:
    """The rows of a product."""
    return result.shape[-2]


def long_call(result: torch.Tensor) -> bool:
    """Whether a size-dependent fault would fire."""
    return rows_of(result) > 512


def add(*places: tuple[int, int], amount: float = 1.0, when: Callable[[torch.Tensor], bool] = lambda _: True) -> Act:
    """Adds `amount` at these coordinates of every (first) matrix of a result."""

    def act(_name: str, result: torch.Tensor) -> None:
        if when(result):
            matrix = result if result.dim() == 2 else result[0]
            for place in places:
                matrix[place] += amount

    return act


def refuse(error: BaseException, when: Callable[[torch.Tensor], bool] = lambda _: True) -> Act:
    """Raises instead of giving a result."""

    def act(_name: str, result: torch.Tensor) -> None:
        if when(result):
            raise error

    return act
