"""Subsets of blocks, tried by the thousand. A subset of n candidates is an integer, bit k for the k-th of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from veristate.audit.recovery.blocks import Indices
from veristate.audit.recovery.replays import Replays

# Above this many blocks subsets are not enumerated: 2^16 is 65,536.
MOST_EXACT = 16
_BATCH = 1 << 12


def recovering(replay: Replays, masks: Indices, candidates: Indices) -> Indices:
    """Those of the masks over `candidates` whose restoration recovers."""
    sets = [candidates[inside] for inside in members(masks, len(candidates))]
    return np.asarray(masks[replay.restored(sets) == 0])


def all_subsets(n: int) -> Indices:
    """Every subset of n as an integer."""
    return np.arange(1 << n, dtype=np.intp)


def by_size(n: int) -> Iterator[Indices]:
    """The subsets of n, those of each size together, from none to all."""
    masks = all_subsets(n)
    sizes = np.bitwise_count(masks)
    return (masks[sizes == size] for size in range(n + 1))


def batches(masks: Indices) -> Iterator[Indices]:
    """The subsets, some thousand at a time."""
    return (masks[start : start + _BATCH] for start in range(0, len(masks), _BATCH))


def members(masks: Indices, n: int) -> NDArray[np.bool_]:
    """[masks, n], which of n each holds."""
    return np.asarray((masks[:, None] >> np.arange(n)) & 1, dtype=np.bool_)


def named(mask: int, candidates: Indices) -> tuple[int, ...]:
    """The numbers of the blocks in a subset."""
    return tuple(int(block) for place, block in enumerate(candidates) if mask >> place & 1)
