"""The trusted process from outside: started, spoken to, its slots counted, its end noticed."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from typing import IO, Any

from veristate.core import EnvironmentUnusableError, InputError, RefusedError, UndecidedError, VeristateError
from veristate.devices.trusted.channel import Channel, ChannelClosedError
from veristate.devices.trusted.slots import Slot

SLOTS = 3
_ERRORS: dict[str, type[VeristateError]] = {
    "InputError": InputError,
    "EnvironmentUnusableError": EnvironmentUnusableError,
    "RefusedError": RefusedError,
    "UndecidedError": UndecidedError,
}


def start_server(descriptors: list[int], environment: dict[str, str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """A new process that serves these descriptors, the socket first, and writes its complaints to `log`."""
    return subprocess.Popen(
        [sys.executable, "-m", "veristate.devices.trusted.server", *map(str, descriptors)],
        pass_fds=descriptors,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
    )


class TrustedProcess:
    """A running `server` and the slots it shares. Raises: EnvironmentUnusableError once it has ended."""

    def __init__(self, threads: int) -> None:
        self._free = list(range(SLOTS))
        self._slots = [Slot.create() for _ in range(SLOTS)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        descriptors = [theirs.fileno(), *(slot.fd for slot in self._slots)]
        environment = os.environ | {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS")}
        self._process = start_server(descriptors, environment, self._log)
        theirs.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        """Sends one message."""
        try:
            self._channel.send(message, payload)
        except ChannelClosedError as error:
            raise self._ended() from error

    def reply(self) -> tuple[dict[str, Any], bytearray]:
        """The next message that is not the return of a slot. Raises: the error that the process answers with."""
        while True:
            header, payload = self._next()
            if "free" not in header:
                return header, payload

    def slot(self) -> int:
        """A free slot, waited for: this is what holds the suspect pass back when checks fall behind."""
        while not self._free:
            self._next()
        return self._free.pop()

    def memory(self, slot: int, size: int) -> memoryview:
        """The first `size` bytes of a slot."""
        return self._slots[slot].view(size)

    def close(self) -> None:
        """Ends the process. Closing again does nothing."""
        self._channel.close()
        self._wait()
        for slot in self._slots:
            slot.close()
        self._slots = []
        self._log.close()

    def _next(self) -> tuple[dict[str, Any], bytearray]:
        try:
            header, payload = self._channel.receive()
        except ChannelClosedError as error:
            raise self._ended() from error
        if "error" in header:
            raise _ERRORS.get(header["error"], VeristateError)(header["message"])
        if "free" in header:
            self._free.append(header["free"])
        return header, payload

    def _ended(self) -> EnvironmentUnusableError:
        """The error that says how the process ended, with the end of what it wrote."""
        code = self._wait()
        self._log.seek(0)
        tail = self._log.read().decode(errors="replace").strip().splitlines()[-3:]
        said = " / ".join(tail) or "no message"
        return EnvironmentUnusableError(f"the trusted process {self.pid} ended (exit {code}): {said}")

    def _wait(self) -> int:
        """The exit code of the process, which has lost its channel and must end; killed when it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=5)
        self._process.kill()
        return self._process.wait()
