"""Runs the command and kills the process at a chosen database transaction: `killed.py STEP before|after ARGS...`."""

import os
import signal
import sys
from contextlib import contextmanager

from veristate.interfaces.cli import main
from veristate.ledger import database

STEP, WHEN = int(sys.argv[1]), sys.argv[2]
_writing = database.Database.writing
_count = 0


@contextmanager
def writing(self):
    """The real transaction; the process dies inside its last moment, or just after it is on the disk."""
    global _count
    _count += 1
    with _writing(self) as connection:
        yield connection
        if _count == STEP and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    if _count == STEP and WHEN == "after":
        os.kill(os.getpid(), signal.SIGKILL)


database.Database.writing = writing
sys.argv[1:] = sys.argv[3:]
main()
