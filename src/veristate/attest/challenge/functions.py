"""Running a `veristate.stage` function again from what was committed to."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from veristate.attest.challenge.seeds import rerun_number
from veristate.attest.challenge.steps import StepRerun
from veristate.attest.commitments import to_artifact
from veristate.core import InputError


def rerun_of(function: Callable[..., Any], *, encode: Callable[[Any], bytes] = to_artifact) -> StepRerun:
    """The rerun of a stage: its function, uncommitted, on the committed inputs.

    Arguments annotated as bytes or str are read as such, all others as the JSON they were written in. A parameter
    called `seed` gets the rerun's own seed as an integer in [0, 2^31), whatever was committed to.
    Raises: InputError when the inputs are not the function's arguments or can't be read.
    """
    plain = inspect.unwrap(function)
    hints = get_type_hints(plain)

    def rerun(inputs: Mapping[str, bytes], seed: bytes) -> bytes:
        arguments = {name: _read(name, data, hints.get(name)) for name, data in inputs.items()}
        if "seed" in arguments:
            arguments["seed"] = rerun_number(seed)
        try:
            inspect.signature(plain).bind(**arguments)
        except TypeError as error:
            raise InputError(f"{plain.__qualname__} does not take what was committed to: {error}") from error
        return encode(plain(**arguments))

    return rerun


def _read(name: str, data: bytes, hint: Any) -> Any:
    if hint is bytes:
        return data
    try:
        return data.decode("utf-8") if hint is str else _untagged(json.loads(data))
    except ValueError as error:
        raise InputError(f"the committed input {name} can't be read as {hint or 'JSON'}: {error}") from error


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((tag, held),) = value.items()
    if tag == "float":
        return float(held)
    if tag == "bytes":
        return bytes.fromhex(held)
    return {key: _untagged(item) for key, item in held.items()} if tag == "map" else value
