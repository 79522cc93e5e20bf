"""Frames arrive as they were sent, or the deadline or the end is told."""

import os
import time
from collections.abc import Iterator

import pytest

from veristate.agents.namespace.wire import receive, send


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe; the writing one does not block."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_silence_ends_at_the_deadline(pipe: tuple[int, int]) -> None:
    """Neither half a frame nor a full pipe keeps our side waiting longer than it wants."""
    os.write(pipe[1], b"\0\0\0")
    with pytest.raises(TimeoutError):
        receive(pipe[0], time.monotonic() + 0.05)
    with pytest.raises(TimeoutError):
        send(pipe[1], {}, [bytes(10_000_000)], time.monotonic() + 0.05)


def test_the_end_of_the_other_side_is_told(pipe: tuple[int, int]) -> None:
    """A frame that stops in the middle is an end, not a short frame."""
    os.write(pipe[1], b"\0\0\0\0\0\0\0\x09{")
    os.close(pipe[1])
    with pytest.raises(EOFError):
        receive(pipe[0])


@pytest.mark.parametrize("junk", [b"\xff" * 20, b"\0\0\0\0\0\0\0\x03{,}"])
def test_what_is_no_frame_is_told(pipe: tuple[int, int], junk: bytes) -> None:
    """Bytes of something else are an error at once, and never a request for exabytes of memory."""
    os.write(pipe[1], junk)
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own error is one
        receive(pipe[0])


def test_frames_arrive(pipe: tuple[int, int]) -> None:
    """Header and parts, empty ones too, come in order and can be written to."""
    send(pipe[1], {"a": "\ud800"}, [b"", b"abc", bytearray(2)], time.monotonic() + 1)
    send(pipe[1], {"b": 1})
    header, parts = receive(pipe[0])
    assert (header, parts) == ({"a": "\ud800"}, [b"", b"abc", b"\0\0"])
    parts[1][0] = 0
    assert receive(pipe[0]) == ({"b": 1}, [])
