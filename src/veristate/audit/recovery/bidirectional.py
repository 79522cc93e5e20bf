"""Recovery in both directions: a set that returns the reference's endpoint where it is restored, makes the candidate's
where it is transplanted, and is a part of what differs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.recovery.blocks import Blocks, Indices, Pair
from veristate.audit.recovery.exposures import Exposure
from veristate.audit.recovery.replays import ArrayEndpoint, replays
from veristate.audit.recovery.rows import RowEndpoint

Visible = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """Every prefix of an order, tried both ways. `restores` and `transplants` are the lengths that reach the
    reference's and the candidate's endpoint, `strict` those that reach both and are local.
    """

    restores: tuple[int, ...]
    transplants: tuple[int, ...]
    strict: tuple[int, ...]

    @property
    def first_restoration(self) -> int | None:
        """The shortest prefix that recovers the reference's endpoint."""
        return min(self.restores, default=None)

    @property
    def first_transplantation(self) -> int | None:
        """The shortest prefix that reproduces the candidate's endpoint."""
        return min(self.transplants, default=None)


def scan_prefixes(
    pair: Pair,
    blocks: Blocks,
    endpoint: RowEndpoint | ArrayEndpoint,
    order: ArrayLike,
    *,
    visible: Visible | None = None,
) -> Prefixes:
    """The prefixes 0..count of `order`, each restored and transplanted.

    A prefix is local when every row in which it replaces a difference keeps another, and when what is `visible` of the
    state (the state itself where nothing is said) differs from that of the destination in both directions. Prefixes
    that replace no difference are not strict, nor is a pair whose endpoints agree.
    Raises: InputError for an order that isn't one of all blocks.
    Source: BioAgent-DF I.3.
    """
    ranked = blocks.require_order(order)
    sets = [ranked[:length] for length in range(blocks.count + 1)]
    replay = replays(pair, blocks, endpoint)
    restores = np.flatnonzero(replay.restored(sets) == 0)
    transplants = np.flatnonzero(replay.transplanted(sets) == 0)
    changed = bool(replay.restored([()])[0])
    both = np.intersect1d(restores, transplants) if changed else restores[:0]
    return Prefixes(
        restores=tuple(map(int, restores)),
        transplants=tuple(map(int, transplants)),
        strict=tuple(int(length) for length in both if _is_local(pair, blocks, ranked[:length], visible)),
    )


def strict_partial_recovery(
    exposure: Exposure,
    restored: Sequence[bool | None],
    transplanted: Sequence[bool | None],
    *,
    repeats: int = 8,
) -> bool:
    """Whether a mask recovers H and reproduces C in every one of `repeats` complete batches while it replaces a part of
    the region's differences, and some remain. An entry is None where its batch is incomplete, which is never a success.

    Source: BioAgent-DF H.13.
    """
    complete = len(restored) == len(transplanted) == repeats
    return exposure.partial and complete and repeats > 0 and all(restored) and all(transplanted)


def _is_local(pair: Pair, blocks: Blocks, chosen: Indices, visible: Visible | None) -> bool:
    inside = blocks.selection(chosen).mask
    differing = pair.differing
    replaced = np.asarray(_rows(differing & inside).any(axis=1))
    kept = np.asarray(_rows(differing & ~inside).any(axis=1))
    if not replaced.any() or not kept[replaced].all():
        return False
    if visible is None:
        return True
    show = visible
    restored, transplanted = np.where(inside, pair.h, pair.c), np.where(inside, pair.c, pair.h)
    return not _same(show(restored), show(pair.h)) and not _same(show(transplanted), show(pair.c))


def _rows(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return mask.reshape(-1, mask.shape[-1])


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
