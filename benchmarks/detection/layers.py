"""Layers as torch initialises them, healthy calls, and calls in which elements were changed."""

from dataclasses import dataclass

import numpy as np
import torch

from veristate.devices.checking import float32_product
from veristate.numerics import (
    Guard,
    LinearArithmetic,
    LinearCheck,
    Operands,
    Screen,
    Weights,
    bf16_arithmetic,
    fp32_arithmetic,
    round_to_bf16,
)

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# Only the last looks at elements.
GUARDS = {
    kind: Guard(product=float32_product, screen=screen)
    for kind, screen in (("rows", None), ("blocks", None), ("screen", Screen()))
}
SIMULATED = "simulated faults in healthy torch products"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer as torch initialises it, ready to be called and checked."""

    dtype: str
    weights: Weights
    layer: torch.nn.Linear
    arithmetic: LinearArithmetic

    @classmethod
    def of(cls, K: int, N: int, dtype: str, *, bias: bool) -> "Layer":
        """A layer of that shape."""
        layer = torch.nn.Linear(K, N, bias=bias).to(DTYPES[dtype])
        W, b = layer.weight.detach().float().numpy(), layer.bias.detach().float().numpy() if bias else None
        arithmetic = bf16_arithmetic(bias=bias) if dtype == "bf16" else fp32_arithmetic(bias=bias, flush=False)
        return cls(dtype=dtype, weights=Weights.of(W, b), layer=layer, arithmetic=arithmetic)

    def call(self, rng: np.random.Generator, M: int) -> Operands:
        """A healthy call on M rows of ordinary values."""
        X = torch.from_numpy(rng.standard_normal((M, self.weights.W.shape[1]), np.float32)).to(DTYPES[self.dtype])
        with torch.no_grad():
            return Operands.of(X.float().numpy(), self.weights, None, self.layer(X).float().numpy())

    def changed(self, call: Operands, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Operands:
        """The call with other values at some places, rounded to the format."""
        Y, values = call.Y.copy(), values.astype(np.float32)
        Y[rows, columns] = round_to_bf16(values) if self.dtype == "bf16" else values
        return Operands(X=call.X, weights=call.weights, Y=Y)

    def moved(self, call: Operands, rows: np.ndarray, columns: np.ndarray, moves: np.ndarray) -> Operands:
        """The call with some elements moved, as stored by at least so much."""
        before = call.Y[rows, columns].astype(np.float64)
        values = (before + moves).astype(np.float32)
        if self.dtype == "bf16":
            values = round_to_bf16(values)
            further = values + np.sign(moves) * np.spacing(np.abs(values)) * 2.0**16
            values = np.where(np.abs(values - before) < np.abs(moves), further, values)
        return self.changed(call, rows, columns, values)


def marks(check: LinearCheck, rows: np.ndarray, columns: np.ndarray) -> dict[str, np.ndarray]:
    """Whether the element at each place is found: by its row's sum, its block's, or as a proven or unresolved one."""
    elements = set(zip(check.elements.rows.tolist(), check.elements.columns.tolist(), strict=True))
    return {
        "rows": check.rows.flag[rows],
        "blocks": check.columns.flag[:, rows // check.block, columns].any(axis=0),
        "screen": np.array([place in elements for place in zip(rows.tolist(), columns.tolist(), strict=True)]),
    }
