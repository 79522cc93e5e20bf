"""Watching a torch model while it runs: every `torch.nn.Linear` call with what went in and what came out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

# Marks the hooks of the watch and of simulated faults.
OURS = "_veristate"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCall:
    """One call of a linear layer, with X [M, K] and Y [M, N] as they were (leading dimensions flattened).

    `ordinal` counts this layer's calls since the watch began. X may be wider than what was multiplied: under autocast
    the cast happens inside the call, and Y's dtype tells which format X, W and b were rounded to.
    """

    layer: str
    ordinal: int
    X: torch.Tensor
    Y: torch.Tensor


@contextmanager
def watch(model: torch.nn.Module, on_call: Callable[[LinearCall], None]) -> Iterator[None]:
    """While open, `on_call` sees every linear call of `model`, after any hook that was registered before.

    Subclasses of Linear count as linear only when they keep its forward: another forward is another computation.
    """
    counts: dict[str, int] = {}

    def hook(name: str) -> Callable[..., None]:
        def seen(
            module: torch.nn.Module,
            inputs: tuple[torch.Tensor, ...],
            named: dict[str, torch.Tensor],
            output: torch.Tensor,
        ) -> None:
            ordinal = counts.get(name, 0)
            counts[name] = ordinal + 1
            given = inputs[0] if inputs else named["input"]
            X = given.detach().reshape(-1, given.shape[-1])
            # Not -1 for the rows alone: a call may have none (a batch of molecules without bonds).
            Y = output.detach().reshape(len(X), output.shape[-1])
            on_call(LinearCall(layer=name, ordinal=ordinal, X=X, Y=Y))

        setattr(seen, OURS, True)
        return seen

    handles = [
        layer.register_forward_hook(hook(name), with_kwargs=True) for name, layer in linear_layers(model).items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def linear_layers(model: torch.nn.Module) -> dict[str, torch.nn.Linear]:
    """The layers that `watch` sees, by their name in the model.

    Not those with another forward, or with a hook of somebody else that may change what the layer gave: their outputs
    are another computation than Y = X W^T + b.
    """
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and type(module).forward is torch.nn.Linear.forward
        and all(getattr(hook, OURS, False) for hook in module._forward_hooks.values())
    }
