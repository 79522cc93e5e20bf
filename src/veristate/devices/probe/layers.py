"""Checks of real layers: random `nn.Linear` layers as models have them, each element against its rounding bound."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, Verdict, digest
from veristate.devices.declared import declared_arithmetic
from veristate.devices.probe.calls import Call, Prepared, value_text
from veristate.devices.probe.formats import host_values
from veristate.devices.probe.outcome import Probe
from veristate.devices.probe.products import stream
from veristate.devices.switches import ProductSettings
from veristate.numerics import Bias, LinearArithmetic, Operands, check_elements, round_to_bf16

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
Floats = NDArray[np.float32]


def prepare_layer(probe: Probe, settings: ProductSettings) -> Prepared:
    """The calls of one layer on the device of `settings`.

    Raises: EnvironmentUnusableError when no bound applies, RuntimeError or MemoryError.
    """
    dtype = _DTYPES[probe.format]
    # Whether a bfloat16 bias is added before or after storing is not visible from outside: the wider bound.
    bias: Bias = "fused" if probe.format == "fp32" else "separate"
    name = str(dtype).removeprefix("torch.")
    arithmetic = declared_arithmetic(settings, name, bias=bias, terms=probe.shape[1])
    if isinstance(arithmetic, str):
        raise EnvironmentUnusableError(arithmetic)
    X, W, b = draw_layer(probe)
    layer = torch.nn.Linear(X.shape[1], len(W), device="meta")
    weight, bias_values, inputs = (torch.from_numpy(a).to(dtype).to(settings.device) for a in (W, b, X))
    layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias_values)
    operands_digest = digest(b"".join(a.astype("<f4").tobytes() for a in (X, W, b)))
    return Prepared(operands_digest=operands_digest, calls=_called(layer, inputs, (X, W, b), arithmetic, probe.calls))


def draw_layer(probe: Probe) -> tuple[Floats, Floats, Floats]:
    """X [M, K], W [N, K] and b [N], values of the probe's format held in float32.

    Rows of X differ in scale, half of it is zero as behind a ReLU, and one weight column in a hundred is ten times as
    large: a model's layers look like this, and their bounds have to hold there.
    """
    rng = stream(probe)
    M, K, N = probe.shape
    X = np.maximum(rng.standard_normal((M, K)), 0) * rng.lognormal(0.0, 1.0, (M, 1))
    W = rng.standard_normal((N, K)) / np.sqrt(K) * np.where(rng.random(K) < 0.01, 10.0, 1.0)
    b = 0.1 * rng.standard_normal(N)
    drawn = [a.astype(np.float32) for a in (X, W, b)]
    if probe.format == "bf16":
        drawn = [round_to_bf16(a) for a in drawn]
    return drawn[0], drawn[1], drawn[2]


def wrong_elements(
    X: Floats, W: Floats, b: Floats, Y: NDArray[np.float64], arithmetic: LinearArithmetic
) -> NDArray[np.intp]:
    """The flat positions of elements of Y that no healthy X W^T + b gives.

    Raises: EnvironmentUnusableError when no bound applies.
    """
    cells = check_elements(Operands.of(X, W, b, Y), arithmetic)
    if cells.verdict() is Verdict.INAPPLICABLE:
        raise EnvironmentUnusableError("the rounding bound can't judge this layer")
    return np.flatnonzero(cells.flag)


def _called(
    layer: torch.nn.Linear,
    inputs: torch.Tensor,
    operands: tuple[Floats, Floats, Floats],
    arithmetic: LinearArithmetic,
    times: int,
) -> Iterator[Call]:
    X, W, b = operands
    for _ in range(times):
        with torch.no_grad():
            Y = host_values(layer(inputs))
        wrong = wrong_elements(X, W, b, Y, arithmetic)
        expected = X.astype(np.float64) @ W.astype(np.float64).T + b if wrong.size else Y
        yield Call(observed=Y, expected=expected, wrong=wrong, text=value_text)
