"""Claim: somebody with git, make and Python 3.11+ sees a committed decision minutes after cloning.

Clones the commit that is checked out, runs `make run` twice in the clone. Package downloads are inside the first time.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.record import Claim, note, write

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Clones, runs twice and writes the figures."""
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "veristate"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        times, lines = [], []
        for _ in range(2):
            start = time.perf_counter()
            done = subprocess.run(["make", "run"], cwd=clone, capture_output=True, text=True, check=True)
            times.append(time.perf_counter() - start)
            lines.append([line for line in done.stdout.splitlines() if "COMMITTED" in line])
            note(f"make run: {times[-1]:.0f} s; {lines[-1]}")
    load = os.getloadavg()[0]
    claims = [
        Claim(
            claim="first `make run` from a clean clone",
            measured=f"{times[0]:.0f}",
            unit="s wall, downloads included",
            bar="under 480 on an idle 2-core machine",
            met=times[0] < 480,
            detail=f"load average afterwards {load:.1f}",
        ),
        Claim(
            claim="second `make run`",
            measured=f"{times[1]:.0f}",
            unit="s wall, fp32",
            bar="under 90 on an idle 2-core machine",
            met=times[1] < 90,
            detail=f"load average afterwards {load:.1f}",
        ),
    ]
    write("first_run", claims, {"seconds": times, "said": lines}, started)


if __name__ == "__main__":
    main()
