"""Top-K lists from arrays of scores, one list for each row: highest score first, ties by identifier as text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Ranking:
    """The columns that scores are given for, prepared once: their identifiers and the order that breaks ties.

    Raises: InputError for no identifiers, one that is not text, and one that appears twice.
    """

    __slots__ = ("_by_text", "identifiers")

    def __init__(self, identifiers: Sequence[str]) -> None:
        names = tuple(identifiers)
        if isinstance(identifiers, str) or not names or not all(isinstance(name, str) for name in names):
            raise InputError("a ranking needs at least one identifier, each a text")
        if len(set(names)) < len(names):
            raise InputError(
                f"{len(names) - len(set(names))} of {len(names)} identifiers repeat another; make them unique"
            )
        self.identifiers = names
        self._by_text: Indices = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)

    def top(self, scores: ArrayLike, count: int) -> Indices:
        """The columns of the `count` best scores of each row, best first.

        Shapes: scores [..., n]; the result [..., count].
        Raises: InputError for another number of columns, a count outside 1..n, and scores that are not finite.
        """
        values, n = self._require(scores), len(self.identifiers)
        if not 1 <= count <= n:
            raise InputError(f"a top {count} of {n} columns does not exist; ask for 1..{n}")
        # With the columns in text order, the smaller place is the smaller identifier.
        rows = values.reshape(-1, n)[:, self._by_text]
        return self._by_text[_best(rows, count)].reshape(*values.shape[:-1], count)

    def order(self, scores: ArrayLike) -> Indices:
        """All columns of each row, best first."""
        return self.top(scores, len(self.identifiers))

    def names(self, columns: Indices) -> tuple[str, ...]:
        """The identifiers of one row's columns, in their order."""
        return tuple(self.identifiers[column] for column in columns.tolist())

    def _require(self, scores: ArrayLike) -> NDArray[np.floating]:
        values = np.asarray(scores)
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
        if values.ndim == 0 or values.shape[-1] != len(self.identifiers):
            raise InputError(f"{len(self.identifiers)} columns are ranked, but the scores have shape {values.shape}")
        if not np.isfinite(values).all():
            raise InputError(f"{int((~np.isfinite(values)).sum())} scores are not finite; such rows have no ranking")
        return values


def _best(rows: NDArray[np.floating], count: int) -> Indices:
    """The places of the `count` best of each row, best first, ties to the smaller place."""
    last = np.partition(rows, -count, axis=1)[:, -count]
    row, place = np.nonzero(rows >= last[:, None])
    order = np.lexsort((place, -rows[row, place], row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    return np.asarray(place[order][starts[:, None] + np.arange(count)])


def membership_changes(reference: Indices, candidate: Indices) -> Mask:
    """For each row whether two Top-K lists hold different columns.

    Shapes: both [..., k]; the result [...].
    """
    _same_shape(reference, candidate)
    return np.asarray((np.sort(reference, axis=-1) != np.sort(candidate, axis=-1)).any(axis=-1))


def order_changes(reference: Indices, candidate: Indices) -> Mask:
    """For each row whether two Top-K lists differ at any place; so wherever the membership differs, and elsewhere.

    Shapes: both [..., k]; the result [...].
    """
    _same_shape(reference, candidate)
    return np.asarray((reference != candidate).any(axis=-1))


def _same_shape(reference: Indices, candidate: Indices) -> None:
    if reference.shape != candidate.shape:
        raise InputError(f"lists of shapes {reference.shape} and {candidate.shape} can't be compared; rank both alike")
