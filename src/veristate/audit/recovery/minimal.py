"""Sets of blocks that recover and are minimal under inclusion.

Recovery need not grow with the set: a block more can undo what others recovered. So a minimal set is one of which
every proper subset fails, not only those with one block less.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from veristate.audit.recovery.blocks import Indices
from veristate.audit.recovery.replays import Replays
from veristate.audit.recovery.subsets import MOST_EXACT, batches, by_size, named, recovering
from veristate.core import InputError

Certificate = Literal["every proper subset fails", "every set with one block less fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimal:
    """A set of blocks that recovers, and what is known of its subsets after `tested` interventions."""

    blocks: tuple[int, ...]
    certificate: Certificate
    tested: int


def minimal_sets(replay: Replays, among: ArrayLike) -> tuple[tuple[int, ...], ...]:
    """Every set of blocks of `among` that recovers the reference's endpoint and of which no proper subset does,
    smaller sets first. The one empty set says that there is nothing to recover.

    Raises: InputError for more than 16 blocks: use `reduce_set`.
    """
    candidates = _enumerable(among)
    found: list[int] = []
    for masks in by_size(len(candidates)):
        for have in found:
            masks = masks[(masks & have) != have]
        for part in batches(masks):
            found += map(int, recovering(replay, part, candidates))
    return tuple(named(mask, candidates) for mask in found)


def reduce_set(replay: Replays, start: ArrayLike) -> Minimal:
    """A set minimal under inclusion inside `start`, which must recover; blocks are tried for deletion from its end.

    When the greedy deletion ends with at most 16 blocks all proper subsets are tested, and a smaller one that recovers
    is gone on with; otherwise the certificate speaks of single deletions alone.
    Raises: InputError when `start` does not recover.
    """
    current = list(dict.fromkeys(map(int, np.asarray(start, dtype=np.intp))))
    if replay.restored([current])[0]:
        raise InputError(f"the {len(current)} blocks to start from don't recover the endpoint; start from more")
    tested = 1
    while True:
        current, used = _deleted(replay, current)
        tested += used
        if len(current) > MOST_EXACT:
            certificate: Certificate = "every set with one block less fails"
            break
        smaller, used = _smallest_inside(replay, current)
        tested += used
        if smaller is None:
            certificate = "every proper subset fails"
            break
        current = smaller
    return Minimal(blocks=tuple(sorted(current)), certificate=certificate, tested=tested)


def _deleted(replay: Replays, current: list[int]) -> tuple[list[int], int]:
    """`current` without every block that can go, from its end, until a pass finds none; and how many sets were tried.

    Recovery doesn't grow with the set, so what had to stay is asked again after others went.
    """
    kept, tested = list(current), 0
    while True:
        before = len(kept)
        for position in reversed(range(before)):
            fewer = kept[:position] + kept[position + 1 :]
            if replay.restored([fewer])[0] == 0:
                kept = fewer
        tested += before
        if len(kept) == before:
            return kept, tested


def _smallest_inside(replay: Replays, current: list[int]) -> tuple[list[int] | None, int]:
    """The first proper subset that recovers, smallest first, or None, and how many sets were tested."""
    candidates = np.asarray(current, dtype=np.intp)
    tested = 0
    for masks in islice(by_size(len(current)), len(current)):
        for part in batches(masks):
            tested += len(part)
            recovers = recovering(replay, part, candidates)
            if len(recovers):
                return list(named(int(recovers[0]), candidates)), tested
    return None, tested


def _enumerable(among: ArrayLike) -> Indices:
    candidates = np.unique(np.asarray(among, dtype=np.intp))
    if len(candidates) > MOST_EXACT:
        raise InputError(f"the subsets of {len(candidates)} blocks are too many to try all; {MOST_EXACT} at most")
    return candidates
