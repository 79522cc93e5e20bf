"""One worker process as our side sees it: started, asked with a deadline, read, ended with all that it started."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from veristate.agents.namespace.surroundings import session_members
from veristate.agents.namespace.wire import receive, send
from veristate.core import EnvironmentUnusableError

START_S = 60.0
OUTPUT_UPPER = 2**20
_PIPE_BYTES = 2**20
_GONE_S = 5.0  # one that the system holds in a call can't be waited for


class Process:
    """A worker with its working directory in `workspace`. Ended by `end`, and when our side closes the pipes."""

    def __init__(self, workspace: Path, environment: Mapping[str, str]) -> None:
        self._capture: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close_output
        # Appending, for each process that prints, also after we have cut the file.
        fcntl.fcntl(self._capture, fcntl.F_SETFL, fcntl.fcntl(self._capture, fcntl.F_GETFL) | os.O_APPEND)
        theirs_in, self._requests = os.pipe()
        self._replies, theirs_out = os.pipe()
        os.set_blocking(self._requests, False)
        with suppress(OSError):  # the user's share of pipe memory is used up: slower, not wrong
            fcntl.fcntl(self._requests, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            fcntl.fcntl(self._replies, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # -P: a file of the workspace must not stand for a module of ours while the worker starts.
        module = ["-P", "-m", "veristate.agents.namespace.worker"]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *module, str(theirs_in), str(theirs_out), str(workspace)],
                stdin=subprocess.DEVNULL,
                stdout=self._capture,
                stderr=self._capture,
                cwd=workspace,
                env=environment,
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._greet()

    def ask(
        self, request: Mapping[str, Any], parts: Sequence[bytes] = (), *, seconds: float
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """The answer to the request.

        Raises: TimeoutError after `seconds`; EOFError, OSError or ValueError when the process died or went mad. It is
        of no use after any of them.
        """
        deadline = time.monotonic() + seconds
        send(self._requests, request, parts, deadline)
        return receive(self._replies, deadline)

    def output(self) -> str:
        """What was printed since the last call; the middle of very long output is left out and its size told."""
        descriptor = self._capture.fileno()
        size = os.fstat(descriptor).st_size
        if size <= OUTPUT_UPPER:
            data = os.pread(descriptor, size, 0)
        else:
            half = OUTPUT_UPPER // 2
            gap = f"\n[... {size - 2 * half} bytes left out ...]\n".encode()
            data = os.pread(descriptor, half, 0) + gap + os.pread(descriptor, half, size - half)
        os.ftruncate(descriptor, 0)
        return data.decode("utf-8", "replace")

    def end(self, *, patience_s: float = 0.0) -> str:
        """How the process ended, in words. One that doesn't end by itself within `patience_s` is killed; killed too is
        all else in its session, also what it left to other parents or put into groups of their own.
        """
        last = time.monotonic() + patience_s
        leader = self._process.pid
        # Looked at, not yet waited for: until then nobody else can get its number.
        while not os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT | os.WNOHANG) and time.monotonic() < last:
            time.sleep(0.005)
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        # Until they are gone: a killed process lives on for a moment, and may have started another before.
        gone = time.monotonic() + _GONE_S
        while (members := session_members(leader)) and time.monotonic() < gone:
            for number in members:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.001)
        code = self._process.wait()
        os.close(self._requests)
        os.close(self._replies)
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"

    def close_output(self) -> None:
        """Returns when what was printed is forgotten; after `end`, which the output outlives."""
        self._capture.close()

    def _greet(self) -> None:
        try:
            receive(self._replies, time.monotonic() + START_S)
        except (EOFError, OSError, ValueError) as error:
            how = self.end(patience_s=1.0)
            said = self.output().strip()
            self.close_output()
            raise EnvironmentUnusableError(
                f"the agent's Python did not start: it {how}, saying: {said[-2000:] or 'nothing'}; "
                "if cloudpickle is missing, install veristate[compute]"
            ) from error
