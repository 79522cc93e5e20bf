"""The trusted executor as a run sees it: a separate process, qualified before and after it checks and recomputes."""

import contextlib
import os
import socket
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError, Verdict, VeristateError
from veristate.devices.findings import CallFinding, Findings
from veristate.devices.predictors import Candidates, PredictorSpec
from veristate.devices.settings import flushes_subnormals, full_float32_products
from veristate.devices.trusted.channel import Channel, ChannelClosedError
from veristate.devices.trusted.slots import Slot
from veristate.devices.watch import LinearCall

Group = tuple[int, int]
SLOTS = 3
_ERRORS: dict[str, type[VeristateError]] = {
    "InputError": InputError,
    "EnvironmentUnusableError": EnvironmentUnusableError,
}


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


class TrustedExecutor:
    """A process of its own, with its own copy of the weights, on a named device.

    Use it as a context manager. The order is `qualify` - `checking` and `recompute` as often as needed - `qualify`:
    the second qualification must repeat the bits of the first, or nothing it computed in between counts.

    `suspect_device` is named where it is the same device: then its checks are labelled self-checked.
    """

    def __init__(
        self, spec: PredictorSpec, candidates: Candidates, *, block: int | None = 32, suspect_device: str = ""
    ) -> None:
        self._spec = spec
        self._block = block
        self._self_checked = torch.device(spec.device) == torch.device(suspect_device) if suspect_device else False
        self._candidates = candidates
        self._free = list(range(SLOTS))
        self._slots = [Slot.create() for _ in range(SLOTS)]
        self._sample_bits: str | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._loaded: dict[str, Any] | None = None
        self._refused: VeristateError | None = None
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        fds = [theirs.fileno(), *(slot.fd for slot in self._slots)]
        threads = {f"{name}_NUM_THREADS": str(spec.threads) for name in ("OMP", "MKL", "OPENBLAS")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "veristate.devices.trusted.server", *map(str, fds)],
            pass_fds=fds,
            env=os.environ | threads,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        theirs.close()
        table = {"ids": list(candidates.ids), "inputs": list(candidates.inputs)}
        try:
            self._send({"op": "load", "spec": spec.to_json()} | table)
        except VeristateError:
            self.close()
            raise

    def __enter__(self) -> "TrustedExecutor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. Closing again does nothing."""
        self._channel.close()
        self._wait()
        for slot in self._slots:
            slot.close()
        self._slots = []
        self._log.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def checked_on(self) -> str:
        """Where checks are computed, and whether that is the suspect's own device."""
        label = " (the suspect's own device: self-checked)" if self._self_checked else ""
        return f"trusted executor on {self._spec.device}{label}, process {self.pid}"

    def wait_until_loaded(self) -> None:
        """Returns when the process has loaded the predictor. Raises: what loading raised there."""
        self._load()

    @property
    def settings(self) -> dict[str, str]:
        """The settings the process computes with."""
        return dict(self._load()["settings"])

    @property
    def weight_digests(self) -> tuple[str, ...]:
        """The digests of the weights it loaded."""
        return tuple(self._load()["digests"])

    def qualify(self) -> dict[str, str]:
        """A record of the declared sample: the first and the last batch of every member, twice the first time.

        Raises: EnvironmentUnusableError when the bits differ from before, or the process's own arithmetic is flagged.
        """
        last = len(self._spec.batches(len(self._candidates.ids))) - 1
        groups = [(m, b) for m in range(len(self.weight_digests)) for b in sorted({0, last})]
        runs = [self._sample(groups) for _ in range(1 if self._sample_bits else 2)]
        bits = {run["bits"] for run in runs} | ({self._sample_bits} if self._sample_bits else set())
        verdicts = [verdict for run in runs for verdict in run["verdicts"]]
        if len(bits) > 1:
            raise EnvironmentUnusableError(
                f"the trusted executor on {self._spec.device} does not repeat its own bits on the declared sample of "
                f"{len(groups)} groups; nothing it computed is used"
            )
        if Verdict.FLAG in verdicts:
            raise EnvironmentUnusableError(
                f"the trusted executor's own arithmetic on {self._spec.device} was flagged on the declared sample: "
                "that device can't be trusted"
            )
        self._sample_bits = bits.pop()
        passed = sum(verdict == Verdict.PASS for verdict in verdicts)
        counts = {"groups": str(len(groups)), "calls": str(len(verdicts)), "calls_passed": str(passed)}
        return {"bits": self._sample_bits, "arithmetic": "checked" if passed else "not checked"} | counts

    @contextmanager
    def checking(self, *, entropy: str = "") -> Iterator["CaptureStream"]:
        """A stream to which captures are given while the suspect device runs. `entropy` (hexadecimal) fixes the signs;
        by default the trusted process draws it and tells it afterwards.

        The pass runs in this process, so this process's switches say which arithmetic is checked. Raises: InputError.
        """
        if len(entropy) % 2 or not set(entropy) <= set(string.hexdigits):
            raise InputError(f"the entropy of the signs must be hexadecimal, two digits a byte: {entropy!r}")
        switches = {"flush": flushes_subnormals(), "full_products": full_float32_products()}
        self._ask({"op": "begin", "block": self._block, "entropy": entropy} | switches)
        stream = CaptureStream(self)
        yield stream
        stream.finish()

    def recompute(
        self, groups: Iterable[Group], progress: Callable[[Group], None] | None = None
    ) -> dict[Group, NDArray[np.float32]]:
        """The scores of whole (member, batch) groups in their original geometry, each group's bits as float32."""
        wanted = list(groups)
        self._load()
        self._send({"op": "recompute", "groups": wanted})
        scores: dict[Group, NDArray[np.float32]] = {}
        for _ in wanted:
            header, payload = self._reply()
            group = (header["member"], header["batch"])
            scores[group] = np.frombuffer(payload, dtype="<f4")
            if progress:
                progress(group)
        return scores

    def _sample(self, groups: list[Group]) -> dict[str, Any]:
        return self._ask({"op": "qualify", "groups": groups, "block": self._block})[0]

    def _load(self) -> dict[str, Any]:
        """The answer to the load request, waited for when it is first needed: loading overlaps with our own."""
        if self._refused is not None:
            raise self._refused
        if self._loaded is None:
            try:
                loaded = self._reply()[0]
                if loaded["candidates"] != self._candidates.digest:
                    raise EnvironmentUnusableError("the trusted process read another table than was sent to it")
            except VeristateError as error:
                # There is one answer to the request: whoever asks again must not wait for a second.
                self._refused = error
                raise
            self._loaded = loaded
        return self._loaded

    def _ask(self, message: dict[str, Any]) -> tuple[dict[str, Any], bytearray]:
        self._load()
        self._send(message)
        return self._reply()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except ChannelClosedError as error:
            raise self._ended() from error

    def _reply(self) -> tuple[dict[str, Any], bytearray]:
        """The next message that is not the return of a slot."""
        while True:
            header, payload = self._next()
            if "free" not in header:
                return header, payload

    def _next(self) -> tuple[dict[str, Any], bytearray]:
        try:
            header, payload = self._channel.receive()
        except ChannelClosedError as error:
            raise self._ended() from error
        if "error" in header:
            raise _ERRORS.get(header["error"], VeristateError)(header["message"])
        if "free" in header:
            self._free.append(header["free"])
        return header, payload

    def _ended(self) -> EnvironmentUnusableError:
        """The error that says how the process ended, with the end of what it wrote."""
        code = self._wait()
        self._log.seek(0)
        tail = self._log.read().decode(errors="replace").strip().splitlines()[-3:]
        said = " / ".join(tail) or "no message"
        return EnvironmentUnusableError(f"the trusted process {self.pid} ended (exit {code}): {said}")

    def _wait(self) -> int:
        """The exit code of the process, which has lost its channel and must end; killed when it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=5)
        self._process.kill()
        return self._process.wait()

    def _slot(self) -> int:
        """A free slot, waited for: this is what holds the suspect pass back when checks fall behind."""
        while not self._free:
            self._next()
        return self._free.pop()


class CaptureStream:
    """Where a running pass puts its captures."""

    def __init__(self, executor: TrustedExecutor) -> None:
        self._executor = executor
        self.result: CheckedPass | None = None

    def put(self, member: int, batch: int, call: LinearCall) -> None:
        """Copies one call into a shared slot and has it checked. Waits while all slots are in use."""
        ex = self._executor
        arrays = {"X": _raw(call.X), "Y": _raw(call.Y)}
        number = ex._slot()
        view = ex._slots[number].view(sum(data.nbytes for data, _ in arrays.values()))
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
        ex._send(header)

    def finish(self) -> None:
        """Waits for the last check and fetches the findings."""
        ex = self._executor
        header, payload = ex._ask({"op": "finish"})
        evidence, offset = [], 0
        for entry in header["evidence"]:
            size = entry.pop("size")
            entry |= {"rows": tuple(entry["rows"]), "shape": tuple(entry["shape"])}
            evidence.append(Evidence(**entry, data=bytes(payload[offset : offset + size])))
            offset += size
        findings = Findings(
            calls=tuple(CallFinding.from_json(f) for f in header["findings"]),
            checked_on=ex.checked_on,
            block=ex._block,
        )
        self.result = CheckedPass(findings=findings, evidence=tuple(evidence), entropy=header["entropy"])


def _raw(tensor: torch.Tensor) -> tuple[np.ndarray, str]:
    """A tensor's own bits as numpy (bfloat16 as 16-bit integers), and the name of its dtype."""
    name = str(tensor.dtype).removeprefix("torch.")
    held = tensor.contiguous().cpu()
    return np.ascontiguousarray((held.view(torch.int16) if name == "bfloat16" else held).numpy()), name
