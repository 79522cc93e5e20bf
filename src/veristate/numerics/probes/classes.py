"""Which rows of integers are equal: a hash finds candidates, whole rows are compared, classes are numbered by place."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels.compiled import compiled

Indices = NDArray[np.intp]
Ints = NDArray[np.integer[Any]]


@compiled()
def _hashes(keys: Ints, out: NDArray[np.uint64]) -> None:
    for i in range(keys.shape[0]):
        mixed = np.uint64(0)
        for k in range(keys.shape[1]):
            mixed ^= np.uint64(keys[i, k])
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        out[i] = mixed


@compiled()
def _classes(
    keys: Ints, hashes: NDArray[np.uint64], table: NDArray[np.intp], place: NDArray[np.intp], of: NDArray[np.intp]
) -> int:
    count, last = 0, np.uint64(table.shape[0] - 1)
    for i in range(keys.shape[0]):
        slot = np.intp(hashes[i] & last)
        while True:
            known = table[slot]
            if known < 0:
                table[slot], place[count], of[i] = count, i, count
                count += 1
                break
            first = place[known]
            same = hashes[first] == hashes[i]
            for k in range(keys.shape[1]):
                same = same and keys[first, k] == keys[i, k]
            if same:
                of[i] = known
                break
            slot = np.intp(np.uint64(slot + 1) & last)
    return count


def row_hashes(keys: Ints) -> NDArray[np.uint64]:
    """A hash of each row of `keys` [n, k]. Nothing rests on it but speed."""
    out = np.empty(len(keys), dtype=np.uint64)
    _hashes(keys, out)
    return out


def equal_rows(keys: Ints, hashes: NDArray[np.uint64]) -> tuple[Indices, Indices]:
    """(place, of): where each distinct row of `keys` [n, k] first stands, ascending, and which of them each row is.

    Maths: open addressing. A hash says where to look; two rows are one only when all their numbers are equal.
    """
    place, of = np.empty(len(keys), dtype=np.intp), np.empty(len(keys), dtype=np.intp)
    table = np.full(1 << max(2 * len(keys), 1).bit_length(), -1, dtype=np.intp)
    return place[: _classes(keys, hashes, table, place, of)].copy(), of
