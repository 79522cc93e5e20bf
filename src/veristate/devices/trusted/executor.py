"""The trusted executor as a run sees it: a separate process, qualified before and after it checks and recomputes."""

import contextlib
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError, Verdict, VeristateError, plain
from veristate.decisions import Question
from veristate.decisions.enclosures import Wanted
from veristate.devices.granularity import Granularity
from veristate.devices.predictors import Candidates, PredictorSpec
from veristate.devices.switches import ProductSettings
from veristate.devices.trusted.certification import Certification, PlannedPass, RowsAsked
from veristate.devices.trusted.process import TrustedProcess
from veristate.devices.trusted.stream import CaptureStream

Group = tuple[int, int]
# Runs a member on the suspect device and writes the rows asked for: its scores, and the digest of its weights.
ExportRows = Callable[[RowsAsked, Mapping[str, NDArray[np.float32]]], tuple[NDArray[np.float32], str]]


class TrustedExecutor:
    """A process of its own, with its own copy of the weights, on a named device.

    Use it as a context manager. The order is `qualify` - `checking` and `recompute` as often as needed - `qualify`:
    the second qualification must repeat the bits of the first, or nothing it computed in between counts.

    `suspect_device` is named where it is the same device: then its checks are labelled self-checked.
    """

    def __init__(
        self,
        spec: PredictorSpec,
        candidates: Candidates,
        *,
        granularity: Granularity | None = None,
        suspect_device: str = "",
    ) -> None:
        self._spec = spec
        self._granularity = granularity or Granularity()
        self._suspect_device = suspect_device or spec.device
        self._self_checked = torch.device(spec.device) == torch.device(suspect_device) if suspect_device else False
        self._candidates = candidates
        self._sample_bits: str | None = None
        self._loaded: dict[str, Any] | None = None
        self._refused: VeristateError | None = None
        self._process = TrustedProcess(spec.threads)
        table = {"ids": list(candidates.ids), "inputs": list(candidates.inputs)}
        try:
            self._process.send({"op": "load", "spec": spec.to_json()} | table)
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
        self._process.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def checked_on(self) -> str:
        """Where checks are computed, and whether that is the suspect's own device."""
        label = " (the suspect's own device: self-checked)" if self._self_checked else ""
        return f"trusted executor on {self._spec.device}{label}"

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
        arithmetic = "checked" if passed == len(verdicts) > 0 else "partly checked" if passed else "not checked"
        return {"bits": self._sample_bits, "arithmetic": arithmetic} | counts

    @contextmanager
    def checking(self, *, entropy: str = "") -> Iterator[CaptureStream]:
        """A stream to which captures are given while the suspect device runs. `entropy` (hexadecimal) fixes the signs;
        by default the trusted process draws it and tells it afterwards.

        The pass runs in this process, so this process's switches say which arithmetic is checked. Raises: InputError.
        """
        if len(entropy) % 2 or not set(entropy) <= set(string.hexdigits):
            raise InputError(f"the entropy of the signs must be hexadecimal, two digits a byte: {entropy!r}")
        settings = asdict(ProductSettings.read(self._suspect_device))
        self._ask({"op": "begin", "entropy": entropy, "settings": settings, **self._looking()})
        stream = CaptureStream(self._process, checked_on=self.checked_on, granularity=self._granularity)
        yield stream
        stream.finish()

    def recompute(
        self, groups: Iterable[Group], progress: Callable[[Group], None] | None = None
    ) -> dict[Group, NDArray[np.float32]]:
        """The scores of whole (member, batch) groups in their original geometry, each group's bits as float32."""
        wanted = list(groups)
        self._load()
        self._process.send({"op": "recompute", "groups": wanted})
        scores: dict[Group, NDArray[np.float32]] = {}
        for _ in wanted:
            header, payload = self._process.reply()
            group = (header["member"], header["batch"])
            scores[group] = np.frombuffer(payload, dtype="<f4")
            if progress:
                progress(group)
        return scores

    def plan(self, wanted: Wanted) -> PlannedPass:
        """How the process would certify a pass: the strategy, why, and its predicted cost. Raises: RefusedError when
        no strategy can.
        """
        header, _ = self._ask({"op": "plan", "wanted": asdict(wanted)})
        return PlannedPass(**header)

    def certify(self, question: Question, wanted: Wanted, export: ExportRows) -> Certification:
        """The pass, certified as it was planned just before.

        `export` is called where the suspect device is to run; what it writes is fixed over there before any probe is
        drawn. Raises: RefusedError, UndecidedError and InputError as the evidence allows nothing.
        """
        rules = [plain(rule) for rule in question.rules]
        message = {"op": "certify", "wanted": asdict(wanted), "rules": rules, "temperature": question.temperature}
        header, payload = self._ask(message)
        while "export" in header:
            asked = RowsAsked.from_message(header, payload)
            slot = self._process.slot()
            try:
                scores, weights = export(asked, asked.rooms(self._process.memory(slot, asked.size)))
            except BaseException:
                self._abandon(slot)
                raise
            answer = {"op": "exported", "slot": slot, "weights": weights}
            self._process.send(answer, scores.astype("<f4").tobytes())
            header, payload = self._process.reply()
        return Certification.from_message(header, payload)

    def _abandon(self, slot: int) -> None:
        """Tells the process that no export will come, and waits until it has heard that."""
        with contextlib.suppress(VeristateError):
            self._process.send({"op": "abandoned", "slot": slot})
            self._process.reply()

    def _sample(self, groups: list[Group]) -> dict[str, Any]:
        return self._ask({"op": "qualify", "groups": groups, **self._looking()})[0]

    def _looking(self) -> dict[str, Any]:
        return {"granularity": asdict(self._granularity)}

    def _load(self) -> dict[str, Any]:
        """The answer to the load request, waited for when it is first needed: loading overlaps with our own."""
        if self._refused is not None:
            raise self._refused
        if self._loaded is None:
            try:
                loaded = self._process.reply()[0]
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
        self._process.send(message)
        return self._process.reply()
