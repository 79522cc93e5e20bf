"""Propagation through a user's own feed-forward model: traced, followed layer by layer, declined where it can't be.

Known: Linear; ReLU, LeakyReLU, Dropout (in eval), Identity; sum and mean over the middle dimension, and a division by a
number after it; sigmoid or softmax at the end; taking one output column. One value flows from each step to the next.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.decisions.enclosures import Declined
from veristate.devices.predictors.spec import state_digest
from veristate.numerics.probes import Dense

Link = Literal["none", "sigmoid", "softmax"]
# A layer narrower than this is evaluated by the trusted side: probing it would cost as much.
NARROWEST_EXPORT = 32
_MOST_CLASSES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One layer: `dense`, or a pool over the middle dimension divided by `divide` (0: by its length). `name` is the
    traced module's; `slope` the activation on a pool's inputs.
    """

    name: str
    dense: Dense | None = None
    divide: float = 1.0
    slope: float = 1.0

    @property
    def exported(self) -> bool:
        """Whether the suspect exports what this layer gives."""
        return self.dense is not None and len(self.dense.W) >= NARROWEST_EXPORT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Propagation:
    """A model as a chain of steps, the output column that is the score, and the link that makes it one."""

    steps: tuple[Step, ...]
    output: int
    link: Link
    weights: str

    @property
    def exports(self) -> tuple[str, ...]:
        """The modules whose outputs are exported, in order; each is called once."""
        return tuple(step.name for step in self.steps if step.exported)


@dataclass(slots=True)
class _Tracing:
    """Where a trace stands: the steps so far and the activation, link and column that wait for the next one."""

    steps: list[Step]
    slope: float = 1.0
    link: Link = "none"
    output: int | None = None


def propagation_of(model: torch.nn.Module, *, output: int = 0) -> Propagation | Declined:
    """The chain that the model is, or why it can't be followed, naming the module or operation.

    `output` is the score's column where the model doesn't take one itself.
    """
    if model.training:
        return Declined(reason="the model is in training mode; call eval()", next_strategy="full")
    try:
        graph = torch.fx.symbolic_trace(model)
    except Exception as error:
        return Declined(reason=f"{type(model).__name__} can't be traced: {error}", next_strategy="full")
    modules = dict(graph.named_modules())
    tracing, flowing = _Tracing([]), None
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            problem = "takes several inputs" if flowing is not None else ""
        elif node.op == "output":
            problem = "gives something else than its last step" if node.args[0] is not flowing else ""
        elif node.all_input_nodes != [flowing]:
            problem = f"is no chain at {node.name}"
        else:
            problem = _follow(tracing, node, modules)
        if problem:
            return Declined(reason=f"{type(model).__name__} {problem}", next_strategy="full")
        if node.op != "output":
            flowing = node
    return _finished(model, tracing, output)


def _finished(model: torch.nn.Module, tracing: _Tracing, output: int) -> Propagation | Declined:
    name = type(model).__name__
    names = [step.name for step in tracing.steps if step.exported]
    last = tracing.steps[-1].dense if tracing.steps else None
    column = output if tracing.output is None else tracing.output
    if last is None or tracing.slope != 1.0:
        return Declined(reason=f"{name} does not end in a Linear layer and its link", next_strategy="full")
    if len(set(names)) < len(names):
        return Declined(reason=f"{name} calls a module twice: {', '.join(sorted(names))}", next_strategy="full")
    if not -len(last.W) <= column < len(last.W):
        return Declined(reason=f"{name} has {len(last.W)} outputs and no column {column}", next_strategy="full")
    if tracing.link == "softmax" and len(last.W) > _MOST_CLASSES:
        return Declined(reason=f"{name} has a softmax over {len(last.W)} classes", next_strategy="full")
    return Propagation(
        steps=tuple(tracing.steps), output=column % len(last.W), link=tracing.link, weights=state_digest(model)
    )


def _follow(tracing: _Tracing, node: Any, modules: dict[str, torch.nn.Module]) -> str:
    """Adds one traced step; what is wrong with it, or nothing."""
    if node.op == "call_module":
        return _module(tracing, str(node.target), modules[str(node.target)])
    known = _OPERATIONS.get(node.target) if node.op in ("call_function", "call_method") else None
    label = getattr(node.target, "__name__", str(node.target))
    if known is None:
        return f"uses {label}, which bounds are not known through"
    if tracing.link != "none" and known is not _column:
        return f"uses {label} after its {tracing.link}"
    return known(tracing, node)


def _module(tracing: _Tracing, name: str, module: torch.nn.Module) -> str:
    kind = type(module)
    if tracing.link != "none" or tracing.output is not None:
        return f"calls {name} ({kind.__name__}) after its link or column"
    if kind is torch.nn.Linear:
        W = _array(module.weight)
        b = np.zeros(len(W)) if module.bias is None else _array(module.bias)
        tracing.steps.append(Step(name=name, dense=Dense(W=W, b=b, slope=tracing.slope)))
        tracing.slope = 1.0
        return ""
    if kind in (torch.nn.Dropout, torch.nn.Identity):
        return ""
    if kind in (torch.nn.ReLU, torch.nn.LeakyReLU):
        return _activation(tracing, float(getattr(module, "negative_slope", 0.0)))
    if kind in (torch.nn.Sigmoid, torch.nn.Softmax):
        return _link(tracing, "sigmoid" if kind is torch.nn.Sigmoid else "softmax", getattr(module, "dim", -1))
    return f"holds {name}, a {kind.__name__}, which bounds are not known through"


def _activation(tracing: _Tracing, slope: float) -> str:
    if not 0.0 <= slope <= 1.0 or tracing.slope not in (1.0, slope) or (tracing.slope == slope != 0.0):
        return f"applies an activation of slope {slope} after one of {tracing.slope}"
    tracing.slope = slope
    return ""


def _link(tracing: _Tracing, link: Link, dim: Any) -> str:
    if tracing.slope != 1.0 or not tracing.steps:
        return f"applies its {link} to an activation"
    if link == "softmax" and (dim not in (-1, 1) or tracing.output is not None):
        return f"takes a softmax over dimension {dim} or of one column"
    tracing.link = link
    return ""


def _argument(node: Any, name: str, place: int, default: Any = None) -> Any:
    return node.kwargs.get(name, node.args[place] if len(node.args) > place else default)


def _relu(tracing: _Tracing, node: Any) -> str:
    return _activation(tracing, 0.0)


def _leaky(tracing: _Tracing, node: Any) -> str:
    return _activation(tracing, float(_argument(node, "negative_slope", 1, 0.01)))


def _pool(mean: bool) -> Callable[[_Tracing, Any], str]:
    def pooled(tracing: _Tracing, node: Any) -> str:
        dim = _argument(node, "dim", 1)
        plain = dim in (1, -2, (1,), [1], (-2,), [-2]) and not _argument(node, "keepdim", 2, False)
        if not plain or tracing.output is not None or any(step.dense is None for step in tracing.steps):
            return f"pools over {dim}; bounds are known for one sum or mean over the middle dimension"
        tracing.steps.append(Step(name=node.name, divide=0.0 if mean else 1.0, slope=tracing.slope))
        tracing.slope = 1.0
        return ""

    return pooled


def _divide(tracing: _Tracing, node: Any) -> str:
    by = node.args[1] if len(node.args) > 1 else None
    last = tracing.steps[-1] if tracing.steps else None
    fits = (
        isinstance(by, int | float)
        and by >= 2.0**-20
        and last is not None
        and last.dense is None
        and last.divide == 1.0
    )
    if not fits or last is None or tracing.slope != 1.0:
        return f"divides by {by} where no sum stands before it"
    tracing.steps[-1] = replace(last, divide=float(by))  # type: ignore[arg-type]
    return ""


def _sigmoid(tracing: _Tracing, node: Any) -> str:
    return _link(tracing, "sigmoid", -1)


def _softmax(tracing: _Tracing, node: Any) -> str:
    return _link(tracing, "softmax", _argument(node, "dim", 1))


def _column(tracing: _Tracing, node: Any) -> str:
    where = node.args[1] if len(node.args) > 1 else None
    everything = (slice(None), Ellipsis)
    taken = where[-1] if isinstance(where, tuple) and len(where) == 2 and where[0] in everything else None
    if not isinstance(taken, int) or tracing.output is not None or tracing.slope != 1.0:
        return f"indexes with {where}; bounds are known for taking one output column"
    tracing.output = taken
    return ""


_OPERATIONS: dict[Any, Callable[[_Tracing, Any], str]] = {
    torch.relu: _relu,
    torch.nn.functional.relu: _relu,
    "relu": _relu,
    torch.nn.functional.leaky_relu: _leaky,
    torch.mean: _pool(True),
    "mean": _pool(True),
    torch.sum: _pool(False),
    "sum": _pool(False),
    operator.truediv: _divide,
    torch.sigmoid: _sigmoid,
    "sigmoid": _sigmoid,
    torch.softmax: _softmax,
    torch.nn.functional.softmax: _softmax,
    "softmax": _softmax,
    operator.getitem: _column,
}


def _array(tensor: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(tensor.detach().cpu().double().numpy())


def layer_outputs(model: torch.nn.Module, propagation: Propagation, run: Callable[[], object]) -> dict[str, list[Any]]:
    """What the exported layers give while `run` calls the model: rows with leading dimensions flattened, by name."""
    taken: dict[str, list[NDArray[Any]]] = {name: [] for name in propagation.exports}

    def keep(name: str) -> Callable[..., None]:
        def seen(module: torch.nn.Module, inputs: Any, given: torch.Tensor) -> None:
            rows = given.detach().reshape(-1, given.shape[-1])
            taken[name].append((rows if rows.dtype == torch.float64 else rows.float()).cpu().numpy())

        return seen

    modules = dict(model.named_modules())
    handles = [modules[name].register_forward_hook(keep(name)) for name in propagation.exports]
    try:
        with torch.inference_mode():
            run()
    finally:
        for handle in handles:
            handle.remove()
    return dict(taken)
