"""Byte round trips: random bytes to the device and back, as they are and with every bit of a mask turned over there."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import digest
from veristate.devices.probe.calls import Call, Prepared
from veristate.devices.probe.outcome import Probe
from veristate.devices.probe.products import stream

# The mask that the device applies: none, the two alternating ones, and all bits.
MASKS = {"random": 0x00, "xor-55": 0x55, "xor-aa": 0xAA, "xor-ff": 0xFF}


def prepare_round_trip(probe: Probe, device: str) -> Prepared:
    """The calls of one round trip. Raises: RuntimeError or MemoryError."""
    sent = stream(probe).integers(256, size=probe.shape[0], dtype=np.uint8)
    return Prepared(
        operands_digest=digest(sent.data), calls=_called(sent, MASKS[probe.pattern], torch.device(device), probe.calls)
    )


def _called(sent: NDArray[np.uint8], mask: int, device: torch.device, times: int) -> Iterator[Call]:
    expected = sent ^ np.uint8(mask)
    for _ in range(times):
        there = torch.from_numpy(sent).to(device, copy=True)
        if mask:
            there = torch.bitwise_xor(there, mask)
        came = there.to("cpu", copy=True).numpy()
        yield Call(observed=came, expected=expected, wrong=np.flatnonzero(came != expected), text=_byte_text)


def _byte_text(value: Any) -> str:
    return f"0x{int(value):02x}"
