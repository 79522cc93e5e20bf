"""Where jobs run: what the controller needs of it. Processes of this machine are one such ground, Ray another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from veristate.research.jobs.admission import Free, Offer
from veristate.research.processes import Ended, Launch, start


class Started(Protocol):
    """A job's process tree. `keeper` is the process whose death ends it, by which its lease is known."""

    @property
    def keeper(self) -> int:
        """Its number on this machine."""
        ...

    def poll(self) -> int | None:
        """The command's exit code once it ended."""
        ...

    def cpu_s(self) -> float:
        """The processor time of the tree so far."""
        ...

    def pause(self) -> None:
        """Returns when nothing of the tree runs."""
        ...

    def go_on(self) -> None:
        """Returns when it runs again."""
        ...

    def end(self, *, grace_s: float = 0.0) -> Ended:
        """How it ended; nothing of it is alive."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """`free` says what there would be if no job of this campaign ran; `start` starts one that was admitted.

    `start` raises EnvironmentUnusableError when there is no such program, or no room after all.
    """

    free: Callable[[], Free]
    start: Callable[[Launch, Offer], Started]


def here(free: Callable[[], Free]) -> Ground:
    """This machine: each job a process tree under a keeper."""
    return Ground(free=free, start=lambda launch, _offer: start(launch))


def on_ray(address: str = "auto") -> Ground:
    """The Ray cluster at that address. Raises: EnvironmentUnusableError when it, or the extra `ray`, is not there."""
    from veristate.research.jobs.cluster import connected

    return connected(address)
