"""What a recovery may replace: disjoint blocks of coordinates, and the pair of arrays it replaces them in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.audit.selections import Selection
from veristate.core import InputError

Indices = NDArray[np.intp]
# A set of blocks, as their numbers in any order.
BlockSet = ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """`labels`, in the array's shape, holds the number of each coordinate's block, 0..count-1, or -1 where no edit is
    allowed: such coordinates keep what they have and cost nothing.

    Source: BioAgent-DF C.1, C.4.
    """

    labels: Indices
    count: int

    @classmethod
    def of(cls, labels: ArrayLike) -> Self:
        """Blocks by their labels. Raises: InputError for a label below -1, or a number that no coordinate has."""
        given = np.array(labels, dtype=np.intp)
        found = np.unique(given[given >= 0])
        count = len(found)
        if given.min(initial=0) < -1 or (count and found[-1] != count - 1):
            raise InputError(f"blocks are numbered 0..{count - 1} without gaps, and -1 marks what is not eligible")
        given.flags.writeable = False
        return cls(labels=given, count=count)

    @classmethod
    def rows(cls, shape: Sequence[int], size: int, *, whole: bool = False) -> Self:
        """Runs of `size` rows (coordinates of the first axis); the last may be shorter, and with `whole` such a rest is
        not eligible, as C.1's final singleton.
        """
        return cls.of(np.broadcast_to(_runs(shape, 0, size, whole), tuple(shape)))

    @classmethod
    def columns(cls, shape: Sequence[int], size: int, *, whole: bool = False) -> Self:
        """Runs of `size` coordinates of the last axis, as `rows`."""
        return cls.of(np.broadcast_to(_runs(shape, len(shape) - 1, size, whole), tuple(shape)))

    @classmethod
    def tiles(cls, shape: Sequence[int], rows: int, columns: int) -> Self:
        """Tiles of `rows` by `columns`, numbered along the columns first; the last of each may be smaller."""
        down, across = _runs(shape, 0, rows, False), _runs(shape, len(shape) - 1, columns, False)
        if len(shape) < 2:
            raise InputError(f"an array of shape {tuple(shape)} has no tiles; use rows")
        return cls.of(np.broadcast_to(down * (across.max(initial=-1) + 1) + across, tuple(shape)))

    @classmethod
    def single(cls, selection: Selection) -> Self:
        """Every selected coordinate a block of its own, in C order."""
        labels = np.full(selection.shape, -1, dtype=np.intp)
        labels[selection.mask] = np.arange(len(selection))
        return cls.of(labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.labels.shape

    @property
    def sizes(self) -> Indices:
        """[count], the coordinates of each block."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.count)

    def selection(self, blocks: BlockSet) -> Selection:
        """The coordinates of those blocks. Raises: InputError for a block that isn't there."""
        chosen = self.mask(blocks)
        return Selection.of(np.append(chosen, False)[self.labels])

    def mask(self, blocks: BlockSet) -> NDArray[np.bool_]:
        """[count], true for those blocks. Raises: InputError for a block that isn't there."""
        chosen = np.zeros(self.count, dtype=np.bool_)
        chosen[self.numbers(blocks)] = True
        return chosen

    def numbers(self, blocks: BlockSet) -> Indices:
        """The set as numbers. Raises: InputError for a block that isn't there."""
        index = np.asarray(blocks)
        if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= self.count):
            raise InputError(f"blocks are numbered 0..{self.count - 1}, got {index.tolist()[:8]}")
        return index.astype(np.intp)

    def touched(self, coordinates: NDArray[np.bool_]) -> Indices:
        """The blocks that hold one of the coordinates, in order."""
        return np.setdiff1d(self.labels[coordinates], [-1])

    def require_order(self, order: ArrayLike) -> Indices:
        """`order` as an array, each block once. Raises: InputError when it is another set of numbers."""
        index = np.asarray(order, dtype=np.intp)
        if not np.array_equal(np.sort(index, axis=None), np.arange(self.count)) or index.ndim != 1:
            raise InputError(f"an order names each of the {self.count} blocks once")
        return index


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Reference h and candidate c as the endpoint is read from them, and `name`, the digest of the capture.

    Dtypes: both float16, float32 or both float64.
    """

    h: NDArray[Any]
    c: NDArray[Any]
    name: str = ""

    def __post_init__(self) -> None:
        if self.h.shape != self.c.shape or self.h.dtype != self.c.dtype or self.h.dtype.kind != "f":
            raise InputError(
                f"a pair has one shape and one type of floats, got {self.h.dtype} {self.h.shape} and "
                f"{self.c.dtype} {self.c.shape}"
            )

    @property
    def differing(self) -> NDArray[np.bool_]:
        """Delta: where the bits differ. -0.0 and 0.0 do, a NaN and itself don't."""
        bits = f"u{self.h.dtype.itemsize}"
        return np.asarray(_contiguous(self.h).view(bits) != _contiguous(self.c).view(bits), dtype=np.bool_)


def require_fit(pairs: Iterable[Pair], blocks: Blocks) -> None:
    """Raises: InputError when the blocks are of arrays of another shape."""
    for pair in pairs:
        if pair.h.shape != blocks.shape:
            raise InputError(f"blocks of arrays of shape {blocks.shape} don't fit a pair of shape {pair.h.shape}")


def _runs(shape: Sequence[int], axis: int, size: int, whole: bool) -> Indices:
    if not len(shape) or size < 1:
        raise InputError(f"blocks of {size} along an axis of shape {tuple(shape)}: use 1 or more of an axis there is")
    length = shape[axis]
    numbers = np.arange(length) // size
    if whole:
        numbers[numbers >= length // size] = -1
    index: list[int] = [1] * len(shape)
    index[axis] = length
    return numbers.reshape(index)


def _contiguous(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.c_contiguous else array.copy(order="C")
