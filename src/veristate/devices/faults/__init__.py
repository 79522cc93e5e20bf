"""Simulated faults, for a machine that has no faulty accelerator."""

from collections.abc import Callable
from pathlib import Path

from veristate.core import InputError
from veristate.devices.faults.cases import SequenceFault, case1, case2
from veristate.devices.faults.model import Event, Fault, FaultModel, Patch, Site, injecting
from veristate.devices.faults.patterns import BitFlips, Rectangle, Replay, read_residuals, write_residuals

_MODELS: dict[str, Callable[[], Fault]] = {
    "case1": case1,
    "case2": case2,
    "bitflip": lambda: BitFlips(bits=1),
    "multibit": lambda: BitFlips(bits=3),
    "stripe": lambda: Rectangle(height=1, width=0),
    "tile": lambda: Rectangle(height=16, width=16),
    "stuck": lambda: Rectangle(height=0, width=1, stuck=True),
}


def fault_named(name: str, seed: int) -> FaultModel:
    """The simulated fault of that name, or recorded residuals for "replay:FILE". Raises: InputError."""
    if seed < 0:
        raise InputError(f"--seed {seed}: must be 0 or more")
    kind, _, path = name.partition(":")
    if kind == "replay" and path:
        return FaultModel(name=name, fault=read_residuals(Path(path)), seed=seed)
    if name not in _MODELS:
        raise InputError(f"--inject {name}: known are {', '.join(_MODELS)} and replay:FILE")
    return FaultModel(name=name, fault=_MODELS[name](), seed=seed)


__all__ = [
    "BitFlips",
    "Event",
    "Fault",
    "FaultModel",
    "Patch",
    "Rectangle",
    "Replay",
    "SequenceFault",
    "Site",
    "fault_named",
    "injecting",
    "write_residuals",
]
