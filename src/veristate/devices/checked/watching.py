"""`with checked(model) as checks:` everything that torch computes meanwhile, in this thread, is checked.

The watch stands below autograd and autocast: it sees the products of modules, functions and the backward pass alike,
with the operands that were multiplied. It does not see inside one compiled or fused operation; those are counted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from weakref import ref

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes

from veristate.core import InputError
from veristate.devices.checked.arrays import PreparedWeights
from veristate.devices.checked.operations import is_watched, sums_by_destination
from veristate.devices.checked.outcome import Checks
from veristate.devices.checked.session import Session
from veristate.devices.coverage import SILENT
from veristate.devices.dispatching import DispatchMode, decomposed, multiply_adds
from veristate.devices.watch import OURS
from veristate.numerics import MOST_DRAWS, Screen

_ZEROS = ("zeros", "zeros_like", "new_zeros")
_SILENT = frozenset(SILENT)
# Composites without a product inside. Taken apart, dropout would copy what it leaves as it is.
_LEFT_WHOLE = frozenset({*SILENT, "dropout", "feature_dropout", "alpha_dropout"})


@contextmanager
def checked(
    model: torch.nn.Module | None = None,
    *,
    draws: int = 1,
    sums: float = 1.0,
    screen: Screen | None = None,
    unfuse: bool = False,
) -> Iterator[Checks]:
    """The checks of what runs while this is open; read them at any time, also inside.

    `model` names the layers and lets its weights be prepared once; without one every product is still checked. `draws`
    random sign vectors a product leave an error that cancels in a block unseen with probability 2^-draws. `sums` is the
    share of the columns of a sum by destination to check; below 1 they are drawn after the sums exist.
    `screen` replaces the default statistical screen. `unfuse` computes attention and transformer layers in products
    that can be checked, which may change last bits; by default fused ones are left alone and counted as not watched.
    Raises: InputError for draws outside 1 to 16 or a share outside 0 to 1.
    """
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"draws={draws}: use 1 to {MOST_DRAWS}")
    if not 0 < sums <= 1:
        raise InputError(f"sums={sums}: the share of columns to check must be above 0 and at most 1")
    checks = Checks(draws=draws, sums=sums)
    session = Session(checks, PreparedWeights(model), screen or Screen())
    with ExitStack() as stack:
        if unfuse:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(_without_fast_path())
        layers = stack.enter_context(_named_layers(model))
        stack.enter_context(_Watch(session, checks, layers))
        yield checks


class _Watch(DispatchMode):
    """Runs every operation, then has the known ones checked."""

    def __init__(self, session: Session, checks: Checks, layers: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._session = session
        self._checks = checks
        self._layers = layers
        # Operations that are known not to be composed of others.
        self._whole: set[Any] = set()
        # Fresh zeros by address: a sum that begins with them needs no copy of what it began with.
        self._zeros: dict[int, ref[torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        name = func.overloadpacket.__name__
        if not is_watched(name):
            if func not in self._whole and name not in _LEFT_WHOLE:
                # A composite operation is taken apart, so that the products inside are seen.
                apart = decomposed(self, func, args, named)
                if apart is not NotImplemented:
                    return apart
                self._whole.add(func)
            return self._beside(func, name, args, named)
        given = self._begun(args) if sums_by_destination(name) else args
        out = func(*args, **named)
        started = time.perf_counter()
        self._forget(func, args)
        layer = self._layers[-1] if self._layers else ""
        before = self._checks.watched
        # The checks' own products are nobody's: neither a fault's outside nor a counter's.
        with _disable_current_modes():
            self._session.check(layer, name, given, named, out)
        self._checks.total += self._checks.watched - before or multiply_adds(func, args, named, out)
        self._checks.seconds += time.perf_counter() - started
        return out

    def _begun(self, args: Any) -> Any:
        """The operands of a sum by destination with what it begins with: None for fresh zeros, else a copy, since it
        may be written over.
        """
        target = args[0]
        kept = self._zeros.get(target.data_ptr())
        made = kept() if kept is not None else None
        fresh = made is not None and made.shape == target.shape
        return (None if fresh else target.detach().clone(), *args[1:])

    def _beside(self, func: Any, name: str, args: Any, named: Any) -> Any:
        out = func(*args, **named)
        if name in _ZEROS and isinstance(out, torch.Tensor):
            self._zeros[out.data_ptr()] = ref(out)
        self._forget(func, args)
        if name not in _SILENT:
            self._checks.beside[name] += 1
            self._checks.total += multiply_adds(func, args, named, out)
        return out

    def _forget(self, func: Any, args: Any) -> None:
        """An operation that writes into a tensor ends its being fresh zeros."""
        if self._zeros and _is_mutable(func):
            for tensor in args:
                if isinstance(tensor, torch.Tensor):
                    self._zeros.pop(tensor.data_ptr(), None)


@cache
def _is_mutable(func: Any) -> bool:
    """Whether the operation writes into one of its operands; asked of torch once for each, since asking takes long."""
    return bool(func._schema.is_mutable)


@contextmanager
def _named_layers(model: torch.nn.Module | None) -> Iterator[list[str]]:
    """The stack of the modules that run, by their name in the model."""
    running: list[str] = []
    handles = []

    def enter(name: str) -> Callable[..., None]:
        def hook(*_call: Any) -> None:
            running.append(name)

        return hook

    def leave(*_call: Any) -> None:
        running.pop()

    setattr(leave, OURS, True)
    for name, module in [] if model is None else model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(name or type(module).__name__)))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """The transformer layers' fused path is switched off, and put back."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
