"""What every simulated fault has in common. Nothing here is a measurement: no faulty accelerator was used.

A fault changes some elements of a layer's output after the layer computed it and before the watcher reads it. It is
seeded, keeps every value finite and raises no warning, as the silent faults of the paper do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.devices.watch import OURS, linear_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A call about to be changed. `number` counts the calls of the whole pass from 0."""

    number: int
    member: int
    batch: int
    layer: str
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """New values [len(rows), len(columns)] for a rectangle of a call's output."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A patch as it was stored. `stored` counts the elements that kept a difference after conversion to storage.

    Differs: residuals are float64, not float32 as in B.1; a float32 difference added back can miss the stored value.
    """

    site: Site
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    residuals: NDArray[np.float64]
    stored: int


class Fault(Protocol):
    """A rule for when, where and by how much.

    Law: `patch` is a function of the fault's seed, the sites seen so far and Y alone.
    """

    def patch(self, site: Site, Y: NDArray[np.float32], rng: np.random.Generator) -> Patch | None:
        """The patch of this call, or None when the fault does not fire."""
        ...


@dataclass(slots=True)
class FaultModel:
    """A fault on its way through one pass: counts the calls and keeps what it did."""

    name: str
    fault: Fault
    seed: int
    calls: int = 0
    events: list[Event] = field(default_factory=list)

    def apply(self, site: Site, Y: torch.Tensor) -> None:
        """Changes Y [M, N] in place when the fault fires."""
        # Each call has its own stream, so a draw more or less in one call moves no other.
        rng = np.random.default_rng([self.seed, site.number])
        before = Y.float().cpu().numpy()
        patch = self.fault.patch(site, before, rng)
        if patch is None:
            return
        limit = min(torch.finfo(Y.dtype).max, torch.finfo(torch.float32).max)
        index = torch.from_numpy(patch.rows)[:, None], torch.from_numpy(patch.columns)[None, :]
        values = torch.from_numpy(np.clip(patch.values, -limit, limit)).to(Y.device, Y.dtype)
        # A copy: `before` may be the very memory of Y.
        old = Y[index].double()
        Y[index] = values
        residuals = (values.double() - old).cpu().numpy()
        event = Event(
            site=site,
            rows=patch.rows,
            columns=patch.columns,
            residuals=residuals,
            stored=int(np.count_nonzero(residuals)),
        )
        self.events.append(event)


def in_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """`values` in float32; what is too large becomes the largest finite value, since a silent fault is finite."""
    limit = float(np.finfo(np.float32).max)
    return np.clip(values, -limit, limit).astype(np.float32)


@contextmanager
def injecting(model: torch.nn.Module, fault: FaultModel | None, member: int, batch: int) -> Iterator[None]:
    """While open, `fault` acts on every linear layer's output; opened before the watch, it acts first."""
    if fault is None:
        yield
        return

    def hook(name: str) -> object:
        def act(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> None:
            Y = output.view(-1, output.shape[-1])
            shape = (Y.shape[0], Y.shape[1])
            fault.apply(Site(number=fault.calls, member=member, batch=batch, layer=name, shape=shape), Y)
            fault.calls += 1

        setattr(act, OURS, True)
        return act

    handles = [layer.register_forward_hook(hook(name)) for name, layer in linear_layers(model).items()]  # type: ignore[arg-type]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
