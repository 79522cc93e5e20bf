"""The memory of a whole process tree while a run goes on: proportional set sizes, so shared pages count once."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAMPLE_SECONDS = 0.5


class PeakMemory:
    """The largest sum of PSS seen, in MB (10^6 bytes); None where the system does not tell."""

    def __init__(self) -> None:
        self.mb: float | None = None

    def sample(self) -> None:
        """Measures the tree once."""
        try:
            total = sum(_pss_kb(pid) for pid in _tree(os.getpid())) * 1024 / 1e6
        except OSError:
            return
        self.mb = max(total, self.mb or 0.0)


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Samples this process and its descendants twice a second while open."""
    peak, done = PeakMemory(), threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak.sample()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak.sample()


def _tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _tree(int(child))
    return found


def _pss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
