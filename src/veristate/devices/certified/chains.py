"""Score bounds of a user's feed-forward model: its exported layers checked row by row, the rest evaluated in FP64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.models import Propagation, Step
from veristate.numerics.probes import (
    Dense,
    Layer,
    Pool,
    Probes,
    RowMap,
    Seen,
    Standing,
    Term,
    check_rows,
    forward,
    pull_back,
    raised,
    reach,
    sigmoid_interval,
    softmax_interval,
)
from veristate.numerics.probes.rounding import Floats


def chain_rows(propagation: Propagation, inputs: tuple[int, ...]) -> int:
    """How many exported rows inputs of this shape, [n, F] or [n, T, F], make."""
    rows, total = int(np.prod(inputs[:-1])), 0
    for step in propagation.steps:
        rows = inputs[0] if step.dense is None else rows
        total += rows if step.exported else 0
    return total


@np.errstate(invalid="ignore", over="ignore")
def chain_bounds(propagation: Propagation, inputs: NDArray[Any], probes: Probes | None = None) -> MemberBounds:
    """Bounds on the scores of candidates whose trusted `inputs` are [n, F] or [n, T, F]; all FP64 without probes.

    Maths: radii forward through all layers, the Jacobian back through all of them to the inputs, which are exact.
    Raises: InputError for inputs that don't fit the model.
    """
    fed = propagation.steps[0].dense
    fits = inputs.ndim in (2, 3) and len(inputs) and (fed is None or inputs.shape[-1] == fed.W.shape[1])
    if not fits or (inputs.ndim == 2 and any(step.dense is None for step in propagation.steps)):
        raise InputError(f"inputs of shape {inputs.shape} don't fit the first layer, or have no dimension to pool over")
    rows = inputs.reshape(-1, inputs.shape[-1])
    layers: list[Layer] = []
    standings = [Standing(values=rows, own=np.zeros(len(rows)), radius=np.zeros(len(rows)))]
    widest = 0.0
    for step in propagation.steps:
        before = standings[-1]
        layer = _layer(step, len(inputs), len(before.values))
        seen = {}
        if probes is not None and step.exported and isinstance(layer, Dense):
            eps = check_rows(probes, step.name, _row_map(layer, before), weights=propagation.weights).eps
            seen = {0: Seen(values=probes.export.values[step.name], eps=eps)}
            widest = max(widest, float(eps.max(initial=0.0)))
        layers.append(layer)
        standings.append(forward([layer], before.values, before.radius, seen)[-1])
    return _linked(propagation, layers, standings, len(inputs), widest)


def _linked(
    propagation: Propagation, layers: list[Layer], standings: list[Standing], count: int, widest: float
) -> MemberBounds:
    last = standings[-1]
    values = np.asarray(last.values, dtype=np.float64)
    if len(values) != count:
        raise InputError(f"the model gives {len(values)} scores for {count} candidates")
    columns = range(values.shape[1]) if propagation.link == "softmax" else [propagation.output]
    moved = np.stack([_reached(layers, standings, column) for column in columns], axis=1)
    at = propagation.output
    if propagation.link == "softmax":
        lower, upper = softmax_interval(values, moved, at)
        return MemberBounds(output=values[:, at], reach=moved[:, at], lower=lower, upper=upper, widest_eps=widest)
    output, span = values[:, at], moved[:, 0]
    if propagation.link == "sigmoid":
        lower, upper = sigmoid_interval(output, span)
    else:
        known = np.isfinite(output) & np.isfinite(span)
        lower = np.where(known, np.nextafter(output - span, -np.inf), -np.inf)
        upper = np.where(known, np.nextafter(output + span, np.inf), np.inf)
    return MemberBounds(output=output, reach=span, lower=lower, upper=upper, widest_eps=widest)


def _reached(layers: list[Layer], standings: list[Standing], column: int) -> Floats:
    """The smaller of what the Jacobian and what the norms alone allow."""
    last = layers[-1]
    assert isinstance(last, Dense)
    count = len(standings[-1].values)
    pull = pull_back(layers, standings, column)
    radius = standings[0].radius
    owners = np.repeat(np.arange(count), len(radius) // count)
    by_norms = raised(last.row_norms[column] * standings[-2].radius + standings[-1].own, 8)
    return np.asarray(np.fmin(reach(pull, radius, owners, count), by_norms))


def _layer(step: Step, candidates: int, rows: int) -> Layer:
    if step.dense is not None:
        return step.dense
    each = rows // candidates
    divisor = np.full(candidates, step.divide or float(each))
    return Pool(starts=np.arange(candidates + 1) * each, divisor=divisor, slope=step.slope)


def _row_map(layer: Dense, before: Standing) -> RowMap:
    index = np.arange(len(before.values))[:, None]
    term = Term(W=layer.W, inputs=before.values, index=index, slope=layer.slope)
    return RowMap(terms=(term,), bias=layer.b)
