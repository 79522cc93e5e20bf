"""What many interventions on one pair do to an endpoint, as distances from the reference's or the candidate's."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from veristate.audit.recovery.blocks import Blocks, BlockSet, Indices, Pair, require_fit
from veristate.audit.recovery.rows import Codes, RowEndpoint, without_nan

ArrayEndpoint = Callable[[NDArray[Any]], Hashable]
Side = Literal["reference", "candidate"]
Sets = Sequence[BlockSet] | NDArray[np.bool_]
Distances = NDArray[np.intp]

# Values that one batch of interventions holds at once: some tens of megabytes.
AT_ONCE = 2_000_000


class Replays(Protocol):
    """The endpoints of interventions on one pair. A set of blocks is a list of their numbers; many sets may also be
    given as a mask [sets, blocks].
    """

    @property
    def blocks(self) -> Blocks:
        """What may be replaced."""
        ...

    def restored(self, sets: Sets, to: Side = "reference") -> Distances:
        """[sets], the distance of D(F(R_S)), the candidate with S restored, from D(F(h)) or D(F(c))."""
        ...

    def transplanted(self, sets: Sets, to: Side = "candidate") -> Distances:
        """[sets], the distance of D(F(T_S)), the reference with S transplanted, from D(F(c)) or D(F(h))."""
        ...


def replays(pair: Pair, blocks: Blocks, endpoint: RowEndpoint | ArrayEndpoint) -> Replays:
    """The replays of a pair: row by row where the endpoint allows it, else each intervention as a whole array.

    An endpoint that is a plain callable may run a continuation: give D(F(x)). Its distances are 0 and 1.
    Raises: InputError when the blocks don't fit the pair.
    """
    require_fit((pair,), blocks)
    if isinstance(endpoint, RowEndpoint):
        return RowReplays.of(pair, blocks, endpoint)
    return WholeReplays(blocks=blocks, pair=pair, endpoint=endpoint)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeReplays:
    """Every intervention as a whole array: the definition, one call of the endpoint each."""

    blocks: Blocks
    pair: Pair
    endpoint: ArrayEndpoint

    def restored(self, sets: Sets, to: Side = "reference") -> Distances:
        """1 where the restored candidate's endpoint differs from that of `to`."""
        return self._distances(sets, self.pair.h, self.pair.c, to)

    def transplanted(self, sets: Sets, to: Side = "candidate") -> Distances:
        """1 where the transplanted reference's endpoint differs from that of `to`."""
        return self._distances(sets, self.pair.c, self.pair.h, to)

    def _distances(self, sets: Sets, inside: NDArray[Any], outside: NDArray[Any], to: Side) -> Distances:
        target = self.endpoint(self.pair.h if to == "reference" else self.pair.c)
        found = np.ones(len(sets), dtype=np.intp)
        for number in range(len(sets)):
            chosen = self.blocks.selection(_numbers(sets[number])).mask
            found[number] = self.endpoint(np.where(chosen, inside, outside)) != target
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Rows [n] with about as many contenders [n, m] each, filled up with -inf. `places` are those of their blocks among
    the relevant ones; what is in no block has the last.
    """

    h: NDArray[Any]
    c: NDArray[Any]
    places: Indices
    target: dict[Side, Codes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowReplays:
    """Only rows in which a contender differs are looked at, and of those only the contenders.

    Law: the distances are those of the whole arrays' lists.
    """

    blocks: Blocks
    endpoint: RowEndpoint
    rows: tuple[_Rows, ...]
    relevant: Indices
    places: Indices

    @classmethod
    def of(cls, pair: Pair, blocks: Blocks, endpoint: RowEndpoint) -> "RowReplays":
        """The replays of a pair; its last axis is a row."""
        n = pair.h.shape[-1]
        h, c = without_nan(pair.h).reshape(-1, n), without_nan(pair.c).reshape(-1, n)
        labels = blocks.labels.reshape(-1, n)
        contends = endpoint.contenders(np.minimum(h, c), np.maximum(h, c))
        active = np.flatnonzero((contends & (h != c)).any(axis=1))
        # Only blocks with a contender matter: of a million single coordinates some thousand.
        relevant = np.setdiff1d(labels[active][contends[active]], [-1])
        places = np.full(blocks.count + 1, len(relevant), dtype=np.intp)
        places[relevant] = np.arange(len(relevant))
        # Rows of alike length together: one broken row doesn't make all others as long.
        sizes = np.ceil(np.log2(np.maximum(np.count_nonzero(contends[active], axis=1), 1)))
        groups = (active[sizes == size] for size in np.unique(sizes))
        return cls(
            blocks=blocks,
            endpoint=endpoint,
            rows=tuple(_pack(h[rows], c[rows], places[labels[rows]], contends[rows], endpoint) for rows in groups),
            relevant=relevant,
            places=places,
        )

    def restored(self, sets: Sets, to: Side = "reference") -> Distances:
        """The sum over rows of the distances of the restored candidate's lists from those of `to`."""
        return self._distances(sets, to, restoring=True)

    def transplanted(self, sets: Sets, to: Side = "candidate") -> Distances:
        """The sum over rows of the distances of the transplanted reference's lists from those of `to`."""
        return self._distances(sets, to, restoring=False)

    def _distances(self, sets: Sets, to: Side, *, restoring: bool) -> Distances:
        found = np.zeros(len(sets), dtype=np.intp)
        if not self.rows:
            return found
        step = max(1, AT_ONCE // max(max(rows.h.size for rows in self.rows), len(self.relevant) + 1))
        for start in range(0, len(sets), step):
            part = slice(start, start + step)
            chosen = self._chosen(sets[part])
            for rows in self.rows:
                picked = chosen[:, rows.places]
                mixed = np.where(picked, rows.h, rows.c) if restoring else np.where(picked, rows.c, rows.h)
                codes = self.endpoint.codes(mixed)
                found[part] += self.endpoint.distance(codes, rows.target[to]).sum(axis=1)
        return found

    def _chosen(self, sets: Sets) -> NDArray[np.bool_]:
        """[sets, relevant + 1]; the last column stands for all other coordinates and is false."""
        chosen = np.zeros((len(sets), len(self.relevant) + 1), dtype=np.bool_)
        if isinstance(sets, np.ndarray) and sets.dtype == np.bool_:
            chosen[:, :-1] = sets[:, self.relevant]
            return chosen
        for number, blocks in enumerate(sets):
            chosen[number, self.places[self.blocks.numbers(blocks)]] = True
        chosen[:, -1] = False
        return chosen


def _pack(
    h: NDArray[Any], c: NDArray[Any], places: Indices, contends: NDArray[np.bool_], endpoint: RowEndpoint
) -> _Rows:
    """The contenders of each row side by side, in their order."""
    counts = np.count_nonzero(contends, axis=1)
    shape = (len(h), int(counts.max(initial=0)))
    place = np.arange(shape[1]) < counts[:, None]
    packed = []
    for source, nothing in ((h, -np.inf), (c, -np.inf), (places, -1)):
        values = np.full(shape, nothing, dtype=source.dtype)
        values[place] = source[contends]
        packed.append(values)
    target: dict[Side, Codes] = {"reference": endpoint.codes(packed[0]), "candidate": endpoint.codes(packed[1])}
    return _Rows(h=packed[0], c=packed[1], places=packed[2], target=target)


def _numbers(blocks: BlockSet) -> NDArray[np.intp]:
    """A set of blocks as numbers, where it may be a mask."""
    given = np.asarray(blocks)
    return np.asarray(np.flatnonzero(given) if given.dtype == np.bool_ else given, dtype=np.intp)
