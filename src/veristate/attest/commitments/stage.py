"""One line that makes a Python function a committed step."""

import atexit
import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from veristate.attest.commitments.environment import environment_of
from veristate.attest.commitments.recorder import Recorder
from veristate.attest.commitments.records import EXACT, Policy
from veristate.attest.commitments.values import to_artifact
from veristate.core import canonical_bytes

P = ParamSpec("P")
T = TypeVar("T")
DEFAULT_FOLDER = Path(".veristate")
_open: dict[tuple[Path, int], Recorder] = {}


@overload
def stage(function: Callable[P, T], /) -> Callable[P, T]: ...


@overload
def stage(
    *, recorder: Recorder | Path | str = ..., policy: Policy = ..., encode: Callable[[Any], bytes] = ...
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def stage(
    function: Callable[..., Any] | None = None,
    /,
    *,
    recorder: Recorder | Path | str = DEFAULT_FOLDER,
    policy: Policy = EXACT,
    encode: Callable[[Any], bytes] = to_artifact,
) -> Any:
    """The function, each of whose calls is committed to before its result is returned.

        @veristate.stage
        def answer(question: str, passages: list[str]) -> str: ...

    Inputs are encoded before the call, so that what it changes in place is committed to as it was. A call that raises
    commits to nothing. `recorder` is one that is open, or its folder, which is opened at the first call.

    Raises: InputError when an argument or the result has no bytes of its own: give `encode`.
    """

    def wrap(wrapped: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(wrapped)
        name = f"{wrapped.__module__}.{wrapped.__qualname__}"
        context = {"function": name.encode(), "source": _source(wrapped)}
        context["environment"] = canonical_bytes(environment_of())

        @functools.wraps(wrapped)
        def committed(*arguments: P.args, **named: P.kwargs) -> T:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            inputs = {key: encode(value) for key, value in bound.arguments.items()}
            result = wrapped(*arguments, **named)
            outputs = {"result": encode(result)}
            keeper = recorder if isinstance(recorder, Recorder) else _opened(Path(recorder))
            keeper.commit_to(name, inputs=inputs, outputs=outputs, context=context, policy=policy)
            return result

        return committed

    return wrap if function is None else wrap(function)


def _opened(folder: Path) -> Recorder:
    """The recorder in `folder`, opened once in a process; a fork opens its own."""
    key = folder.absolute(), os.getpid()
    if key not in _open:
        _open[key] = Recorder.open(folder)
    return _open[key]


@atexit.register
def _close() -> None:
    while _open:
        (_, process), recorder = _open.popitem()
        if process == os.getpid():
            recorder.close()


def _source(function: Callable[..., Any]) -> bytes:
    """The text of the function; what it calls is not in it."""
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):
        return b"unknown"
