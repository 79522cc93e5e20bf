"""What recovery costs at least: rho_D for the decision, rho_state for every bit."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.recovery.blocks import Blocks, Indices, Pair
from veristate.audit.recovery.minimal import reduce_set
from veristate.audit.recovery.replays import Replays
from veristate.audit.recovery.subsets import MOST_EXACT, all_subsets, batches, members, named, recovering
from veristate.core import InputError

Costs = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A minimum cost between `lower` and `upper`, exact when they are equal; `blocks` has the cost `upper`. Both are
    infinite, and there are no blocks, when nothing recovers; `upper` alone is when nothing that was tried did. Units:
    that of the costs; without any, blocks.
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
    masks = all_subsets(len(candidates))
    total = members(masks, len(candidates)) @ price[candidates]
    for part in batches(masks[np.argsort(total, kind="stable")]):
        recovers = recovering(replay, part, candidates)
        if len(recovers):
            return _exactly(named(int(recovers[0]), candidates), price)
    return Cost(lower=math.inf, upper=math.inf, blocks=None)


def state_cost(pair: Pair, blocks: Blocks, *, costs: ArrayLike | None = None) -> Cost:
    """rho_state: the cost of the blocks that restore every bit; infinite when a difference lies in no block.

    Law: rho_D <= rho_state for the same pair, blocks and costs and any deterministic endpoint.
    Source: BioAgent-DF C.4.
    """
    price = _costs(costs, blocks)
    if (pair.differing & (blocks.labels < 0)).any():
        return Cost(lower=math.inf, upper=math.inf, blocks=None)
    return _exactly(tuple(map(int, effective_blocks(pair, blocks))), price)


def _exactly(blocks: tuple[int, ...], price: Costs) -> Cost:
    """The cost of these blocks, rounded once: no subset of them can seem dearer."""
    total = math.fsum(price[list(blocks)])
    return Cost(lower=total, upper=total, blocks=blocks)


def _bounded(replay: Replays, candidates: Indices, price: Costs) -> Cost:
    """What a greedy reduction of all blocks says, dearest blocks tried for deletion first."""
    lower = float(price[candidates].min())
    start = candidates[np.argsort(price[candidates], kind="stable")]
    if replay.restored([start])[0]:
        return Cost(lower=lower, upper=math.inf, blocks=None)
    found = reduce_set(replay, start).blocks
    return Cost(lower=lower, upper=_exactly(found, price).upper, blocks=found)


def _costs(costs: ArrayLike | None, blocks: Blocks) -> Costs:
    price = np.ones(blocks.count) if costs is None else np.asarray(costs, dtype=np.float64)
    if price.shape != (blocks.count,) or not (price >= 0).all():
        raise InputError(f"costs are 0 or more, one for each of the {blocks.count} blocks")
    return price
