"""The trusted process of most runs here: forked from a process that has torch imported, instead of started anew.

It serves as the real one does, apart from this process; but numerical libraries are loaded before their variables are
set, so what is said of threads is checked on a real one. That the command starts a real one is checked where the
command is a process itself (test_kills, test_default_case, test_examples) and in devices/test_trusted.
"""

import multiprocessing
import os
import subprocess
import sys
from contextlib import contextmanager
from multiprocessing.reduction import DupFd
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    ["veristate.devices.trusted.server", "veristate.devices.predictors.chemprop", "numba.np.arraymath"]
)


@contextmanager
def forked_processes():
    """A block in which the trusted process finds the small predictor by the environment, and is forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE))
        patch.setattr("veristate.devices.trusted.process.start_server", ForkedServer)
        yield


class Passed:
    """A file descriptor that goes along when a process starts."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return received, (DupFd(self.number),)


def received(descriptor):
    """Its number in the new process."""
    return descriptor.detach()


class ForkedServer:
    """What `start_server` gives, as far as its caller uses it."""

    def __init__(self, descriptors, environment, log):
        passed = [Passed(number) for number in (log.fileno(), *descriptors)]
        self._process = FORKING.Process(target=serve, args=(environment, passed), daemon=True)
        self._process.start()
        self.pid = self._process.pid

    def wait(self, timeout=None):
        """The exit code. Raises: TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("the forked server", timeout)
        return self._process.exitcode

    def kill(self):
        """Ends it at once."""
        self._process.kill()


def serve(environment, descriptors):
    """The real server in the forked process."""
    from veristate.devices.trusted import server

    log, *served = descriptors
    os.dup2(log, sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = map(str, served)
    server.main()
