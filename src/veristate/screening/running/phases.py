"""Time and progress of a run, phase by phase."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], None]


def silent(_phase: str, _done: int, _total: int) -> None:
    """Tells nobody."""


class Phases:
    """Adds up the wall seconds of each phase and tells `progress` (phase, steps done, steps in all)."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, total: int = 0) -> Iterator[Callable[[Any], None]]:
        """A phase of that name. What it gives is called once for each of its `total` steps."""
        start, done = time.perf_counter(), 0

        def step(_what: Any) -> None:
            nonlocal done
            done += 1
            self._progress(name, done, total)

        self._progress(name, 0, total)
        try:
            yield step
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
