"""In which order blocks are restored: the priorities of C.1.

A priority is fixed on development captures, or from the reference alone, and judged on others. The last two measure
the capture that is being repaired itself, so they need its reference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.audit.recovery.blocks import Blocks, Indices, Pair, require_fit
from veristate.audit.recovery.replays import ArrayEndpoint, replays
from veristate.audit.recovery.rows import RowEndpoint, TopK
from veristate.core import InputError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The stabiliser of P's denominator, on the score scale, and the weight of P beside U where the two are added.
EPSILON_64 = float(np.finfo(np.float64).eps)
TIE_WEIGHT = 1e-9
RANDOM_ORDERS = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priority:
    """An order of all blocks, first to be restored first, and the names of the captures it was developed on."""

    name: str
    order: Indices
    developed_on: tuple[str, ...] = ()


def decision_sensitivity(development: Sequence[Pair], blocks: Blocks, endpoint: TopK) -> Priority:
    """Single-block decision sensitivity: descending (U_j, P_j, -j). Source: BioAgent-DF C.1."""
    U, P = sensitivity(development, blocks, endpoint), relative_displacement(development, blocks, endpoint)
    return Priority(
        name="single-block decision sensitivity", order=highest_first(U, P), developed_on=_names(development)
    )


def co_occurrence(development: Sequence[Pair], blocks: Blocks, endpoint: TopK) -> Priority:
    """Co-occurrence: descending (G_j, U_j + 1e-9 P_j, -j). Source: BioAgent-DF C.1."""
    U, P = sensitivity(development, blocks, endpoint), relative_displacement(development, blocks, endpoint)
    G = joint_gain(development, blocks, endpoint)
    return Priority(name="co-occurrence", order=highest_first(G, U + TIE_WEIGHT * P), developed_on=_names(development))


def boundary_margin(reference: NDArray[Any], blocks: Blocks, endpoint: TopK) -> Priority:
    """Healthy boundary margin: ascending smallest |h_i - t_K| of a block; it reads the reference alone.

    Differs: C.1 names this priority and doesn't write it out.
    """
    distance = _to_cutoff(reference, endpoint)
    return Priority(name="healthy boundary margin", order=highest_first(-_least(distance, blocks)))


def output_displacement(own: Pair, blocks: Blocks) -> Priority:
    """Current output displacement: descending largest |c_i - h_i| of a block, of the capture's own final scores.

    Differs: C.1 names this priority and doesn't write it out.
    """
    return Priority(name="current output displacement", order=highest_first(largest_of(displacement(own), blocks)))


def difference_energy(own: Pair, blocks: Blocks) -> Priority:
    """Hidden difference energy: descending sum of (c_i - h_i)^2 over a block of the capture's own hidden values, where
    `own` and `blocks` are of the hidden array.

    Differs: C.1 names this priority and doesn't write it out.
    """
    require_fit((own,), blocks)
    eligible = blocks.labels >= 0
    energy = np.zeros(blocks.count)
    with np.errstate(over="ignore"):
        np.add.at(energy, blocks.labels[eligible], displacement(own)[eligible] ** 2)
    return Priority(name="hidden difference energy", order=highest_first(energy))


def random_orders(blocks: Blocks, *, seed: int, count: int = RANDOM_ORDERS) -> tuple[Priority, ...]:
    """That many random orders, fixed by the seed: order k is the same however many are asked for."""
    return tuple(
        Priority(name=f"random {k}", order=np.random.default_rng([seed, k]).permutation(blocks.count))
        for k in range(count)
    )


def sensitivity(development: Sequence[Pair], blocks: Blocks, endpoint: RowEndpoint | ArrayEndpoint) -> Floats:
    """U, [blocks]: the mean over captures of d(h[j<-s], h): what one block alone changes in the decision."""
    _require_some(development, blocks)
    single = _each(blocks)
    found = [replays(pair, blocks, endpoint).transplanted(single, to="reference") for pair in development]
    return np.asarray(np.mean(found, axis=0))


def joint_gain(development: Sequence[Pair], blocks: Blocks, endpoint: RowEndpoint | ArrayEndpoint) -> Floats:
    """G, [blocks]: the mean over captures of d(s, h) - d(s[j<-h], h): what restoring one block alone takes off."""
    _require_some(development, blocks)
    gains = []
    for pair in development:
        replay = replays(pair, blocks, endpoint)
        gains.append(replay.restored([()])[0] - replay.restored(_each(blocks)))
    return np.asarray(np.mean(gains, axis=0))


def relative_displacement(development: Sequence[Pair], blocks: Blocks, endpoint: TopK) -> Floats:
    """P, [blocks]: the mean over captures of max |s_i - h_i| / (|h_i - t_K| + 2^-52) over a block.

    Shapes: the last axis is a row, and t_K is that of the row.
    """
    _require_some(development, blocks)
    found = []
    for pair in development:
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = displacement(pair) / (_to_cutoff(pair.h, endpoint) + EPSILON_64)
        found.append(largest_of(ratio, blocks))
    return np.asarray(np.mean(found, axis=0))


def highest_first(*keys: Floats) -> Indices:
    """The blocks by the keys, the first one foremost, largest first; ties to the smaller number."""
    return np.lexsort(tuple(-key for key in reversed(keys)))


def _each(blocks: Blocks) -> Mask:
    """[blocks, blocks], every block as a set of its own."""
    return np.eye(blocks.count, dtype=np.bool_)


def largest_of(values: Floats, blocks: Blocks) -> Floats:
    """[blocks], the largest value of each; NaN counts as infinite."""
    largest = np.full(blocks.count, -np.inf)
    eligible = blocks.labels >= 0
    np.maximum.at(largest, blocks.labels[eligible], np.where(np.isnan(values), np.inf, values)[eligible])
    return largest


def _least(values: Floats, blocks: Blocks) -> Floats:
    return -largest_of(-values, blocks)


def displacement(pair: Pair) -> Floats:
    """|c - h| in float64; what is not finite on one side alone has gone infinitely far."""
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.abs(pair.c.astype(np.float64) - pair.h.astype(np.float64))
    return np.asarray(np.where(pair.differing, np.where(np.isnan(moved), np.inf, moved), 0.0))


def _to_cutoff(reference: NDArray[Any], endpoint: TopK) -> Floats:
    """|h_i - t_K| in the array's shape, t_K of the coordinate's row."""
    rows = reference.astype(np.float64).reshape(-1, reference.shape[-1])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(rows - endpoint.cutoff(rows)[:, None]).reshape(reference.shape)


def _names(pairs: Sequence[Pair]) -> tuple[str, ...]:
    return tuple(pair.name for pair in pairs)


def _require_some(development: Sequence[Pair], blocks: Blocks) -> None:
    if not development:
        raise InputError("a priority needs one development capture or more")
    require_fit(development, blocks)
