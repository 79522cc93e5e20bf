"""Frames between the two sides: a JSON header that lists the sizes of the raw parts behind it.

Parts are read straight into memory of their own size: a namespace holds hundreds of megabytes, and a pipe gives
64 kB at a time.
"""

import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from typing import Any

_LENGTH = 8
_HEADER_UPPER = 2**26

Buffer = bytes | bytearray | memoryview


def send(
    descriptor: int, header: Mapping[str, Any], parts: Sequence[Buffer] = (), deadline: float | None = None
) -> None:
    """Returns when the frame is written.

    With a deadline (of `time.monotonic`) the descriptor must be one that doesn't block.

    Raises: TimeoutError past the deadline; OSError when the other side is gone.
    """
    views = [memoryview(part).cast("B") for part in parts]
    text = json.dumps({**header, "sizes": [view.nbytes for view in views]}).encode()
    for view in (memoryview(len(text).to_bytes(_LENGTH, "big") + text), *views):
        rest = view
        while rest.nbytes:
            _wait(descriptor, select.POLLOUT, deadline)
            rest = rest[os.write(descriptor, rest) :]


def receive(descriptor: int, deadline: float | None = None) -> tuple[dict[str, Any], list[bytearray]]:
    """The header and the parts of the next frame; the parts are writable.

    Raises: EOFError when the other side is gone; TimeoutError past `deadline`; ValueError for what is no frame.
    """
    length = int.from_bytes(_read(descriptor, _LENGTH, deadline), "big")
    if length > _HEADER_UPPER:
        raise ValueError(f"a header of {length} bytes: the other side writes something else")
    header = json.loads(_read(descriptor, length, deadline))
    return header, [_read(descriptor, size, deadline) for size in header.pop("sizes")]


def _read(descriptor: int, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest.nbytes:
        _wait(descriptor, select.POLLIN, deadline)
        count = os.readv(descriptor, [rest])
        if not count:
            raise EOFError("the other side is gone")
        rest = rest[count:]
    return data


def _wait(descriptor: int, event: int, deadline: float | None) -> None:
    if deadline is None:
        return
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError("no answer before the deadline")
