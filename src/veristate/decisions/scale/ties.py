"""Who comes first among candidates whose values are equal. Identifiers are read only where that matters."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.decisions.table import Indices, Mask


class Ties:
    """The order of equals: by identifier as text, or by position where there are no identifiers.

    Raises: InputError when the identifiers are not one for each of n candidates; later, for one that is not text, and
    for two candidates with one identifier, if they meet where it matters.
    """

    __slots__ = ("_identifiers",)

    def __init__(self, identifiers: Sequence[str] | NDArray[np.str_] | None, n: int) -> None:
        if isinstance(identifiers, str) or (identifiers is not None and len(identifiers) != n):
            given = "one text" if isinstance(identifiers, str) else f"{len(identifiers)}"
            raise InputError(f"{n} scores need {n} identifiers, not {given}")
        self._identifiers = identifiers

    @property
    def by_position(self) -> bool:
        """Whether there are no identifiers."""
        return self._identifiers is None

    def text(self, position: int) -> str | None:
        """The identifier of a candidate, None where there are none."""
        if self._identifiers is None:
            return None
        found = self._identifiers[position]
        if not isinstance(found, str):
            raise InputError(f"the identifier at position {position} is {found!r}; identifiers must be text")
        return str(found)

    def before(self, positions: Indices, mark: int) -> Mask:
        """For each candidate whether it comes before the one at `mark`, all being equal."""
        if self._identifiers is None:
            return positions < mark
        text, result = self._known(mark), np.zeros(len(positions), dtype=np.bool_)
        for number, position in enumerate(positions.tolist()):
            other = self._known(position)
            result[number] = other < text
            if other == text and position != mark:
                raise InputError(f"the identifier {text!r} is at positions {mark} and {position}; make them unique")
        return result

    def first(self, positions: Indices, limit: int, held: list[int] | None = None) -> list[int]:
        """The `limit` first of `held`, which are in order, and of `positions`, which ascend and lie behind them."""
        so_far = held or []
        if self._identifiers is None:
            fresh = positions[: limit - len(so_far)].tolist()
            return so_far + fresh if fresh else so_far
        fresh = positions.tolist()
        if len(so_far) == limit:
            worst = self._known(so_far[-1])
            fresh = [position for position in fresh if self._known(position) < worst]
        return sorted(so_far + fresh, key=self._known)[:limit] if fresh else so_far

    def _known(self, position: int) -> str:
        text = self.text(position)
        assert text is not None, "asked only where there are identifiers"
        return text
