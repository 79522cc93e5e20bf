"""Distinct environments in the order their neighbours are added: equal ones get equal bits, not only equal values."""

from dataclasses import dataclass

from veristate.devices.certified.graphs import (
    BondLevel,
    Graphs,
    Indices,
    Ints,
    bits_of,
    distinct,
    first_of,
    incoming_bonds,
    padded,
    start_level,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedLevel:
    """Distinct bonds of one depth: `sums` [S, D] names the distinct ordered sums of the depth below that atoms receive;
    bond class r has `known[r]` at depth 0, receives sum `received[r]` and takes away its reverse, class `reverse[r]`.
    """

    sums: Ints
    known: Indices
    received: Indices
    reverse: Indices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedEnvironments:
    """Depth 0, the depths above it, and the atoms: `atom_features` [R] and `atom_sums` [R] into `sums`; `of` [V]."""

    graphs: Graphs
    feature_place: Indices
    start: BondLevel
    levels: tuple[OrderedLevel, ...]
    sums: Ints
    atom_features: Indices
    atom_sums: Indices
    of: Indices


def ordered_environments(graphs: Graphs, depth: int) -> OrderedEnvironments:
    """The distinct environments when each atom adds what arrives in the order of its bonds."""
    feature_place, feature_of = distinct(bits_of(graphs.atoms))
    start, incoming = start_level(graphs, feature_of), incoming_bonds(graphs)
    of, levels = start.of, []
    for _ in range(1, depth):
        sums_place, sums_of, arriving = _sums(of, incoming)
        reverse = of[graphs.reverse]
        received = sums_of[graphs.source]
        key = (start.of * len(sums_place) + received) * (int(of.max(initial=0)) + 1) + reverse
        place, following = first_of(key)
        levels.append(
            OrderedLevel(
                sums=arriving[sums_place], known=start.of[place], received=received[place], reverse=reverse[place]
            )
        )
        of = following
    sums_place, sums_of, arriving = _sums(of, incoming)
    place, atoms_of = first_of(feature_of * len(sums_place) + sums_of)
    return OrderedEnvironments(
        graphs=graphs,
        feature_place=feature_place,
        start=start,
        levels=tuple(levels),
        sums=arriving[sums_place],
        atom_features=feature_of[place],
        atom_sums=sums_of[place],
        of=atoms_of,
    )


def _sums(of: Indices, incoming: Ints) -> tuple[Indices, Indices, Ints]:
    arriving = padded(of)[incoming]
    place, sums_of = distinct(arriving)
    return place, sums_of, arriving
