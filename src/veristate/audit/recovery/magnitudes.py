"""Priorities by how far development captures moved the scores: those of the agent experiments, beside C.1's."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veristate.audit.recovery.blocks import Blocks, Pair, require_fit
from veristate.audit.recovery.priorities import Priority, displacement, highest_first, largest_of
from veristate.audit.recovery.rows import TopK, without_nan
from veristate.audit.selections import Selection
from veristate.core import InputError


def mean_displacement(development: Sequence[Pair], blocks: Blocks) -> Priority:
    """Descending mean over the captures of |s_i - h_i|, of a block its largest; ties to the smaller number.

    Source: BioAgent-DF I.3, for single coordinates.
    """
    _require(development)
    require_fit(development, blocks)
    mean = np.mean([displacement(pair) for pair in development], axis=0)
    names = tuple(pair.name for pair in development)
    order = highest_first(largest_of(np.asarray(mean), blocks))
    return Priority(name="mean development displacement", order=order, developed_on=names)


def one_score_per_row(development: Sequence[Pair], endpoint: TopK) -> Selection:
    """At most one coordinate of each row: the one whose membership in the row's list changed in most of the captures,
    then the one that moved furthest on average, then the first. A row that no capture moved has none.

    A selected coordinate may agree in a later capture: then its restoration has no effect there.
    Raises: InputError for no captures, or captures of different shapes.
    Source: BioAgent-DF H.3.
    """
    _require(development)
    shape = development[0].h.shape
    if any(pair.h.shape != shape for pair in development):
        raise InputError(f"development captures of one array have one shape, got another than {shape}")
    changes = np.sum([_changed(pair, endpoint) for pair in development], axis=0)
    moved = np.mean([displacement(pair) for pair in development], axis=0)
    mask = np.zeros((int(np.prod(shape[:-1])), shape[-1]), dtype=np.bool_)
    rows = zip(mask, changes.reshape(mask.shape), moved.reshape(mask.shape), strict=True)
    for chosen, count, distance in rows:
        first = highest_first(count.astype(np.float64), distance)[0]
        chosen[first] = distance[first] > 0
    return Selection.of(mask.reshape(shape))


def _changed(pair: Pair, endpoint: TopK) -> NDArray[np.bool_]:
    """Where a coordinate is in one of the two lists of its row and not in the other."""
    inside = [endpoint.codes(without_nan(values)) < endpoint.k for values in (pair.h, pair.c)]
    return np.asarray(inside[0] != inside[1], dtype=np.bool_)


def _require(development: Sequence[Pair]) -> None:
    if not development:
        raise InputError("a priority needs one development capture or more")
