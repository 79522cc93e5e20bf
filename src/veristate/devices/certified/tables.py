"""What the sides share: all members or a reason; of users' models also batches, and strategies timed on a sample."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from veristate.decisions.enclosures import Declined
from veristate.devices.certified.planner import Estimate

Member = TypeVar("Member")
Clock = Callable[[], float]
SAMPLED = 256  # candidates
_UNREPEATED = Declined(reason="the rows of a feed-forward model don't repeat: nothing to memoise", next_strategy="full")


def all_followed(found: Iterable[Member | Declined]) -> tuple[Member, ...] | Declined:
    """The members, or why the first one that can't be followed is none. Those after it are not looked at."""
    members: list[Member] = []
    for member in found:
        if isinstance(member, Declined):
            return member
        members.append(member)
    return tuple(members)


def batches_of(candidates: int, batch: int) -> tuple[range, ...]:
    """The table positions of each batch."""
    return tuple(range(at, min(at + batch, candidates)) for at in range(0, candidates, batch))


def positions_of(spans: tuple[range, ...], batches: range) -> slice:
    """The table positions of consecutive batches."""
    return slice(spans[batches.start].start, spans[batches.stop - 1].stop)


def unavailable(declined: Declined) -> tuple[Estimate, ...]:
    """No strategy at all, for that reason."""
    return tuple(Estimate(strategy=s, seconds=np.inf, declined=declined) for s in ("probes", "memo", "full"))


def estimated(
    clock: Clock, scale: float, probed: Callable[[], object], full: Callable[[], object]
) -> tuple[Estimate, ...]:
    """The second of two runs of each on a sample, the first loads what is compiled; `scale` samples make the pass."""
    seconds = []
    for work in (probed, full):
        work()
        begun = clock()
        work()
        seconds.append(max(clock() - begun, 1e-6) * scale)
    return (
        Estimate(strategy="probes", seconds=seconds[0]),
        Estimate(strategy="memo", seconds=np.inf, declined=_UNREPEATED),
        Estimate(strategy="full", seconds=seconds[1]),
    )
