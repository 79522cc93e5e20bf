"""Recombination: which differences occur together is changed, while what each call position shows stays the same.

A panel holds as many constructed executions as its source group has observed ones. At every call position each observed
residual is used exactly once in a panel, so values, multiplicities and total energy are kept.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.audit.recovery.blocks import Blocks, Indices
from veristate.core import InputError
from veristate.numerics import Representation, stored


def recombine(executions: int, calls: int, *, block_length: int, panels: int, seed: int) -> Indices:
    """[panels, executions, calls], which observed execution each call of a constructed one comes from.

    Runs of `block_length` calls, counted from the first, stay together: one permutation of the executions for each run.
    Raises: InputError for counts or lengths below 1.
    Source: BioAgent-DF C.2.
    """
    if min(executions, calls, block_length, panels) < 1:
        raise InputError(
            f"executions, calls, block length and panels are 1 or more, got {(executions, calls, block_length, panels)}"
        )
    rng = np.random.default_rng(seed)
    runs = -(-calls // block_length)
    drawn = rng.permuted(np.broadcast_to(np.arange(executions), (panels, runs, executions)), axis=2)
    return np.repeat(drawn.transpose(0, 2, 1), block_length, axis=2)[:, :, :calls]


def constructed_states(
    reference: NDArray[Any],
    residuals: NDArray[np.float32],
    calls: Blocks,
    sources: Indices,
    representation: Representation,
) -> NDArray[Any]:
    """[executions, ...], the states Q(FP32(h) + r) of one panel, where the coordinates of call j take the residual of
    execution `sources`[execution, j]. Coordinates of no call stay healthy.

    Shapes: residuals [executions, ...] for a reference [...]; sources [executions, calls].
    Raises: InputError for shapes that don't fit.
    """
    if residuals.shape[1:] != reference.shape or calls.shape != reference.shape or residuals.dtype != np.float32:
        raise InputError(
            f"residuals are float32 [executions, *{reference.shape}], got {residuals.dtype} {residuals.shape}, and "
            f"calls of shape {calls.shape}"
        )
    if sources.shape != (len(residuals), calls.count):
        raise InputError(f"sources are [{len(residuals)}, {calls.count}], got {sources.shape}")
    flat = residuals.reshape(len(residuals), -1)
    labels = calls.labels.ravel()
    eligible = np.flatnonzero(labels >= 0)
    mixed = np.zeros_like(flat)
    mixed[:, eligible] = flat[sources[:, labels[eligible]], eligible]
    with np.errstate(over="ignore", invalid="ignore"):
        total = reference.astype(np.float32) + mixed.reshape(residuals.shape)
    return stored(total, representation)


def new_endpoints(observed: Iterable[Hashable], constructed: Sequence[Hashable]) -> int:
    """How many constructed executions show an endpoint that no observed one of their source group does."""
    known = set(observed)
    return sum(endpoint not in known for endpoint in constructed)
