"""Messages between a run and its trusted process: a JSON header with raw bytes behind it, over a socket pair.

Nothing is unpickled on either side. A closed socket means that the other side has ended.
"""

import json
import socket
import struct
from typing import Any

_HEAD = struct.Struct("<IQ")


class ChannelClosedError(Exception):
    """The other side has ended."""


class Channel:
    """One end of the conversation."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Sends one message whole. Raises: ChannelClosedError."""
        text = json.dumps(header).encode()
        try:
            self._socket.sendall(_HEAD.pack(len(text), len(payload)) + text)
            if len(payload):
                self._socket.sendall(payload)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        """The next message: header and payload. Waits for it. Raises: ChannelClosedError."""
        text, payload = _HEAD.unpack(self._exactly(_HEAD.size))
        return json.loads(self._exactly(text)), self._exactly(payload)

    def close(self) -> None:
        """Ends the conversation."""
        self._socket.close()

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while len(view):
            try:
                got = self._socket.recv_into(view)
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not got:
                raise ChannelClosedError("the other process ended")
            view = view[got:]
        return data
