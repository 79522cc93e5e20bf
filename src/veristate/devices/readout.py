"""The read-out of an ensemble: what goes into its last dense layers, and those layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.predictors import Predictor
from veristate.devices.training import Layer, one_thread
from veristate.devices.watch import LinearCall, linear_layers, watch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOut:
    """Of one member: `inputs` [candidates, K] of the first layer in table order, and its layers in order (W, b)."""

    inputs: NDArray[np.float32]
    layers: tuple[Layer, ...]


def read_outs(predictor: Predictor, prefix: str) -> tuple[ReadOut, ...]:
    """Each member's read-out: the linear layers whose names begin with `prefix`, and what went into the first of them.

    Raises: InputError when a member has no such layer.
    """
    with one_thread():
        return tuple(_of_member(predictor, number, prefix) for number in range(len(predictor.models)))


def _of_member(predictor: Predictor, member: int, prefix: str) -> ReadOut:
    model = predictor.models[member]
    names = [name for name in linear_layers(model) if name.startswith(prefix)]
    if not names:
        raise InputError(f"member {member} has no linear layer whose name begins with {prefix!r}")
    seen: list[torch.Tensor] = []

    def keep(call: LinearCall) -> None:
        if call.layer == names[0]:
            seen.append(call.X.float().cpu())

    with watch(model, keep):
        for batch in range(len(predictor.batches)):
            predictor.run(member, batch)
    layers = [linear_layers(model)[name] for name in names]
    return ReadOut(inputs=torch.cat(seen).numpy(), layers=_held(layers))


def _held(layers: Sequence[torch.nn.Linear]) -> tuple[Layer, ...]:
    """Weights and biases in float32; a layer without bias has zeros."""
    return tuple(
        (
            layer.weight.detach().float().cpu().numpy().copy(),
            np.zeros(layer.out_features, np.float32)
            if layer.bias is None
            else layer.bias.detach().float().cpu().numpy().copy(),
        )
        for layer in layers
    )
