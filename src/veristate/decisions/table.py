"""What a decision is taken over: a table of candidates, each with an identifier and a score."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veristate.core import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRange:
    """The closed range that every score lies in by the meaning of the score, before anything is computed.

    Raises: InputError for NaN and for a range that is empty or a point.
    """

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise InputError(f"the score range [{self.lower!r}, {self.upper!r}] is empty; give lower < upper")

    def holds(self, values: Floats) -> Mask:
        """For each value whether it is a number of this range; NaN and infinities never are."""
        return np.isfinite(values) & (values >= self.lower) & (values <= self.upper)


PROBABILITY = ScoreRange()


def require_ids(ids: Sequence[str]) -> tuple[str, ...]:
    """The identifiers as a tuple.

    Raises: InputError for an empty table, an identifier that is not text, and one that appears twice.
    """
    if isinstance(ids, str):
        raise InputError(f"the identifiers are one text, {ids!r}; give a sequence of texts")
    names = tuple(ids)
    if not names:
        raise InputError("the table is empty; a decision needs at least one candidate")
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise InputError(f"identifiers must be text, not {_a_few(repr(name) for name in strange)}")
    if len(set(names)) < len(names):
        twice = _a_few(repr(name) for name, times in Counter(names).items() if times > 1)
        raise InputError(f"identifiers appear more than once: {twice}; make them unique")
    return names


def require_scores(scores: ArrayLike, ids: tuple[str, ...]) -> Floats:
    """The scores as float64 [n], one per identifier.

    Raises: InputError for another length or shape, and for NaN and infinite scores, naming a few of them.
    """
    values = np.ascontiguousarray(scores, dtype=np.float64)
    if values.shape != (len(ids),):
        raise InputError(f"{len(ids)} identifiers need scores of shape ({len(ids)},), not {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        named = _a_few(f"{ids[i]!r} ({values[i]})" for i in bad)
        raise InputError(f"{bad.size} scores are not finite: {named}; recompute or leave out these candidates")
    return values


def require_members(members: ArrayLike, count: int | None = None) -> Floats:
    """The member values as a contiguous float64 copy [m, n]; they may hold anything, NaN included.

    Raises: InputError when they are not two-dimensional, hold no member, or not `count` candidates.
    """
    values = np.array(members, dtype=np.float64, order="C")
    if values.ndim != 2 or values.shape[0] == 0 or (count is not None and values.shape[1] != count):
        wanted = "n" if count is None else str(count)
        raise InputError(f"member values must have shape [members, {wanted}], not {list(values.shape)}")
    return values


def require_mask(mask: ArrayLike, shape: tuple[int, ...], what: str) -> Mask:
    """`mask` as a boolean copy of the given shape.

    Raises: InputError for another type or shape, saying what the mask is.
    """
    array = np.array(mask)
    if array.dtype != np.bool_ or array.shape != shape:
        raise InputError(f"{what} must be a boolean mask of shape {shape}, not {array.dtype} of shape {array.shape}")
    return array


def text_ranks(ids: tuple[str, ...]) -> Indices:
    """For each identifier its place among all in text order (by code point): what ties are broken by."""
    ranks = np.empty(len(ids), dtype=np.int64)
    # Not numpy's text sort: it drops trailing NUL characters, and would call two identifiers equal.
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return ranks


def equal_inputs(inputs: Sequence[str]) -> Indices | None:
    """For each candidate the position of the first one with the same input, its class; None when all are different.

    A predictor that reads nothing else gives candidates of a class one exact score. The bits of a run are another
    matter: they depend on the batch.
    """
    first: dict[str, int] = {}
    classes = np.array([first.setdefault(text, i) for i, text in enumerate(inputs)], dtype=np.int64)
    return classes if len(first) < len(classes) else None


def require_classes(classes: ArrayLike | None, n: int) -> Indices | None:
    """The classes of equal candidates as int64 [n], if there are any.

    Raises: InputError unless each is the position of the first candidate of its class.
    """
    if classes is None:
        return None
    of = np.asarray(classes, dtype=np.int64)
    fits = of.shape == (n,) and bool(((of >= 0) & (of <= np.arange(n))).all())
    if not (fits and (of[of] == of).all()):
        raise InputError(f"the classes of {n} candidates must name, for each, the first candidate of its class")
    return of


def require_temperature(temperature: float) -> float:
    """The temperature as a float.

    Raises: InputError unless it is finite and above zero.
    """
    value = float(temperature)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"the temperature is {temperature!r}; it must be finite and above 0")
    return value


def _a_few(texts: Iterable[str]) -> str:
    """The first few texts, and how many more there are."""
    items = list(texts)
    rest = len(items) - _NAMED_AT_MOST
    return ", ".join(items[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
