"""Runs a campaign and kills its engine at a chosen database transaction: `killed.py STEP before|after HOME [TASK]`."""

import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from veristate.ledger import database
from veristate.research import CampaignHome, CampaignOptions, Surroundings, read_task, run_campaign

STEP, WHEN = int(sys.argv[1]), sys.argv[2]
_writing = database.Database.writing
_count = 0
_lock = threading.Lock()


@contextmanager
def writing(self):
    """The real transaction; the process dies inside its last moment, or just after it is on the disk."""
    global _count
    with _lock:
        _count += 1
        step = _count
    with _writing(self) as connection:
        yield connection
        if step == STEP and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    if step == STEP and WHEN == "after":
        os.kill(os.getpid(), signal.SIGKILL)


database.Database.writing = writing
home = CampaignHome(folder=Path(sys.argv[3]))
task = read_task(sys.argv[4]) if sys.argv[4:] else None
workers = int(sys.argv[5]) if sys.argv[5:] else 1
result = run_campaign(home, task, CampaignOptions(workers=workers), Surroundings())
sys.stdout.write(result.reason)
