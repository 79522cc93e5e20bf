"""Which coordinates an intervention replaces: a selection S of the coordinates of an array."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError

Shape = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """The coordinates where `mask` is true. `a | b`, `a & b`, `a - b` and `~a` are selections of the same shape.

    Laws: those of sets; `~a` is the full selection minus `a`.
    """

    mask: NDArray[np.bool_]

    @classmethod
    def of(cls, mask: ArrayLike) -> Self:
        """The selection of a mask, copied. Raises: InputError for an array of another type."""
        given = np.asarray(mask)
        if given.dtype != np.bool_:
            raise InputError(f"a selection is a mask of true and false, got an array of {given.dtype}")
        own = given.copy()
        own.flags.writeable = False
        return cls(mask=own)

    @classmethod
    def empty(cls, shape: Shape) -> Self:
        """No coordinate."""
        return cls.of(np.zeros(tuple(shape), dtype=np.bool_))

    @classmethod
    def full(cls, shape: Shape) -> Self:
        """Every coordinate."""
        return cls.of(np.ones(tuple(shape), dtype=np.bool_))

    @classmethod
    def rows(cls, shape: Shape, rows: ArrayLike) -> Self:
        """Whole rows: all coordinates whose first index is one of `rows`. Raises: InputError outside the shape."""
        return cls._along(shape, 0, rows)

    @classmethod
    def columns(cls, shape: Shape, columns: ArrayLike) -> Self:
        """Whole columns: all coordinates whose last index is one of `columns`. Raises: InputError outside the shape."""
        return cls._along(shape, len(shape) - 1, columns)

    @classmethod
    def tile(cls, shape: Shape, rows: ArrayLike, columns: ArrayLike) -> Self:
        """Where the rows meet the columns, which need not be neighbours. Raises: InputError outside the shape."""
        return cls.rows(shape, rows) & cls.columns(shape, columns)

    @classmethod
    def coordinates(cls, shape: Shape, coordinates: ArrayLike) -> Self:
        """The coordinates [n, dimensions], or flat indices [n] in C order. Raises: InputError outside the shape."""
        sizes = tuple(shape)
        index = _indices(coordinates)
        mask = np.zeros(sizes, dtype=np.bool_)
        if index.ndim <= 1:
            _require_inside(index, mask.size, "flat indices")
            mask.ravel()[index] = True
            return cls.of(mask)
        if index.ndim != 2 or index.shape[1] != len(sizes):
            raise InputError(f"coordinates of an array of shape {sizes} are [n, {len(sizes)}], got {index.shape}")
        for axis, length in enumerate(sizes):
            _require_inside(index[:, axis], length, f"indices of axis {axis}")
        mask[tuple(index.T)] = True
        return cls.of(mask)

    @classmethod
    def _along(cls, shape: Shape, axis: int, chosen: ArrayLike) -> Self:
        sizes, index = tuple(shape), _indices(chosen)
        if not sizes:
            raise InputError("a single number has no rows and no columns")
        _require_inside(index, sizes[axis], f"indices of axis {axis}")
        mask = np.zeros(sizes, dtype=np.bool_)
        np.moveaxis(mask, axis, 0)[index.ravel()] = True
        return cls.of(mask)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array it selects from."""
        return self.mask.shape

    @property
    def indices(self) -> NDArray[np.intp]:
        """[n, dimensions], the selected coordinates in C order."""
        return np.argwhere(self.mask)

    def __len__(self) -> int:
        return int(self.mask.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash((self.shape, self.mask.tobytes()))

    def __or__(self, other: "Selection") -> Self:
        return self.of(self.mask | self._same(other))

    def __and__(self, other: "Selection") -> Self:
        return self.of(self.mask & self._same(other))

    def __sub__(self, other: "Selection") -> Self:
        return self.of(self.mask & ~self._same(other))

    def __invert__(self) -> Self:
        return self.of(~self.mask)

    def _same(self, other: "Selection") -> NDArray[np.bool_]:
        if other.shape != self.shape:
            raise InputError(f"selections of arrays of shapes {self.shape} and {other.shape} can't be joined")
        return other.mask


def _indices(values: ArrayLike) -> NDArray[np.intp]:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"indices are whole numbers, got {given.dtype}")
    return given.astype(np.intp)


def _require_inside(index: NDArray[np.intp], length: int, what: str) -> None:
    outside = (index < 0) | (index >= length)
    if outside.any():
        raise InputError(f"{what} lie in 0..{length - 1}, got {int(index[outside].ravel()[0])}")
