"""The graphs of a stretch of the table as plain arrays, and which of their environments are distinct.

Two directed bonds whose environments are equal to a depth get equal values there: one of them stands for all. Keys are
integers that name exact equality of the level below, features are compared bit by bit; a hash only says where to look.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.probes import equal_rows, row_hashes

Indices = NDArray[np.intp]
Ints = NDArray[np.integer[Any]]
_MOST_NEIGHBOURS = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graphs:
    """Candidates' graphs one after another. Shapes: atoms [V, F], bonds [E, G]; source, target, reverse [E];
    `atom_starts` and `bond_starts` [n + 1] say where each candidate's rows begin.
    """

    atoms: NDArray[np.float32]
    bonds: NDArray[np.float32]
    source: Indices
    target: Indices
    reverse: Indices
    atom_starts: Indices
    bond_starts: Indices

    def __len__(self) -> int:
        return len(self.atom_starts) - 1

    def only(self, positions: Sequence[int] | Indices) -> "Graphs":
        """The graphs of these candidates, in this order."""
        chosen = np.asarray(positions, dtype=np.intp)
        atoms, atom_starts = _spans(self.atom_starts, chosen)
        bonds, bond_starts = _spans(self.bond_starts, chosen)
        to_atom = np.repeat(atom_starts[:-1] - self.atom_starts[chosen], np.diff(bond_starts))
        to_bond = np.repeat(bond_starts[:-1] - self.bond_starts[chosen], np.diff(bond_starts))
        return Graphs(
            atoms=self.atoms[atoms],
            bonds=self.bonds[bonds],
            source=self.source[bonds] + to_atom,
            target=self.target[bonds] + to_atom,
            reverse=self.reverse[bonds] + to_bond,
            atom_starts=atom_starts,
            bond_starts=bond_starts,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BondLevel:
    """Distinct bonds of one depth: `place` [R] of the first of each, ascending, and the class of every bond, `of` [E].
    `known` [R] names the class at depth 0; `index` [R, D] the classes of the depth below that are added, -1 for none.
    """

    place: Indices
    of: Indices
    known: Indices
    index: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AtomLevel:
    """Distinct atoms: `place`, `of` and `index` as for bonds; `features` [R] names the distinct atom features."""

    place: Indices
    of: Indices
    features: Indices
    index: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environments:
    """The distinct environments of some graphs to a depth; `bonds[0]` has no index to add."""

    graphs: Graphs
    atom_features: Indices
    bonds: tuple[BondLevel, ...]
    atoms: AtomLevel

    @property
    def start_rows(self) -> NDArray[np.float32]:
        """Atom and bond features of the distinct bonds at depth 0 [R, F + G]."""
        place = self.bonds[0].place
        return np.concatenate([self.graphs.atoms[self.graphs.source[place]], self.graphs.bonds[place]], axis=1)

    @property
    def feature_rows(self) -> NDArray[np.float32]:
        """The distinct atom features."""
        return self.graphs.atoms[self.atom_features]


def environments(graphs: Graphs, depth: int) -> Environments:
    """The distinct environments of all bonds at depths 0..depth-1 and of all atoms, in any order of neighbours.

    Equal environments have equal multisets of neighbours, so equal exact sums; not equal bits in a narrow format.
    """
    feature_place, feature_of = distinct(bits_of(graphs.atoms))
    start = start_level(graphs, feature_of)
    incoming = incoming_bonds(graphs)
    levels = [start]
    for _ in range(1, depth):
        below = padded(levels[-1].of)
        around = incoming[graphs.source]
        added = np.where(around == graphs.reverse[:, None], -1, below[around])
        added = -np.sort(-added, axis=1)[:, : max(added.shape[1] - 1, 0)]
        place, of = distinct(np.concatenate([start.of[:, None].astype(np.int32), added], axis=1))
        levels.append(BondLevel(place=place, of=of, known=start.of[place], index=added[place]))
    added = -np.sort(-padded(levels[-1].of)[incoming], axis=1)
    place, of = distinct(np.concatenate([feature_of[:, None].astype(np.int32), added], axis=1))
    atoms = AtomLevel(place=place, of=of, features=feature_of[place], index=added[place])
    return Environments(graphs=graphs, atom_features=feature_place, bonds=tuple(levels), atoms=atoms)


def distinct(keys: Ints) -> tuple[Indices, Indices]:
    """(place, of): where each distinct row of `keys` [n, k] first stands, ascending, and which of them each row is."""
    return equal_rows(keys, row_hashes(keys))


def first_of(keys: Ints) -> tuple[Indices, Indices]:
    """(place, of) for scalar keys."""
    return distinct(keys[:, None])


def incoming_bonds(graphs: Graphs) -> NDArray[np.int32]:
    """For each atom the bonds that end there, in order, padded with -1. Shapes: [V, most].

    Raises: InputError where an atom has more than 64: such a graph is not for these tables.
    """
    order = np.argsort(graphs.target, kind="stable")
    counts = np.bincount(graphs.target, minlength=len(graphs.atoms))
    most = int(counts.max(initial=0))
    if most > _MOST_NEIGHBOURS:
        raise InputError(f"an atom has {most} neighbours; environments go to {_MOST_NEIGHBOURS}: use --strategy full")
    table = np.full((len(graphs.atoms), max(most, 1)), -1, dtype=np.int32)
    column = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[graphs.target[order], column] = order
    return table


def start_level(graphs: Graphs, feature_of: Indices) -> BondLevel:
    """The distinct bonds at depth 0: equal features of their atom and of themselves."""
    bond_place, bond_of = distinct(bits_of(graphs.bonds))
    place, of = first_of(feature_of[graphs.source] * max(len(bond_place), 1) + bond_of)
    return BondLevel(place=place, of=of, known=np.arange(len(place)), index=np.empty((len(place), 0), dtype=np.int32))


def bits_of(rows: NDArray[np.float32]) -> NDArray[np.int32]:
    """The rows' bits: 0 and -0 are two, a NaN equals itself."""
    return np.ascontiguousarray(rows).view(np.int32)


def padded(of: Indices) -> NDArray[np.int32]:
    """The classes with -1 behind the last, where an index of -1 finds it."""
    return np.append(of, -1).astype(np.int32)


def _spans(starts: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """The rows of the chosen spans one after another, and where each begins there."""
    lengths = starts[chosen + 1] - starts[chosen]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(begins[-1]) + np.repeat(starts[chosen] - begins[:-1], lengths)
    return rows.astype(np.intp), begins.astype(np.intp)
