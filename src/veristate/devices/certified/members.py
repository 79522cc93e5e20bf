"""A message-passing member as the trusted side holds it: represented weights in FP64, their norms, and their digest."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from veristate.decisions.enclosures import Declined
from veristate.devices.predictors.spec import state_digest
from veristate.numerics.probes import Dense
from veristate.numerics.probes.rounding import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """h0 = W_i (x || e); a_t = h0 + W_h sum relu(a_(t-1)); o = W_oV x + W_oM sum relu(a) + b; z = pool relu(o); tail.

    `norm` divides sums over atoms (None: their number). The score is the sigmoid of output `output` of the tail, or
    that output itself where `sigmoid` is false.
    """

    start: Dense
    step: Dense
    features: Dense
    message: Dense
    tail: tuple[Dense, ...]
    depth: int
    norm: float | None
    output: int
    sigmoid: bool
    weights: str

    def divisors(self, atoms: Floats) -> Floats:
        """What the sum over each candidate's atoms is divided by."""
        return np.maximum(atoms, 1.0) if self.norm is None else np.full(len(atoms), self.norm)


def member_of(model: torch.nn.Module, output: int) -> Member | Declined:
    """The member that a Chemprop bond-message-passing model is, or why it can't be followed, naming the module.

    What is not recognised declines: a transform, an activation, an aggregation or a predictor that this code does not
    know may do anything.
    """
    reason = unfollowed(model)
    if reason:
        return Declined(reason=reason, next_strategy="full")
    passing: Any = model.message_passing
    aggregation: Any = model.agg
    kind = type(aggregation).__name__
    width = passing.W_o.in_features - passing.W_h.in_features
    W_o, bias = _array(passing.W_o.weight), _array(passing.W_o.bias)
    norm = {"NormAggregation": float(getattr(aggregation, "norm", 1.0)), "SumAggregation": 1.0}.get(kind)
    layers = [m for m in model.predictor.ffn.modules() if isinstance(m, torch.nn.Linear)]  # type: ignore[union-attr]
    return Member(
        start=_dense(passing.W_i),
        step=_dense(passing.W_h, slope=0.0),
        features=Dense(W=np.ascontiguousarray(W_o[:, :width]), b=bias),
        message=Dense(W=np.ascontiguousarray(W_o[:, width:]), b=np.zeros(len(W_o)), slope=0.0),
        tail=tuple(_dense(layer, slope=0.0 if i else 1.0) for i, layer in enumerate(layers)),
        depth=int(passing.depth),
        norm=norm,
        output=output,
        sigmoid=type(model.predictor).__name__ == "BinaryClassificationFFN",
        weights=state_digest(model),
    )


def unfollowed(model: Any) -> str:
    """The first part of the model that is not recognised, in words; empty where all are."""
    passing: Any = getattr(model, "message_passing", None)
    names = {
        "the model": (type(model).__name__, ("MPNN",)),
        "message_passing": (type(passing).__name__, ("BondMessagePassing",)),
        "message_passing.tau": (type(getattr(passing, "tau", None)).__name__, ("ReLU",)),
        "message_passing.W_d": (type(getattr(passing, "W_d", None)).__name__, ("NoneType",)),
        "message_passing.V_d_transform": (type(getattr(passing, "V_d_transform", None)).__name__, ("Identity",)),
        "agg": (type(getattr(model, "agg", None)).__name__, ("NormAggregation", "SumAggregation", "MeanAggregation")),
        "bn": (type(getattr(model, "bn", None)).__name__, ("Identity",)),
        "predictor": (type(getattr(model, "predictor", None)).__name__, ("BinaryClassificationFFN", "RegressionFFN")),
    }
    for place, (found, known) in names.items():
        if found not in known:
            return f"{place} is a {found}; bounds are known through {', '.join(known)}"
    transforms = {
        "graph_transform.V_transform": getattr(passing.graph_transform, "V_transform", None),
        "graph_transform.E_transform": getattr(passing.graph_transform, "E_transform", None),
        "predictor.output_transform": model.predictor.output_transform,
    }
    if type(passing.graph_transform).__name__ == "Identity":
        transforms = {"predictor.output_transform": model.predictor.output_transform}
    for place, module in transforms.items():
        if not isinstance(module, torch.nn.Identity):
            return f"{place} is a {type(module).__name__}; bounds are known through Identity"
    if passing.undirected:
        return "message_passing is undirected; bounds are known for directed bonds"
    if model.training:
        return "the model is in training mode; call eval()"
    return _unknown_tail(model.predictor.ffn)


def _unknown_tail(ffn: torch.nn.Module) -> str:
    """The tail must be Linear (ReLU Dropout Linear)*: its leaves in order are the computation."""
    leaves = [m for m in ffn.modules() if not isinstance(m, torch.nn.Sequential)]
    expected_linear = True
    for leaf in leaves:
        if isinstance(leaf, torch.nn.Dropout | torch.nn.Identity):
            continue
        if isinstance(leaf, torch.nn.Linear) != expected_linear or not isinstance(
            leaf, torch.nn.Linear | torch.nn.ReLU
        ):
            return f"predictor.ffn holds a {type(leaf).__name__} where bounds are known for Linear and ReLU in turn"
        expected_linear = not expected_linear
    return ""


def _dense(layer: Any, slope: float = 1.0) -> Dense:
    W = _array(layer.weight)
    return Dense(W=W, b=np.zeros(len(W)) if layer.bias is None else _array(layer.bias), slope=slope)


def _array(tensor: torch.Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().cpu().double().numpy())
