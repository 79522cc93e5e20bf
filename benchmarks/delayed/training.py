"""A long job: `training.py KIND SEED CONFIG`. One step of a training run after another, a checkpoint after each; it
goes on from the last one. Standard library alone.

All jobs of a workspace share one machine: a step holds it for a fixed time. So what a job gets depends on how many run
beside it, and not on what else this computer does.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from landscapes import STEPS, stuck

STEP_S = 0.2


def checkpoint(config: int) -> Path:
    """Where a configuration's steps are counted: in the worker's HOME, where nobody takes a snapshot meanwhile."""
    return Path(os.environ["HOME"]) / f"checkpoint-{config}.json"


def steps(config: int) -> int:
    """How many steps it has made."""
    path = checkpoint(config)
    return int(json.loads(path.read_text())) if path.exists() else 0


def main(config: int, hangs_at: int | None) -> None:
    """Returns when all steps are made; never, when it hangs."""
    done = steps(config)
    while done < STEPS:
        while done == hangs_at:
            signal.pause()
        with open(Path(os.environ["HOME"]) / "machine", "w") as machine:  # noqa: PTH123
            fcntl.flock(machine, fcntl.LOCK_EX)
            time.sleep(STEP_S)
        done += 1
        draft = checkpoint(config).with_suffix(".draft")
        draft.write_text(json.dumps(done))
        draft.rename(checkpoint(config))
        time.sleep(0.001)  # who waits for the machine gets it


if __name__ == "__main__":
    kind, seed, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    main(number, stuck(kind, seed).get(number))
