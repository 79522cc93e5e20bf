"""Feed-forward propagation: how far a score can move when the values along the way are only known within radii.

Forward, every layer gets a radius from the one before (T0: norms). Backward, the exact local Jacobian of the score is
pulled through the layers whose activations are stable within their radii; unstable ones are charged whole (T1, and T2
where the pull goes on through exported layers). All of it in FP64, every rounding charged outward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.probes.rounding import Floats, gamma_upper, raised
from veristate.numerics.probes.spectral import row_norms_upper, spectral_norm_upper
from veristate.numerics.probes.sums import pass_stable

Indices = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """y = W act(x) + b, act(x) = max(x, slope x): slope 1 is no activation, 0 a ReLU. W [N, K], b [N] represented."""

    W: Floats
    b: Floats
    slope: float = 1.0
    norm: float = field(init=False)
    abs_norm: float = field(init=False)
    row_norms: Floats = field(init=False)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.W).all() and np.isfinite(self.b).all() and 0.0 <= self.slope <= 1.0):
            raise InputError("a layer needs finite weights and an activation slope in 0..1")
        object.__setattr__(self, "norm", spectral_norm_upper(self.W))
        object.__setattr__(self, "abs_norm", spectral_norm_upper(np.abs(self.W)))
        object.__setattr__(self, "row_norms", row_norms_upper(self.W))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Row s of the output is the sum of act(x) over starts[s] <= row < starts[s + 1], divided by divisor[s]."""

    starts: Indices
    divisor: Floats
    slope: float = 1.0


Layer = Dense | Pool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Exported outputs of a dense layer [R, N], with `eps` [R], bounds of their row errors."""

    values: NDArray[Any]
    eps: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """The values [R, N] at one place, `own` [R] what that layer may have erred by itself, and `radius` [R]: the exact
    values, from the exact inputs, lie within it in the Euclidean norm.
    """

    values: NDArray[Any]
    own: Floats
    radius: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pull:
    """How one output depends on the inputs: |output* - output| <= |J dx| + excess |dx| + rest, per row of inputs.

    Shapes: J [R, K], excess [R] per input row; rest [S] per output row.
    """

    J: Floats
    excess: Floats
    rest: Floats


@np.errstate(invalid="ignore", over="ignore")
def forward(
    layers: Sequence[Layer], inputs: NDArray[Any], radius: Floats, seen: Mapping[int, Seen] | None = None
) -> list[Standing]:
    """The standing before the first layer and after each: exported values where `seen`, else evaluated in FP64."""
    standings = [Standing(values=inputs, own=np.zeros(len(inputs)), radius=radius)]
    for number, layer in enumerate(layers):
        before = standings[-1]
        x = _activated(before.values, layer.slope)
        norms = row_norms_upper(before.values)
        if isinstance(layer, Pool):
            standings.append(_pooled(layer, x, norms, before))
        elif seen is not None and number in seen:
            own = seen[number].eps
            after = raised(layer.norm * before.radius + own, 4)
            standings.append(Standing(values=seen[number].values, own=own, radius=np.asarray(after)))
        else:
            own = raised(_rounding(layer, norms), 8)
            after = raised(layer.norm * before.radius + own, 4)
            standings.append(Standing(values=x @ layer.W.T + layer.b, own=own, radius=np.asarray(after)))
    return standings


def chain_values(layers: Sequence[Dense], inputs: NDArray[Any]) -> list[Floats]:
    """What each layer gives in FP64, without bounds. Shapes: [R, K] to [R, N] each."""
    found, x = [], inputs
    for layer in layers:
        x = _activated(x, layer.slope) @ layer.W.T + layer.b
        found.append(x)
    return found


@np.errstate(invalid="ignore", over="ignore")
def pull_back(layers: Sequence[Layer], standings: Sequence[Standing], output: int) -> Pull:
    """How that output of the last layer, a dense one, depends on the inputs of the first.

    Maths: with q the Jacobian so far, a ReLU whose |value| exceeds its radius passes q or nothing, all others add
    |q_j| times their radius to the rest; a layer's own error adds |q| own. What q itself was rounded by is charged
    against the radius it meets.
    """
    last = layers[-1]
    if not isinstance(last, Dense):
        raise InputError("the last layer must be a dense one")
    rows = len(standings[-1].values)
    q = np.broadcast_to(last.W[output], (rows, last.W.shape[1])).copy()
    excess = np.zeros(rows)
    rest = standings[-1].own.copy()
    owners = np.arange(rows)
    slope = last.slope
    for number in range(len(layers) - 2, -1, -1):
        layer, before, after = layers[number], standings[number], standings[number + 1]
        q, charged = _through_activation(q, layer, before, after, slope)
        charged = charged + excess * after.radius + row_norms_upper(q) * after.own
        rest = rest + np.bincount(owners, weights=charged, minlength=rows)
        if isinstance(layer, Pool):
            counts = np.diff(layer.starts)
            q = np.repeat(q / layer.divisor[:, None], counts, axis=0)
            owners = np.repeat(owners, counts)
            excess = row_norms_upper(q) * 4 * 2.0**-53
        else:
            excess = gamma_upper(len(layer.W) + 2) * layer.abs_norm * row_norms_upper(q)
            q = q @ layer.W
        slope = layer.slope
    if slope != 1.0:
        q, charged = _through_inputs(q, standings[0], slope)
        rest = rest + np.bincount(owners, weights=charged, minlength=rows)
    roundings = 64 + q.shape[1] + len(q) // max(rows, 1) + max(len(s.values) // max(rows, 1) for s in standings)
    return Pull(J=q, excess=np.asarray(raised(excess, 64)), rest=np.asarray(raised(rest, 4 * roundings)))


def reach(pull: Pull, radius: Floats, owners: Indices, count: int) -> Floats:
    """How far the output of each of `count` rows can move when input row i moves by at most radius[i]."""
    moved = (row_norms_upper(pull.J) + pull.excess) * radius
    total = np.bincount(owners, weights=np.nan_to_num(moved, nan=np.inf), minlength=count) + pull.rest
    return np.asarray(raised(total, 16 + len(owners)))


def sigmoid_interval(logit: Floats, reach_upper: Floats) -> tuple[Floats, Floats]:
    """Bounds of sigmoid(l) for |l - logit| <= reach_upper; 0 and 1 where nothing is known.

    Maths: increasing. exp is taken as accurate to 2^-48 (numpy's own: 4 units), and 2^-45 is charged.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        room = np.abs(logit) * 2.0**-52
        low, high = (_sigmoid(logit - reach_upper - room), _sigmoid(logit + reach_upper + room))
    known = np.isfinite(logit) & np.isfinite(reach_upper)
    lower = np.where(known, np.maximum(low * (1 - 2.0**-45) - 2.0**-900, 0.0), 0.0)
    return lower, np.where(known, np.minimum(high * (1 + 2.0**-45) + 2.0**-900, 1.0), 1.0)


def softmax_interval(logits: Floats, reach_upper: Floats, chosen: int) -> tuple[Floats, Floats]:
    """Bounds of softmax(l)[chosen] for |l_j - logits_j| <= reach_upper_j. Shapes: [R, C] both to [R]."""
    others = [j for j in range(logits.shape[1]) if j != chosen]
    ends = []
    for sign in (-1.0, 1.0):
        with np.errstate(invalid="ignore", over="ignore"):
            gap = logits[:, others] - logits[:, [chosen]]
            slack = reach_upper[:, others] + reach_upper[:, [chosen]]
            slack = slack + (np.abs(logits[:, others]) + np.abs(logits[:, [chosen]])) * 2.0**-51
            ends.append(1.0 / (1.0 + np.exp(gap - sign * slack).sum(axis=1)))
    known = np.isfinite(logits).all(axis=1) & np.isfinite(reach_upper).all(axis=1)
    charge = 2.0**-45 + logits.shape[1] * 2.0**-51
    lower = np.where(known, np.maximum(ends[0] * (1 - charge) - 2.0**-900, 0.0), 0.0)
    return lower, np.where(known, np.minimum(ends[1] * (1 + charge) + 2.0**-900, 1.0), 1.0)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _activated(values: NDArray[Any], slope: float) -> Floats:
    x = values.astype(np.float64)
    return x if slope == 1.0 else np.maximum(x, slope * x if slope else 0.0)


def _rounding(layer: Dense, norms: Floats) -> Floats:
    """What FP64 may do to W act(x) + b, in the norm."""
    bias = float(row_norms_upper(layer.b[None])[0])
    return np.asarray(gamma_upper(layer.W.shape[1] + 6) * (layer.abs_norm * norms + bias) + 2.0**-900)


def _pooled(layer: Pool, x: Floats, norms: Floats, before: Standing) -> Standing:
    longest = int(np.diff(layer.starts).max(initial=0))
    sums = [_segment_sums(a, layer.starts) for a in (norms, before.radius)]
    own = raised(gamma_upper(longest + 6) * sums[0] / layer.divisor, longest + 8)
    radius = raised(sums[1] / layer.divisor + own, longest + 8)
    values = _segment_sums(x, layer.starts) / layer.divisor[:, None]
    return Standing(values=values, own=np.asarray(own), radius=np.asarray(radius))


def _segment_sums(values: Floats, starts: Indices) -> Floats:
    """Sums over consecutive rows; an empty segment is zero."""
    out = np.zeros((len(starts) - 1, *values.shape[1:]))
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        out[filled] = np.add.reduceat(values, starts[filled], axis=0)
    return out


def _through_activation(
    q: Floats, layer: Layer, before: Standing, after: Standing, slope: float
) -> tuple[Floats, Floats]:
    """Q behind the activation that follows `layer`, and what its unstable elements are charged with."""
    if slope == 1.0:
        return q, np.zeros(len(q))
    each: tuple[Floats, Floats, Floats] | None = None
    if isinstance(layer, Dense):
        each = (np.asarray(raised(before.radius, 8)), np.asarray(raised(after.own, 8)), layer.row_norms)
    return pass_stable(q, after.values, after.radius, slope, each)


def _through_inputs(q: Floats, inputs: Standing, slope: float) -> tuple[Floats, Floats]:
    return pass_stable(q, inputs.values, inputs.radius, slope, None)
