"""Memoised trusted recomputation: equal environments computed once, the bits of a full run in its own geometry.

Only where it is qualified: a product's rows must not depend on how many rows there are, which is a property of the
library, the shape and the processor, so a sample of batches is run both ways and compared bit by bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.decisions.enclosures import Declined
from veristate.devices.certified.exporting import graphs_of
from veristate.devices.certified.members import unfollowed
from veristate.devices.certified.ordered import OrderedEnvironments, OrderedLevel, ordered_environments
from veristate.devices.predictors.chemprop import ChempropPredictor
from veristate.numerics.probes import rectified_segments, rectified_sums

Floats32 = NDArray[np.float32]


def memoised_scores(predictor: ChempropPredictor, member: int, batches: range, env: OrderedEnvironments) -> Floats32:
    """The scores of those batches by one member, float32, as `predictor.run` would give them if it is qualified."""
    model: Any = predictor.models[member]
    starts = env.graphs.atom_starts
    with torch.inference_mode():
        atoms = memoised_atoms(model, env)
        pooled = np.empty((len(starts) - 1, atoms.shape[1]), dtype=np.float32)
        rectified_segments(atoms, env.of, starts, pooled)
        z = _divided(model.agg, torch.from_numpy(pooled), np.diff(starts))
        scores, at = [], 0
        for batch in batches:  # the tail in the run's own geometry: a product of few rows depends on their number
            count = len(predictor.batches[batch])
            scores.append(model.predictor(z[at : at + count])[:, predictor.output])
            at += count
    return np.asarray(torch.cat(scores).numpy())


def memoised_atoms(model: Any, env: OrderedEnvironments) -> Floats32:
    """The pre-activations of the distinct atoms, in the order of additions and the products of Chemprop itself."""
    passing, graphs = model.message_passing, env.graphs
    linear = torch.nn.functional.linear
    place = env.start.place
    inputs = np.concatenate([graphs.atoms[graphs.source[place]], graphs.bonds[place]], axis=1)
    start = passing.W_i(torch.from_numpy(inputs))
    rows = start.numpy()
    for level in env.levels:
        messages = torch.from_numpy(_messages(rows, level))
        rows = linear(messages, passing.W_h.weight, passing.W_h.bias).numpy()
        rows += start.numpy()[level.known]
    sums = rectified_sums(rows, env.sums, np.empty((len(env.sums), rows.shape[1]), dtype=np.float32))
    features = graphs.atoms[env.feature_place]
    joined = np.concatenate([features[env.atom_features], sums[env.atom_sums]], axis=1)
    return np.asarray(passing.W_o(torch.from_numpy(joined)).numpy())


def memoised_pass(predictor: ChempropPredictor, stretches: Sequence[range]) -> Floats32 | Declined:
    """The scores of the whole table [m, n] with the bits of a full run, or why they are not known to be those.

    The first and the last batch of every member are run in full as well, and must give the memoised bits: these are the
    executor's declared sample. What can't be followed declines.
    """
    for model in predictor.models:
        reason = unfollowed(model)
        if reason:
            return Declined(reason=reason, next_strategy="full")
        if not _plain_float32(predictor, model):
            return Declined(reason="memoised bits are known for float32 on the CPU alone", next_strategy="full")
    rows: list[list[Floats32]] = [[] for _ in predictor.models]
    for stretch in stretches:
        env = ordered_environments(graphs_of(predictor, stretch), int(_passing(predictor.models[0]).depth))
        for number in range(len(predictor.models)):
            rows[number].append(memoised_scores(predictor, number, stretch, env))
    scores = np.stack([np.concatenate(parts) for parts in rows])
    different = _differing(predictor, scores)
    return scores if different is None else different


def _differing(predictor: ChempropPredictor, scores: Floats32) -> Declined | None:
    """What declines when a sampled batch, run in full, has other bits."""
    last = len(predictor.batches) - 1
    for number in range(len(predictor.models)):
        for batch in sorted({0, last}):
            span = predictor.batches[batch]
            if predictor.run(number, batch).tobytes() != scores[number, span.start : span.stop].tobytes():
                return Declined(
                    reason=f"member {number} has other bits memoised than in its own geometry, batch {batch}: here the "
                    "rows of a product depend on their number",
                    next_strategy="full",
                )
    return None


def _passing(model: Any) -> Any:
    return model.message_passing


def _messages(rows: Floats32, level: OrderedLevel) -> Floats32:
    """What each distinct bond receives: the sum at its source less its own reverse."""
    sums = rectified_sums(rows, level.sums, np.empty((len(level.sums), rows.shape[1]), dtype=np.float32))
    received = sums[level.received]
    received -= np.maximum(rows, np.float32(0))[level.reverse]
    return received


def _divided(aggregation: Any, pooled: torch.Tensor, counts: NDArray[Any]) -> torch.Tensor:
    if type(aggregation).__name__ == "MeanAggregation":
        return pooled / torch.from_numpy(np.maximum(counts, 1))[:, None]
    return pooled / aggregation.norm if type(aggregation).__name__ == "NormAggregation" else pooled


def _plain_float32(predictor: ChempropPredictor, model: torch.nn.Module) -> bool:
    one = next(model.parameters())
    return one.dtype == torch.float32 and one.device.type == "cpu" and predictor.spec.dtype == "fp32"
