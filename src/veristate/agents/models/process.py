"""The process that serves a local model, as its owner holds it: started, asked one thing at a time, ended."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from veristate.agents.namespace.wire import receive, send
from veristate.core import EnvironmentUnusableError

START_S = 120.0


class ModelProcess:
    """One process that serves the model."""

    def __init__(self, weights: Path, context: int) -> None:
        self._said: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by end
        theirs_in, self._requests = os.pipe()
        self._replies, theirs_out = os.pipe()
        os.set_blocking(self._requests, False)
        # -P: a file of the working directory must not stand for a module of ours.
        module = ["-P", "-m", "veristate.agents.models.serving"]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *module, str(theirs_in), str(theirs_out), str(weights), str(context)],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        try:
            receive(self._replies, time.monotonic() + START_S)
        except BaseException as error:
            size = os.fstat(self._said.fileno()).st_size
            said = os.pread(self._said.fileno(), 2000, max(0, size - 2000)).decode("utf-8", "replace").strip()
            how = self.end()
            if isinstance(error, OSError | EOFError | ValueError):
                message = f"the local model did not start: its process {how}, saying: {said or 'nothing'}"
                raise EnvironmentUnusableError(message) from error
            raise

    def ask(self, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """The outcome of the request. Raises: TimeoutError, and EOFError, OSError or ValueError when it is lost."""
        deadline = time.monotonic() + seconds
        send(self._requests, body, deadline=deadline)
        return receive(self._replies, deadline)[0]

    def end(self) -> str:
        """How the process ended, in words; it is killed when it is still there."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        os.close(self._requests)
        os.close(self._replies)
        self._said.close()
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
