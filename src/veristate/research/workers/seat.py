"""What every kind of worker is run with, and what its segment came to."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from veristate.research.processes import Confine
from veristate.research.tasks import Resources
from veristate.research.workers.mailbox import Mailbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One segment of one worker, ready to begin: its workspace is restored, its brief written, its mailbox open.

    `serve` answers a request (a submission waits for its evaluator); in a block of `held` no job of the worker runs;
    `over` gives the reason for which the segment must end now, None while it may go on; `spend` is told the processor
    time used so far. `brief` is the text of AGENTS.md, `packet` its part that changes.
    """

    worker: str
    segment: int
    workspace: Path
    home: Path
    mailbox: Mailbox
    log: Path
    brief: str
    task_folder: Path
    resources: Resources
    mark: str
    context_chars: int
    confine: Confine
    serve: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    held: Callable[[], AbstractContextManager[None]]
    over: Callable[[], str | None]
    spend: Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Why the segment ended. `words` is what the worker said at last: kept for people, evidence of nothing."""

    reason: str
    cpu_s: float = 0.0
    words: str = ""


class Driver(Protocol):
    """Runs a worker for one segment."""

    @property
    def name(self) -> Mapping[str, str]:
        """What records say of it."""
        ...

    def drive(self, seat: Seat) -> Departure:
        """How the segment went. Nothing that it started is alive when this returns.

        Raises: EnvironmentUnusableError when the worker can't be started.
        """
        ...
