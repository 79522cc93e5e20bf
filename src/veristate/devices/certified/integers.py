"""Feed-forward models in whole numbers (contract C4): stated operands, exact accumulators, stated requantisation.

A value q stands for q 2^-e. Each layer gives acc = q W^T + b exactly; the next q is acc, rectified where the model does
so, shifted right by a stated number of bits, halves up, and kept within the operands' range. Every machine that adds
whole numbers gets the same; a device may compute it with products in FP64, since no accumulator reaches 2^53.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log2
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.decisions.enclosures import Declined
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.models import Propagation
from veristate.numerics.probes import (
    Probes,
    accumulator_limit,
    chain_values,
    check_integers,
    rounded_sigmoid,
)

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerLayer:
    """acc = q W^T + b, at most `limit`; then, if not the last, max(acc, 0) where `rectified`, shifted by `shift`."""

    name: str
    W: Whole
    b: Whole
    rectified: bool
    shift: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerChain:
    """A model in numbers of `bits` bits. Inputs x stand as round(x 2^`scale`); the output is acc 2^-`exponent`."""

    layers: tuple[IntegerLayer, ...]
    bits: int
    scale: int
    exponent: int
    output: int
    sigmoid: bool
    weights: str

    def operands(self, inputs: NDArray[Any]) -> Whole:
        """The inputs [n, F] in whole numbers, halves to even, kept within the range. Raises: InputError for NaN."""
        if np.isnan(inputs).any():
            raise InputError(f"row {int(np.isnan(inputs).any(axis=1).argmax())} of the inputs holds NaN")
        return self._kept(np.rint(inputs.astype(np.float64) * 2.0**self.scale))

    def requantised(self, layer: IntegerLayer, acc: Whole) -> Whole:
        """The next layer's operands."""
        acc = np.maximum(acc, 0) if layer.rectified else acc
        return self._kept((acc + (1 << layer.shift >> 1)) >> layer.shift)

    def scores(self, acc: Whole) -> NDArray[np.float32]:
        """The scores of the last accumulators, rounded to float32 correctly."""
        output = np.asarray(acc[:, self.output] * 2.0**-self.exponent, dtype=np.float64)
        return rounded_sigmoid(output) if self.sigmoid else output.astype(np.float32)

    def _kept(self, q: NDArray[Any]) -> Whole:
        most = 2 ** (self.bits - 1)
        return np.asarray(np.clip(q, -most, most - 1), dtype=np.int64)


def integer_chain(propagation: Propagation, sample: NDArray[Any], bits: int = 16) -> IntegerChain | Declined:
    """The model in whole numbers: each scale is the largest power of two that fits: for weights exactly, for inputs and
    activations with one bit to spare over what `sample` [n, F] gives in FP64. All of it is fixed by this call.
    """
    if any(step.dense is None or step.dense.slope not in (0.0, 1.0) for step in propagation.steps):
        return Declined(reason="whole numbers are known through Linear and ReLU alone", next_strategy="full")
    if propagation.link == "softmax":
        return Declined(reason="a softmax has no whole-number form here", next_strategy="full")
    names = [step.name for step in propagation.steps]
    if len(set(names)) < len(names):
        twice = ", ".join(sorted({name for name in names if names.count(name) > 1}))
        return Declined(reason=f"accumulators are exported by module; called twice: {twice}", next_strategy="full")
    dense = [step.dense for step in propagation.steps if step.dense is not None]
    if dense[0].slope != 1.0:
        return Declined(reason=f"no whole-number form of a ReLU before {names[0]} is stated", next_strategy="full")
    most = 2 ** (bits - 1)
    into = scale = _exponent(float(np.abs(sample).max(initial=0)) * 2, most)
    layers = []
    for number, (step, values) in enumerate(zip(propagation.steps, chain_values(dense, sample), strict=True)):
        layer, last = dense[number], number + 1 == len(dense)
        by = _exponent(float(np.abs(layer.W).max(initial=0)), most)
        W, b = _whole(layer.W, by), _whole(layer.b, by + into)
        out = min(_exponent(float(np.abs(values).max(initial=0)) * 2, most), by + into)
        limit = 2**53 if W is None or b is None else accumulator_limit(W, b, most)
        if W is None or b is None or limit >= 2**53:
            return Declined(reason=f"{step.name} needs accumulators beyond 2^53", next_strategy="full")
        rectified = not last and dense[number + 1].slope == 0.0
        layers.append(IntegerLayer(name=step.name, W=W, b=b, rectified=rectified, shift=by + into - out, limit=limit))
        exponent, into = by + into, out
    return IntegerChain(
        layers=tuple(layers),
        bits=bits,
        scale=scale,
        exponent=exponent,
        output=propagation.output,
        sigmoid=propagation.link == "sigmoid",
        weights=_digest(layers, bits, scale),
    )


def integer_accumulators(chain: IntegerChain, inputs: NDArray[Any]) -> dict[str, Whole]:
    """What a device computes and exports: accumulators [n, N] by layer, from products in FP64, which are exact here."""
    q, found = chain.operands(inputs), {}
    for layer in chain.layers:
        product = torch.from_numpy(q).double() @ torch.from_numpy(layer.W).double().T
        found[layer.name] = product.numpy().astype(np.int64) + layer.b
        q = chain.requantised(layer, found[layer.name])
    return found


def integer_bounds(chain: IntegerChain, inputs: NDArray[Any], probes: Probes | None = None) -> MemberBounds:
    """The scores, exactly: from the exported accumulators where a row passes, else evaluated here in whole numbers."""
    q, evaluated = chain.operands(inputs), 0
    acc = np.zeros((len(q), 0), dtype=np.int64)
    for layer in chain.layers:
        right = np.zeros(len(q), dtype=np.bool_)
        if probes is not None:
            right = check_integers(probes, layer.name, layer.W, layer.b, q, layer.limit, weights=chain.weights)
        given = probes.export.values[layer.name] if probes is not None else np.zeros((len(q), len(layer.W)), np.int64)
        acc = np.array(given, dtype=np.int64)
        acc[~right] = q[~right] @ layer.W.T + layer.b
        evaluated += int((~right).sum())
        q = chain.requantised(layer, acc)
    scores = chain.scores(acc).astype(np.float64)
    return MemberBounds(
        output=scores, reach=np.zeros(len(scores)), lower=scores, upper=scores, widest_eps=0.0, evaluated=evaluated
    )


def _exponent(size: float, most: int) -> int:
    """The largest e with size 2^e < most; 0 for nothing. Raises: InputError for values no such scale serves."""
    if not np.isfinite(size) or size > 2.0**40 or 0 < size < 2.0**-40:
        raise InputError(f"values up to {size} have no whole-number scale here")
    if not size:
        return 0
    e = floor(log2((most - 1) / size))
    return e if size * 2.0**e <= most - 1 else e - 1


def _whole(values: NDArray[np.float64], exponent: int) -> Whole | None:
    """The values times 2^exponent, halves to even; None where one reaches 2^53, asked before a cast that would wrap."""
    scaled = np.rint(values * 2.0**exponent)
    return scaled.astype(np.int64) if (np.abs(scaled) < 2.0**53).all() else None


def _digest(layers: Sequence[IntegerLayer], bits: int, scale: int) -> str:
    state = hashlib.sha256(f"{bits}|{scale}".encode())
    for layer in layers:
        state.update(f"|{layer.name}|{layer.W.shape}|{layer.rectified}|{layer.shift}|".encode())
        state.update(layer.W.astype("<i8").tobytes() + layer.b.astype("<i8").tobytes())
    return state.hexdigest()
