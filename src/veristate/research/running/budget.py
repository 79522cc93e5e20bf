"""What is spent and what is left. A limit is asked before the work, never after."""

import threading
import time
from collections.abc import Callable

from veristate.research.states import Standing
from veristate.research.tasks import Budget

_DISK_EVERY_S = 5.0


class Meter:
    """The budget of a campaign against its standing. `seconds` is a clock that only goes forward, zero at the start of
    this engine; earlier engines' time, crashed ones included, is in the standing.

    Units: seconds, bytes; shares in thousandths.
    """

    def __init__(
        self, budget: Budget, standing: Standing, seconds: Callable[[], float], disk: Callable[[], int]
    ) -> None:
        self.budget = budget
        self._standing = standing
        self._seconds = seconds
        self._stored = disk
        self._running: dict[str, float] = {}
        self._disk = (-_DISK_EVERY_S, 0)
        self._lock = threading.Lock()

    def wall_s(self) -> float:
        """Wall-clock time charged so far."""
        return self._standing.wall_ms() / 1000 + self._seconds()

    def wall_left_s(self) -> float:
        """Seconds until the deadline; infinite without one."""
        return float("inf") if self.budget.wall_s is None else self.budget.wall_s - self.wall_s()

    def cpu_s(self) -> float:
        """Processor time of workers, evaluators and jobs: what ended, and what runs as far as it was last seen."""
        return self._standing.cpu_ms / 1000 + sum(self._running.values())

    def runs(self, what: str, cpu_s: float) -> None:
        """Takes in the processor time of something that runs; 0 when it has ended and stands in the journal."""
        with self._lock:
            self._running = {**self._running, what: cpu_s}

    def queries_left(self, worker: str) -> int | None:
        """Evaluator queries that this worker may still use; None when not limited."""
        if self.budget.queries is None:
            return None
        used = self._standing.workers[worker].queries if self.budget.split_queries else self._standing.queries
        return max(0, self._part(worker) - used)

    def part_used(self, worker: str) -> str | None:
        """That the worker's own part of the queries is used, in words; None while it is not, or there is none."""
        if not self.budget.split_queries or self.queries_left(worker) != 0:
            return None
        return f"budget: all {self._part(worker)} evaluator queries of {worker} are used"

    def disk_bytes(self) -> int:
        """The size of the campaign's snapshots, looked at every few seconds. What does not fit is not stored at all."""
        now = time.monotonic()
        if now - self._disk[0] >= _DISK_EVERY_S:
            self._disk = (now, self._stored())
        return self._disk[1]

    def spent(self) -> str | None:
        """Which limit is reached, in words; None while all hold."""
        standing, budget = self._standing, self.budget
        if self.wall_left_s() <= 0:
            return f"budget: {budget.wall_s:g} s of wall-clock time are spent"
        if budget.cpu_s is not None and self.cpu_s() >= budget.cpu_s:
            return f"budget: {budget.cpu_s:g} s of processor time are spent"
        if budget.gpu_s is not None and budget.gpu_s > 0 and standing.gpu_ms >= budget.gpu_s * 1000:
            return f"budget: {budget.gpu_s:g} s of GPU time are spent"
        if budget.queries is not None and standing.queries >= budget.queries and not self._evaluating():
            return f"budget: all {budget.queries} evaluator queries are used"
        if budget.tokens is not None and budget.tokens > 0 and standing.spent_tokens() >= budget.tokens:
            return f"budget: {budget.tokens} tokens are spent"
        if budget.money is not None and budget.money > 0 and standing.spent_money() >= budget.money:
            return f"budget: {budget.money} of money is spent"
        return None

    def share(self, worker: str) -> int:
        """The smallest share that is left to this worker of any limit, in thousandths."""
        standing, budget = self._standing, self.budget
        part = self._part(worker)
        used = [
            (self.wall_s(), budget.wall_s),
            (self.cpu_s(), budget.cpu_s),
            (standing.gpu_ms / 1000, budget.gpu_s),
            (float(part - (self.queries_left(worker) or 0)), part),
            (float(standing.spent_tokens()), budget.tokens),
            (float(standing.spent_money()), budget.money),
            (float(self.disk_bytes()) if budget.disk_bytes else 0.0, budget.disk_bytes),
        ]
        shares = [1 - spent / float(limit) for spent, limit in used if limit]
        return max(0, round(1000 * min(shares, default=1.0)))

    def _part(self, worker: str) -> int:
        """The queries that this worker may use in all: an equal part, or those of the campaign; 0 when not limited."""
        total, names = self.budget.queries or 0, list(self._standing.workers)
        if not self.budget.split_queries:
            return total
        return total // len(names) + (names.index(worker) < total % len(names))

    def _evaluating(self) -> bool:
        return any(worker.claimed for worker in self._standing.workers.values())
