"""The suspect's side: while a member runs, the rows that stand for their environments are taken from it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from chemprop.data import BatchMolGraph
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.certified.bounds import export_names
from veristate.devices.certified.graphs import Environments, Graphs
from veristate.devices.faults import FaultModel, injecting
from veristate.devices.predictors.chemprop import ChempropPredictor
from veristate.numerics.probes import Export


def graphs_of(predictor: ChempropPredictor, batches: range) -> Graphs:
    """The graphs of consecutive batches of the predictor's table."""
    parts = [batch_graph(predictor, b) for b in batches]
    atoms = np.cumsum([0, *(len(p.V) for p in parts)])
    bonds = np.cumsum([0, *(len(p.E) for p in parts)])
    owners = [p.batch.cpu().numpy() for p in parts]
    counts = [np.bincount(o, minlength=len(predictor.batches[b])) for o, b in zip(owners, batches, strict=True)]
    ends = [p.edge_index.cpu().numpy() for p in parts]
    bond_counts = [np.bincount(o[e[0]], minlength=len(c)) for o, e, c in zip(owners, ends, counts, strict=True)]
    return Graphs(
        atoms=np.concatenate([p.V.cpu().numpy() for p in parts]).astype(np.float32),
        bonds=np.concatenate([p.E.cpu().numpy() for p in parts]).astype(np.float32),
        source=np.concatenate([e[0] + a for e, a in zip(ends, atoms, strict=False)]).astype(np.intp),
        target=np.concatenate([e[1] + a for e, a in zip(ends, atoms, strict=False)]).astype(np.intp),
        reverse=np.concatenate([p.rev_edge_index.cpu().numpy() + b for p, b in zip(parts, bonds, strict=False)]).astype(
            np.intp
        ),
        atom_starts=np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.intp),
        bond_starts=np.concatenate([[0], np.cumsum(np.concatenate(bond_counts))]).astype(np.intp),
    )


def batch_graph(predictor: ChempropPredictor, batch: int) -> BatchMolGraph:
    """The graph of one batch as the predictor's model reads it."""
    return predictor.graphs[batch]


Span = tuple[int, int, int, int]
Places = Mapping[str, NDArray[np.intp]]
Room = Callable[[str, tuple[int, int]], NDArray[np.float32]]


def places_of(env: Environments, trusted: int) -> dict[str, NDArray[np.intp]]:
    """By name of what is exported, the rows of the stretch that stand for their environments, ascending."""
    names = export_names(len(env.bonds), trusted)
    return {name: (env.atoms if name == "o" else env.bonds[int(name[1:])]).place for name in names}


def _fresh(_name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.empty(shape, dtype=np.float32)


class Exporter:
    """Takes the representative rows of one stretch of batches from a member's run; one for each member and stretch.

    Rows are written once, to where `room` (of a name and a shape) says.
    """

    def __init__(self, depth: int, places: Places, starts: dict[int, Span], room: Room = _fresh) -> None:
        self._depth, self._places, self._starts, self._room = depth, places, starts, room
        self.rows: dict[str, NDArray[np.float32]] = {}

    @contextmanager
    def taking(self, model: torch.nn.Module, batch: int) -> Iterator[None]:
        """While open, what the activation of the message passing is given is the export of that batch."""
        tau: Any = model.message_passing.tau  # type: ignore[union-attr]
        calls = iter(["a0", *(f"a{t}" for t in range(1, self._depth)), "o"])

        def seen(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            name = next(calls, "")  # the tail may share the module
            if name in self._places:
                self._take(name, batch, inputs[0].detach())

        handle = tau.register_forward_pre_hook(seen)
        try:
            yield
        finally:
            handle.remove()
        if next(calls, None) is not None:
            raise InputError("the model called its activation less often than its depth says; nothing was exported")

    def _take(self, name: str, batch: int, given: torch.Tensor) -> None:
        """Copies the wanted rows of that batch. Classes are numbered by place, so they follow."""
        place = self._places[name]
        if name not in self.rows:
            self.rows[name] = self._room(name, (len(place), given.shape[1]))
        bond, bond_end, atom, atom_end = self._starts[batch]
        low, high = (atom, atom_end) if name == "o" else (bond, bond_end)
        start, stop = np.searchsorted(place, [low, high])
        chosen = torch.from_numpy(place[start:stop] - low).to(given.device)
        into = torch.from_numpy(self.rows[name][start:stop])
        if given.dtype == torch.float32 and given.device.type == "cpu":
            torch.index_select(given, 0, chosen, out=into)
        else:
            into.copy_(given.index_select(0, chosen))


def batch_spans(predictor: ChempropPredictor, batches: range) -> dict[int, Span]:
    """For each batch the bonds and the atoms that are its own, counted from the first of the stretch."""
    spans, bond, atom = {}, 0, 0
    for b in batches:
        graph = batch_graph(predictor, b)
        spans[b] = (bond, bond + len(graph.E), atom, atom + len(graph.V))
        bond, atom = bond + len(graph.E), atom + len(graph.V)
    return spans


def run_exporting(
    predictor: ChempropPredictor,
    member: int,
    batches: range,
    exporter: Exporter,
    *,
    fault: FaultModel | None = None,
    progress: Callable[[tuple[int, int]], None] | None = None,
) -> NDArray[np.float32]:
    """The suspect's scores of these batches by one member. `fault` acts before anything is taken."""
    model, scores = predictor.models[member], []
    for batch in batches:
        with injecting(model, fault, member, batch) if fault else nullcontext(), exporter.taking(model, batch):
            scores.append(predictor.run(member, batch))
        if progress:
            progress((member, batch))
    return np.concatenate(scores)


def exported_run(
    predictor: ChempropPredictor,
    member: int,
    batches: range,
    env: Environments,
    *,
    trusted: int,
    weights: str,
    fault: FaultModel | None = None,
) -> tuple[NDArray[np.float32], Export]:
    """The scores of these batches by one member and its export, fixed: from here on probes may be drawn."""
    exporter = Exporter(len(env.bonds), places_of(env, trusted), batch_spans(predictor, batches))
    scores = run_exporting(predictor, member, batches, exporter, fault=fault)
    return scores, Export.fix({name: [rows] for name, rows in exporter.rows.items()}, weights)
