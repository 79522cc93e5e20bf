"""How much of a forward pass is watched: the share of its multiply-adds, and what ran beside them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from veristate.devices.dispatching import DispatchMode, counters, decomposed, multiply_adds
from veristate.devices.predictors import Predictor
from veristate.devices.watch import OURS, LinearCall, linear_layers, watch

# Views, copies and new memory compute nothing.
SILENT = (
    "view",
    "_unsafe_view",
    "t",
    "transpose",
    "detach",
    "alias",
    "expand",
    "slice",
    "select",
    "unsqueeze",
    "squeeze",
    "reshape",
    "permute",
    "chunk",
    "split",
    "numpy_T",
    "resolve_conj",
    "resolve_neg",
    "to",
    "_to_copy",
    "contiguous",
    "detach_",
    "lift_fresh",
    "empty",
    "empty_like",
    "zeros",
    "zeros_like",
    "ones_like",
    "as_strided",
    "_record_function_enter_new",
    "_record_function_exit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """`watched` and `total` count multiply-adds of one batch through every member; `unwatched` names the operations
    that no check sees, with their number of calls: their errors show only where a later watched layer would notice.
    `total` holds what torch's counter knows, products and convolutions; fused attention and recurrent layers stand in
    `unwatched` alone.
    """

    watched: int
    total: int
    layers: tuple[str, ...]
    unwatched: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """Watched multiply-adds over all; 0 when the pass has none."""
        return self.watched / self.total if self.total else 0.0


class _Operations(DispatchMode):
    """Counts the operations that are dispatched outside watched layers, by name, and the multiply-adds of all: a matrix
    product of a watched layer and one beside it have the same name, so where it runs decides.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        self.multiply_adds = 0
        self.inside = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, inside = kwargs or {}, self.inside
        if not inside:
            self.counts[func.overloadpacket.__name__] += 1
        if func.overloadpacket not in counters():
            # A composite operation is counted by its own name, its multiply-adds by those of its parts.
            self.inside = True
            try:
                apart = decomposed(self, func, args, named)
            finally:
                self.inside = inside
            if apart is not NotImplemented:
                return apart
        out = func(*args, **named)
        self.multiply_adds += multiply_adds(func, args, named, out)
        return out

    @contextmanager
    def beside(self, model: torch.nn.Module) -> Iterator[None]:
        """While open, what runs inside `model`'s watched layers is not counted."""

        def enter(*_call: Any) -> None:
            self.inside = True

        def leave(*_call: Any) -> None:
            self.inside = False

        setattr(leave, OURS, True)
        handles: list[RemovableHandle] = []
        for layer in linear_layers(model).values():
            handles += [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def measure_coverage(predictor: Predictor) -> Coverage:
    """The coverage of one batch through every member. Run it on a healthy pass: it computes scores and drops them."""
    watched = 0
    layers: set[str] = set()
    operations = _Operations()

    def seen(call: LinearCall) -> None:
        nonlocal watched
        layers.add(call.layer)
        watched += len(call.X) * call.X.shape[1] * call.Y.shape[1]

    for member, model in enumerate(predictor.models):
        with operations, operations.beside(model), watch(model, seen):
            predictor.run(member, 0)
    others = Counter({name: n for name, n in operations.counts.items() if name not in SILENT})
    return Coverage(
        watched=watched,
        total=operations.multiply_adds,
        layers=tuple(sorted(layers)),
        unwatched=tuple(others.most_common()),
    )
