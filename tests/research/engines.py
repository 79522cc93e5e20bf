"""Engines that can be killed: copies of this process, so that none of them imports everything again."""

import itertools
import os
import signal
import threading
import time
import traceback
import warnings
from contextlib import contextmanager

from veristate.ledger import database
from veristate.research import CampaignOptions, Surroundings, read_task, run_campaign
from veristate.research.processes import die_with_parent

_NUMBERS = itertools.count()


class Engine:
    """A campaign in a process of its own: of the task in a folder, or without one what is in `home`, resumed.

    It kills itself at its database transaction number `step`: in its last moment (`before`), or just after it is on the
    disk (`after`). `said` is the file with its reason, or its traceback.
    """

    def __init__(self, home, folder=None, workers=1, *, step=0, when="after"):
        self.said = home.folder.parent / f"said-{next(_NUMBERS)}"
        self.returncode = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # later Pythons warn of threads; none of this process holds what we need
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                die_with_parent()
                die_at(step, when)
                task = read_task(folder) if folder else None
                result = run_campaign(home, task, CampaignOptions(workers=workers), Surroundings())
                self.said.write_text(result.reason)
                code = 0
            except BaseException:
                self.said.write_text(traceback.format_exc())
            finally:
                os._exit(code)

    def poll(self):
        """Its exit code once it has ended; negative: the signal."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self):
        """Its exit code, when it has ended."""
        deadline = time.monotonic() + 120
        while self.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self.returncode

    def kill(self):
        """Returns when it is dead."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def finished(self):
        """What it said at its end, which was a good one."""
        assert self.wait() == 0, self.said.read_text()
        return self.said.read_text()


def die_at(step, when):
    """Returns when this process will die at that transaction."""
    writing, count, lock = database.Database.writing, itertools.count(1), threading.Lock()

    @contextmanager
    def deadly(self):
        with lock:
            number = next(count)
        with writing(self) as connection:
            yield connection
            if number == step and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
        if number == step and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    database.Database.writing = deadly
