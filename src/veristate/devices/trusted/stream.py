"""Captures on their way to the trusted process, and what it says of them in the end."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from veristate.devices.findings import CallFinding, Findings
from veristate.devices.granularity import Granularity
from veristate.devices.trusted.process import TrustedProcess
from veristate.devices.watch import LinearCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A flagged call's operands at its flagged rows: enough to repeat the row check with the weights of that digest."""

    finding: int
    name: str
    rows: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    blob: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPass:
    """What the trusted process says of a pass. `entropy` is revealed after use: it repeats every sign."""

    findings: Findings
    evidence: tuple[Evidence, ...]
    entropy: str


class CaptureStream:
    """Where a running pass puts its captures."""

    def __init__(self, process: TrustedProcess, *, checked_on: str, granularity: Granularity) -> None:
        self._process = process
        self._checked_on = checked_on
        self._granularity = granularity
        self.result: CheckedPass | None = None

    def put(self, member: int, batch: int, call: LinearCall) -> None:
        """Copies one call into a shared slot and has it checked. Waits while all slots are in use."""
        arrays = {"X": _raw(call.X), "Y": _raw(call.Y)}
        number = self._process.slot()
        view = self._process.memory(number, sum(data.nbytes for data, _ in arrays.values()))
        header: dict[str, Any] = {
            "op": "check",
            "slot": number,
            "member": member,
            "batch": batch,
            "layer": call.layer,
            "ordinal": call.ordinal,
        }
        offset = 0
        for name, (data, dtype) in arrays.items():
            np.frombuffer(view, dtype=np.uint8, count=data.nbytes, offset=offset)[:] = data.reshape(-1).view(np.uint8)
            offset += data.nbytes
            header[name] = {"size": data.nbytes, "dtype": dtype, "shape": list(data.shape)}
        self._process.send(header)

    def finish(self) -> None:
        """Waits for the last check and fetches the findings."""
        self._process.send({"op": "finish"})
        header, payload = self._process.reply()
        evidence, offset = [], 0
        for entry in header["evidence"]:
            size = entry.pop("size")
            entry |= {"rows": tuple(entry["rows"]), "shape": tuple(entry["shape"])}
            evidence.append(Evidence(**entry, data=bytes(payload[offset : offset + size])))
            offset += size
        findings = Findings(
            calls=tuple(CallFinding.from_json(f) for f in header["findings"]),
            checked_on=self._checked_on,
            granularity=self._granularity,
        )
        self.result = CheckedPass(findings=findings, evidence=tuple(evidence), entropy=header["entropy"])


def _raw(tensor: torch.Tensor) -> tuple[np.ndarray, str]:
    """A tensor's own bits as numpy (bfloat16 as 16-bit integers), and the name of its dtype."""
    name = str(tensor.dtype).removeprefix("torch.")
    held = tensor.contiguous().cpu()
    return np.ascontiguousarray((held.view(torch.int16) if name == "bfloat16" else held).numpy()), name
