"""Computation sites of a torch model: save what a module gave in one of its calls, and continue a run from there.

A site is a module's name and which of its calls (from 0) is meant. Any module that gives one tensor of floats can be
one, hidden layers included. bfloat16 values come and go in float32, which holds them exactly.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError, Site
from veristate.devices.watch import OURS
from veristate.numerics import Representation, from_storage_bits, storage_bits, stored

R = TypeVar("R")
Act = Callable[[Site, torch.Tensor], torch.Tensor | None]

_REPRESENTATIONS: dict[torch.dtype, Representation] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}
# Integers of a width through which bits pass unchanged, NaNs included.
_INTEGERS = {2: (torch.int16, np.int16), 4: (torch.int32, np.int32), 8: (torch.int64, np.int64)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteValues:
    """What a site gave: `values` in the output's shape, held as `representation`, the storage format, asks."""

    site: Site
    values: NDArray[Any]
    representation: Representation


def list_sites(model: torch.nn.Module, run: Callable[[], Any]) -> tuple[Site, ...]:
    """The sites of one run in the order of their calls: those whose output can be saved. A module comes under its
    first name, and after the modules it calls; the model itself has the name "".
    """
    found: list[Site] = []

    def act(site: Site, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.dtype in _REPRESENTATIONS:
            found.append(site)

    with _acting(dict(model.named_modules()), act):
        run()
    return tuple(found)


def save_sites(model: torch.nn.Module, sites: Iterable[Site], run: Callable[[], R]) -> tuple[R, dict[Site, SiteValues]]:
    """What `run`, which runs `model` once, returns, and the values at each of the sites.

    Raises: InputError for a layer that isn't there, gives no tensor of floats, or has no such call in this run.
    """
    wanted = tuple(sites)
    found: dict[Site, SiteValues] = {}

    def act(site: Site, output: Any) -> None:
        if site in wanted:
            tensor = _tensor(site, output)
            kind = _REPRESENTATIONS[tensor.dtype]
            found[site] = SiteValues(site=site, values=_values(tensor, kind), representation=kind)

    with _acting(_modules(model, wanted), act):
        result = run()
    _require_reached(wanted, found)
    return result, found


def continue_from(model: torch.nn.Module, values: Mapping[Site, NDArray[Any]], run: Callable[[], R]) -> R:
    """What `run` returns when each of the sites gives the values put in its place, and the rest computes on.

    The values are converted to the storage format of the output they replace; stored values keep every bit. What the
    module itself computed is dropped, and no gradient flows through it.
    Raises: InputError for a layer that isn't there, gives no tensor of floats, or has no such call in this run, and
    for values of another shape than the output's.
    Source: BioAgent-DF C.1, I.3.
    """
    replaced: set[Site] = set()

    def act(site: Site, output: Any) -> torch.Tensor | None:
        if site not in values:
            return None
        replaced.add(site)
        return _replacement(site, _tensor(site, output), values[site])

    with _acting(_modules(model, values), act):
        result = run()
    _require_reached(values, replaced)
    return result


@contextmanager
def _acting(modules: Mapping[str, torch.nn.Module], act: Act) -> Iterator[None]:
    """While open, `act` sees every call of the modules after all hooks that were there, and may replace its output."""
    counts = dict.fromkeys(modules, 0)

    def hook(name: str) -> Callable[..., Any]:
        def seen(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
            site = Site(layer=name, ordinal=counts[name])
            counts[name] += 1
            return act(site, output)

        setattr(seen, OURS, True)
        return seen

    handles = [module.register_forward_hook(hook(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _modules(model: torch.nn.Module, sites: Iterable[Site]) -> dict[str, torch.nn.Module]:
    found = dict(model.named_modules(remove_duplicate=False))
    for site in sites:
        if site.layer not in found:
            raise InputError(f"the model has no layer {site.layer!r}; list_sites() tells those a run reaches")
    return {site.layer: found[site.layer] for site in sites}


def _tensor(site: Site, output: Any) -> torch.Tensor:
    if not isinstance(output, torch.Tensor) or output.dtype not in _REPRESENTATIONS:
        kind = output.dtype if isinstance(output, torch.Tensor) else type(output).__name__
        raise InputError(
            f"layer {site.layer!r} gives {kind}; a site gives one tensor of floats: name a module that does"
        )
    return output


def _values(tensor: torch.Tensor, kind: Representation) -> NDArray[Any]:
    """A copy of the tensor's values, bit for bit."""
    integers, _ = _INTEGERS[tensor.element_size()]
    bits = tensor.detach().contiguous().view(integers).cpu().numpy().copy()
    return from_storage_bits(bits.view(f"u{bits.itemsize}"), kind)


def _replacement(site: Site, output: torch.Tensor, values: NDArray[Any]) -> torch.Tensor:
    """A tensor like `output`, in its memory layout too, which may choose the kernels that follow."""
    if values.shape != tuple(output.shape):
        raise InputError(
            f"values of shape {values.shape} can't replace call {site.ordinal} of layer {site.layer!r}, which gives "
            f"{tuple(output.shape)}"
        )
    kind = _REPRESENTATIONS[output.dtype]
    integers, numpy_integers = _INTEGERS[output.element_size()]
    bits = storage_bits(stored(values, kind), kind).view(numpy_integers)
    fresh = torch.empty_like(output, requires_grad=False)
    fresh.view(integers).copy_(torch.from_numpy(bits.copy()))
    return fresh


def _require_reached(wanted: Iterable[Site], reached: Iterable[Site]) -> None:
    missing = [site for site in wanted if site not in set(reached)]
    if missing:
        first = missing[0]
        raise InputError(
            f"call {first.ordinal} of layer {first.layer!r} did not happen in this run, where hooks could see it; "
            "list_sites() tells those a run reaches"
        )
