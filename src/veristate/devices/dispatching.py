"""Modes that see every operation torch dispatches, and what an operation costs."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch._C._dynamo import eval_frame
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode whose own code torch's compiler leaves alone.

    torch ensures that by loading the whole compiler at the first operation, more than a second of processor time in
    every process that checks; here the code is marked as one it passes over, with all that it calls.
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)  # type: ignore[no-untyped-call]
        skip = eval_frame._FrameAction.SKIP
        strategy = eval_frame._FrameExecStrategy(skip, skip)
        eval_frame.set_code_exec_strategy(cls.__torch_dispatch__.__code__, strategy)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch is to wrap the code in a call of its compiler."""
        return False


def decomposed(mode: DispatchMode, func: Any, args: Any, named: Any) -> Any:
    """The outcome of a composite operation, whose parts go through `mode` one by one; else NotImplemented."""
    with mode:
        return func.decompose(*args, **named)


@cache
def counters() -> Mapping[Any, Callable[..., int]]:
    """What counts an operation's cost in torch. Imported when asked for: it loads Triton, which few processes need."""
    from torch.utils.flop_counter import flop_registry

    return flop_registry


def multiply_adds(func: Any, args: Any, named: Any, out: Any) -> int:
    """What torch's own counter says of an operation; 0 for one it does not know."""
    count = counters().get(func.overloadpacket)
    return 0 if count is None else int(count(*args, **named, out_val=out)) // 2
