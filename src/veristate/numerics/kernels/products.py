"""Whether all cells of a product surely pass, in one call of the C kernel, or of several threads by ranges of blocks.

A block's sums depend on its own rows alone, and each cell is added up in one order: a range gives the bits that the
whole gives, so nothing found depends on the number of threads.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels import passes
from veristate.numerics.kernels.native import Layer, Limits, Passed, Plan, Room

# Values of X and Y below which starting a thread costs more than it saves (docs/decisions, 20).
THREADED = 6_000_000


class ProductPass:
    """The C kernel with its working memory, one for each thread that calls it."""

    def __init__(self) -> None:
        self._rooms: list[Room] = []

    def passed(
        self, plan: Plan, X: NDArray[Any], Y: NDArray[Any], signs: NDArray[np.float32], threads: int
    ) -> Passed | None:
        """What was found when every cell surely passes and few are suspect; None otherwise.

        Shapes: X [M, K], Y [M, N], rows in one piece each; signs [draws, M]. Dtypes: as the plan says.
        """
        kernel, block = passes.native, plan.call.block
        assert kernel is not None
        blocks = -(-len(X) // block)
        parts = min(threads, blocks) if threads > 1 and X.size + Y.size >= THREADED else 1
        while len(self._rooms) < parts:
            self._rooms.append(Room())
        if parts == 1:
            return kernel.product(plan, X, Y, signs, self._rooms[0])

        starts = [blocks * part // parts for part in range(parts + 1)]

        def one(part: int) -> Passed | None:
            rows = slice(starts[part] * block, starts[part + 1] * block)
            return kernel.product(plan, X[rows], Y[rows], signs[:, rows], self._rooms[part])

        with ThreadPoolExecutor(parts - 1) as others:
            later = [others.submit(one, part) for part in range(1, parts)]
            every = [one(0), *(part.result() for part in later)]
        found = [part for part in every if part is not None]
        if len(found) < parts:
            return None
        for start, part in zip(starts, found, strict=False):
            part.suspects[:, 1] += start
        return Passed(
            worst=max(part.worst for part in found),
            loudest=max(part.loudest for part in found),
            suspects=np.concatenate([part.suspects for part in found]),
        )


def usable() -> bool:
    """Whether there is a C kernel."""
    return passes.native is not None


def planned(layer: Layer, limits: Limits, form: str, block: int) -> Plan:
    """What is the same for every call with these weights, where there is a C kernel."""
    assert passes.native is not None
    return passes.native.plan(layer, limits, form, block)
