"""Smallest repairs: the cheapest set that recovers, sets minimal under inclusion, and the exact state's cost.

Recovery need not grow with the set: a block more can undo what others recovered. So a minimal set is one of which
every proper subset fails, and a cheapest one is sought among all sets.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.recovery.blocks import Blocks, Indices, Pair
from veristate.audit.recovery.replays import Replays
from veristate.core import InputError

Mask = NDArray[np.bool_]
Costs = NDArray[np.float64]
Certificate = Literal["every proper subset fails", "every set with one block less fails"]

# Above this many blocks with a difference, subsets are not enumerated: 2^16 is 65,536.
MOST_EXACT = 16
_BATCH = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimal:
    """A set of blocks that recovers, and what is known of its subsets after `tested` interventions."""

    blocks: tuple[int, ...]
    certificate: Certificate
    tested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A minimum cost between `lower` and `upper`, exact when they are equal; `blocks` has the cost `upper`. Both are
    infinite, and there are no blocks, when nothing recovers. Units: that of the costs; without any, blocks.
    """

    lower: float
    upper: float
    blocks: tuple[int, ...] | None

    @property
    def exact(self) -> bool:
        """Whether the minimum is known."""
        return self.lower == self.upper


def effective_blocks(pair: Pair, blocks: Blocks) -> Indices:
    """The blocks with a difference in them: restoring any other changes no bit."""
    return blocks.touched(pair.differing)


def minimal_sets(replay: Replays, among: ArrayLike) -> tuple[tuple[int, ...], ...]:
    """Every set of blocks of `among` that recovers the reference's endpoint and of which no proper subset does,
    smaller sets first. The one empty set says that there is nothing to recover.

    Raises: InputError for more than 16 blocks: use `reduce_set`.
    """
    candidates = _enumerable(among)
    found: list[int] = []
    for masks in _by_size(len(candidates)):
        for have in found:
            masks = masks[(masks & have) != have]
        for part in _batches(masks):
            found += map(int, _recovering(replay, part, candidates))
    return tuple(_named(mask, candidates) for mask in found)


def reduce_set(replay: Replays, start: ArrayLike) -> Minimal:
    """A set minimal under inclusion inside `start`, which must recover; blocks are tried for deletion from its end.

    When the greedy deletion ends with at most 16 blocks all proper subsets are tested, and a smaller one that recovers
    is gone on with; otherwise the certificate speaks of single deletions alone.
    Raises: InputError when `start` does not recover.
    """
    current = [int(block) for block in np.asarray(start, dtype=np.intp)]
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


def decision_cost(replay: Replays, pair: Pair, *, costs: ArrayLike | None = None) -> Cost:
    """rho_D: the least cost of blocks whose restoration recovers the reference's endpoint, exact for up to 16 blocks
    with a difference.

    Beyond, `upper` is that of a greedily reduced set and `lower` the cheapest single block (0 when nothing need be
    recovered). `costs` [blocks] are 0 or more; without them every block costs 1.
    Source: BioAgent-DF C.4.
    """
    price = _costs(costs, replay.blocks)
    candidates = effective_blocks(pair, replay.blocks)
    if not replay.restored([()])[0]:
        return Cost(lower=0.0, upper=0.0, blocks=())
    if len(candidates) > MOST_EXACT:
        return _bounded(replay, candidates, price)
    masks = _masks(len(candidates))
    total = _bits(masks, len(candidates)) @ price[candidates]
    for part in _batches(masks[np.argsort(total, kind="stable")]):
        recovers = _recovering(replay, part, candidates)
        if len(recovers):
            best = int(recovers[0])
            return Cost(lower=float(total[best]), upper=float(total[best]), blocks=_named(best, candidates))
    return Cost(lower=math.inf, upper=math.inf, blocks=None)


def state_cost(pair: Pair, blocks: Blocks, *, costs: ArrayLike | None = None) -> Cost:
    """rho_state: the cost of the blocks that restore every bit; infinite when a difference lies in no block.

    Law: rho_D <= rho_state for the same pair, blocks and costs and any deterministic endpoint.
    Source: BioAgent-DF C.4.
    """
    price = _costs(costs, blocks)
    if (pair.differing & (blocks.labels < 0)).any():
        return Cost(lower=math.inf, upper=math.inf, blocks=None)
    needed = effective_blocks(pair, blocks)
    total = float(price[needed].sum())
    return Cost(lower=total, upper=total, blocks=tuple(map(int, needed)))


def _bounded(replay: Replays, candidates: Indices, price: Costs) -> Cost:
    """What a greedy reduction of all blocks says, dearest blocks tried for deletion first."""
    lower = float(price[candidates].min())
    start = candidates[np.argsort(price[candidates], kind="stable")]
    if replay.restored([start])[0]:
        return Cost(lower=lower, upper=math.inf, blocks=None)
    found = reduce_set(replay, start).blocks
    return Cost(lower=lower, upper=float(price[list(found)].sum()), blocks=found)


def _deleted(replay: Replays, current: list[int]) -> tuple[list[int], int]:
    """`current` without every block that can go, until none can, and how many sets were tested."""
    tested, position = 0, len(current) - 1
    kept = list(current)
    while position >= 0:
        fewer = kept[:position] + kept[position + 1 :]
        tested += 1
        if replay.restored([fewer])[0] == 0:
            kept = fewer
            # Recovery doesn't grow with the set, so what had to stay is asked again.
            position = len(kept)
        position -= 1
    return kept, tested


def _smallest_inside(replay: Replays, current: list[int]) -> tuple[list[int] | None, int]:
    """The first proper subset that recovers, smallest first, or None, and how many sets were tested."""
    candidates = np.asarray(current, dtype=np.intp)
    tested = 0
    for masks in _by_size(len(current)):
        if len(masks) == 1 and masks[0] == (1 << len(current)) - 1:
            continue
        for part in _batches(masks):
            tested += len(part)
            recovers = _recovering(replay, part, candidates)
            if len(recovers):
                return list(_named(int(recovers[0]), candidates)), tested
    return None, tested


def _recovering(replay: Replays, masks: Indices, candidates: Indices) -> Indices:
    """Those of the masks over `candidates` whose restoration recovers."""
    sets = np.zeros((len(masks), replay.blocks.count), dtype=np.bool_)
    sets[:, candidates] = _bits(masks, len(candidates))
    return np.asarray(masks[replay.restored(sets) == 0])


def _masks(n: int) -> Indices:
    """Every subset of n as an integer."""
    return np.arange(1 << n, dtype=np.intp)


def _by_size(n: int) -> Iterator[Indices]:
    """The subsets of n, those of each size together, from none to all."""
    masks = _masks(n)
    sizes = np.bitwise_count(masks)
    return (masks[sizes == size] for size in range(n + 1))


def _batches(masks: Indices) -> Iterator[Indices]:
    return (masks[start : start + _BATCH] for start in range(0, len(masks), _BATCH))


def _bits(masks: Indices, n: int) -> Mask:
    """[masks, n], which of n each holds."""
    return np.asarray((masks[:, None] >> np.arange(n)) & 1, dtype=np.bool_)


def _named(mask: int, candidates: Indices) -> tuple[int, ...]:
    return tuple(int(block) for place, block in enumerate(candidates) if mask >> place & 1)


def _enumerable(among: ArrayLike) -> Indices:
    candidates = np.unique(np.asarray(among, dtype=np.intp))
    if len(candidates) > MOST_EXACT:
        raise InputError(f"the subsets of {len(candidates)} blocks are too many to try all; {MOST_EXACT} at most")
    return candidates


def _costs(costs: ArrayLike | None, blocks: Blocks) -> Costs:
    price = np.ones(blocks.count) if costs is None else np.asarray(costs, dtype=np.float64)
    if price.shape != (blocks.count,) or not (price >= 0).all():
        raise InputError(f"costs are 0 or more, one for each of the {blocks.count} blocks")
    return price
