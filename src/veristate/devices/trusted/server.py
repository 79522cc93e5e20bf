"""The trusted process: loads the predictor by digest, checks captures against its own weights, recomputes groups.

Started by `TrustedExecutor`; speaks the messages of `Channel`. It ends when its parent does.
"""

import hashlib
import secrets
import socket
import sys
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from veristate.core import VeristateError, digest
from veristate.devices.checking import Capture, Checker
from veristate.devices.granularity import Granularity
from veristate.devices.predictors import Candidates, Predictor, PredictorSpec, load_predictor
from veristate.devices.settings import prepare_process, read_settings
from veristate.devices.switches import ProductSettings, flushes_subnormals
from veristate.devices.trusted.certifying import Certifier
from veristate.devices.trusted.channel import Channel, ChannelClosedError
from veristate.devices.trusted.slots import Slot
from veristate.devices.watch import LinearCall, watch
from veristate.numerics import array_bytes


class Server:
    """The state of one trusted process and an answer to each request."""

    def __init__(self, channel: Channel, slots: list[Slot]) -> None:
        self._channel = channel
        self._slots = slots
        self._predictor: Predictor
        self._spec: PredictorSpec
        self._checker: Checker
        self._certifier: Certifier
        self._entropy = b""
        self._findings: list[dict[str, Any]] = []
        self._evidence: list[tuple[dict[str, Any], bytes]] = []
        self._failure: VeristateError | None = None

    def serve(self) -> None:
        """Answers requests until the parent closes the channel."""
        while True:
            try:
                header, _ = self._channel.receive()
                self._answer(header)
            except ChannelClosedError:
                return
            except VeristateError as error:
                self._channel.send({"error": type(error).__name__, "message": str(error)})

    def _answer(self, header: dict[str, Any]) -> None:
        handlers = {
            "load": self._load,
            "qualify": self._qualify,
            "begin": self._begin,
            "check": self._check,
            "finish": self._finish,
            "recompute": self._recompute,
            "plan": self._plan,
            "certify": self._certify,
        }
        handlers[header["op"]](header)

    def _load(self, header: dict[str, Any]) -> None:
        self._spec = PredictorSpec.from_json(header["spec"])
        candidates = Candidates(ids=tuple(header["ids"]), inputs=tuple(header["inputs"]))
        prepare_process(self._spec.device, self._spec.threads)
        self._predictor = load_predictor(self._spec, candidates)
        self._certifier = Certifier(self._channel, self._slots, self._spec, self._predictor, candidates)
        settings = read_settings(self._spec.device) | self._predictor.libraries()
        self._channel.send(
            {
                "settings": settings,
                "digests": list(self._predictor.weight_digests()),
                "candidates": candidates.digest,
            }
        )

    def _qualify(self, header: dict[str, Any]) -> None:
        """One digest of the sample's bits, and whether this process's own calls on it pass their checks."""
        checker = self._new_checker(header["granularity"], ProductSettings.read(self._spec.device))
        verdicts: list[str] = []
        member, batch = 0, 0

        def seen(call: LinearCall) -> None:
            capture = capture_of(call, member, batch)
            verdicts.append(checker.check(capture, secrets.token_bytes(16)).verdict.value)

        bits = hashlib.sha256()
        for member, batch in header["groups"]:
            with watch(self._predictor.models[member], seen):
                bits.update(array_bytes(self._predictor.run(member, batch)))
        self._channel.send({"bits": bits.hexdigest(), "verdicts": verdicts})

    def _begin(self, header: dict[str, Any]) -> None:
        self._checker = self._new_checker(header["granularity"], ProductSettings(**header["settings"]))
        self._failure = None
        self._entropy = bytes.fromhex(header["entropy"]) if header["entropy"] else secrets.token_bytes(32)
        self._findings, self._evidence = [], []
        self._channel.send({})

    def _check(self, header: dict[str, Any]) -> None:
        """Every check gives its slot back, whatever becomes of it; `finish` tells the first that failed."""
        try:
            if self._failure is None:
                self._check_slot(header)
        except VeristateError as error:
            self._failure = error
        self._channel.send({"free": header["slot"]})

    def _check_slot(self, header: dict[str, Any]) -> None:
        capture = _capture_from(header, self._slots[header["slot"]])
        # The seed is fixed only now that Y lies here; without the entropy nobody can foresee it.
        seed = hashlib.sha256(self._entropy + len(self._findings).to_bytes(8, "big")).digest()[:16]
        finding = self._checker.check(capture, seed)
        self._findings.append(finding.to_json())
        if finding.evidence:
            self._keep(len(self._findings) - 1, capture, list(finding.evidence))

    def _keep(self, finding: int, capture: Capture, rows: list[int]) -> None:
        for name, array in (("X", capture.X[rows]), ("Y", capture.Y[rows])):
            data = array_bytes(array)
            entry = {"finding": finding, "name": name, "rows": rows, "dtype": array.dtype.name, "shape": array.shape}
            self._evidence.append((entry | {"blob": digest(data)}, data))

    def _finish(self, _header: dict[str, Any]) -> None:
        if self._failure is not None:
            raise self._failure
        index = [entry | {"size": len(data)} for entry, data in self._evidence]
        message = {"findings": self._findings, "evidence": index, "entropy": self._entropy.hex()}
        self._channel.send(message, b"".join(data for _, data in self._evidence))
        self._evidence = []

    def _recompute(self, header: dict[str, Any]) -> None:
        for member, batch in header["groups"]:
            scores = self._predictor.run(member, batch)
            self._channel.send({"member": member, "batch": batch}, array_bytes(scores))

    def _plan(self, header: dict[str, Any]) -> None:
        self._channel.send(asdict(self._certifier.plan(header)))

    def _certify(self, header: dict[str, Any]) -> None:
        self._channel.send(*self._certifier.certify(header).to_message())

    def _new_checker(self, granularity: dict[str, Any], settings: ProductSettings) -> Checker:
        """A checker of calls made under these settings. Where this process flushes it reads subnormals as zero too."""
        settings = replace(settings, flush=settings.flush or flushes_subnormals())
        return Checker(self._predictor, settings=settings, granularity=Granularity(**granularity))


def capture_of(call: LinearCall, member: int, batch: int) -> Capture:
    """The capture of a call made in this process."""
    X, _ = to_numpy(call.X)
    Y, storage = to_numpy(call.Y)
    return Capture(member=member, batch=batch, layer=call.layer, ordinal=call.ordinal, X=X, Y=Y, storage=storage)


def to_numpy(tensor: Any) -> tuple[np.ndarray, Any]:
    """A tensor's values as numpy, bfloat16 widened to float32, and the name of its own dtype."""
    name = str(tensor.dtype).removeprefix("torch.")
    return (tensor.float() if name == "bfloat16" else tensor).contiguous().cpu().numpy(), name


def _capture_from(header: dict[str, Any], slot: Slot) -> Capture:
    """The capture that lies in a slot; float arrays are read in place, bfloat16 widened."""
    arrays = []
    offset = 0
    memory = slot.view(sum(header[name]["size"] for name in ("X", "Y")))
    for name in ("X", "Y"):
        entry = header[name]
        raw = memory[offset : offset + entry["size"]]
        offset += entry["size"]
        arrays.append(_widen(raw, entry["dtype"]).reshape(entry["shape"]))
    return Capture(
        member=header["member"],
        batch=header["batch"],
        layer=header["layer"],
        ordinal=header["ordinal"],
        X=arrays[0],
        Y=arrays[1],
        storage=header["Y"]["dtype"],
    )


def _widen(raw: memoryview, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        bits = np.frombuffer(raw, dtype="<u2").astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32)
    return np.frombuffer(raw, dtype=np.dtype(dtype).newbyteorder("<"))


def main() -> None:
    """Entry point: file descriptors of the socket and of the slots are the arguments."""
    warnings.simplefilter("ignore")
    socket_fd, *slot_fds = map(int, sys.argv[1:])
    Server(Channel(socket.socket(fileno=socket_fd)), [Slot(fd) for fd in slot_fds]).serve()


if __name__ == "__main__":
    main()
