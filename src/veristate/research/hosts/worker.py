"""The process in which a worker's Python function runs: `python -m veristate.research.hosts.worker FUNCTION FOLDER`."""

import os
import sys
from pathlib import Path

from veristate.research.functions import load_function
from veristate.research.processes import die_with_parent
from veristate.research.workers.bench import Bench


def main(function: str, folder: str) -> None:
    """Returns when the function has; what it says is printed and is nothing but words."""
    die_with_parent()
    bench = Bench(Path.cwd(), Path(os.environ["VERISTATE_MAILBOX"]))
    said = load_function(function, Path(folder))(bench)
    sys.stdout.write(f"{said or ''}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
