"""Running probes on one device: until the iterations or the seconds are over, whatever one of them does."""

import time
from collections.abc import Callable, Iterable
from itertools import chain, count

from veristate.core import Clock, EnvironmentUnusableError, utc_now
from veristate.devices.probe.calls import Prepared, Seen, Tally
from veristate.devices.probe.formats import FORMATS
from veristate.devices.probe.identity import prepare_device
from veristate.devices.probe.layers import prepare_layer
from veristate.devices.probe.outcome import Failure, Probe, ProbeRun
from veristate.devices.probe.plan import ITERATIONS, ProbeOptions, chosen_names, planned
from veristate.devices.probe.products import ExactProducts
from veristate.devices.probe.roundtrip import prepare_round_trip
from veristate.devices.settings import read_settings
from veristate.devices.switches import ProductSettings

Progress = Callable[[str, int, int], None]
Monotonic = Callable[[], float]


def run_probes(
    options: ProbeOptions, *, progress: Progress, clock: Clock = utc_now, now: Monotonic = time.monotonic
) -> ProbeRun:
    """The run of all probes on a device. What a probe does, and the user's interrupt, are findings, never exceptions.

    Raises: InputError and EnvironmentUnusableError when torch can't use the device.
    """
    running = Running(options.device, clock, now)
    names, untested = running.testable(options.formats)
    iterations = ITERATIONS if options.iterations is None else options.iterations
    first = list(planned(names, running.switches, options.seed, 0)) if iterations else []
    numbers = count() if options.seconds is not None and first else range(iterations)
    probes = chain.from_iterable(planned(names, running.switches, options.seed, number) for number in numbers)
    total = len(first) * iterations if options.seconds is None else max(1, int(options.seconds))

    def tell(done: int) -> None:
        progress("probing", done if options.seconds is None else min(int(running.elapsed()), total), total)

    reached = running.through(probes, tell, options.seconds)
    why = "interrupted" if running.interrupted else f"not reached in {options.seconds} s"
    for probe in first[reached:]:
        running.tally.add(probe, Seen(), None, why)
    return running.finished(options.seed, reached // len(first) if first else 0, untested)


class Running:
    """A run under way: the device, the tally and the time."""

    def __init__(self, device: str, clock: Clock, now: Monotonic) -> None:
        self._device = prepare_device(device)
        self.switches = ProductSettings.read(self._device.device)
        self._products = ExactProducts(self.switches)
        self._started, self._begun, self._now = clock(), now(), now
        self.tally = Tally()
        self.interrupted = False

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now() - self._begun

    def testable(self, asked: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The names to probe, and the optional formats that can't be, with the reason. One that was asked for and can't
        be probed is counted as not run.
        """
        names = chosen_names(asked)
        reasons = {f.name: self._products.trial(f) for f in FORMATS if f.name in names and not f.required}
        missing = tuple((name, reason) for name, reason in reasons.items() if reason)
        for name, reason in missing:
            if name in asked:
                self.tally.miss(name, reason)
        left = tuple(name for name in names if not reasons.get(name))
        return left, tuple(pair for pair in missing if pair[0] not in asked)

    def through(self, probes: Iterable[Probe], tell: Callable[[int], None], seconds: float | None = None) -> int:
        """How many probes were begun before they ended, the time was over or the user interrupted."""
        begun = 0
        try:
            for probe in probes:
                if self.interrupted or (seconds is not None and self.elapsed() >= seconds):
                    break
                begun += 1
                self.attempt(probe)
                tell(begun)
        except KeyboardInterrupt:  # between two probes
            self.interrupted = True
        return begun

    def finished(self, seed: int, iterations: int, untested: tuple[tuple[str, str], ...]) -> ProbeRun:
        """The run as a value."""
        return ProbeRun(
            device=self._device,
            settings=read_settings(self._device.device),
            started=self._started,
            seconds=self.elapsed(),
            seed=seed,
            iterations=iterations,
            rows=self.tally.rows(),
            toggled=self.tally.toggled(),
            failures=tuple(self.tally.failures),
            failed_probes=self.tally.failed_probes,
            not_run=self.tally.not_run(),
            untested=untested,
            interrupted=self.interrupted,
        )

    def attempt(self, probe: Probe, operands_digest: str = "") -> tuple[Failure | None, str]:
        """The failure of one probe, if it fails, and why it broke off, if it did; what it had found by then stands.

        With a digest it is run only if its seed still gives those operands.
        """
        seen, found, reason = Seen(), "", ""
        try:
            prepared = self._prepare(probe)
            found = prepared.operands_digest
            if operands_digest not in ("", found):
                raise EnvironmentUnusableError("its seed gives other operands here; use the recorded version of numpy")
            for call in prepared.calls:
                seen.add(call)
            if prepared.toggled is not None:
                self.tally.toggle(prepared.toggled)
        except KeyboardInterrupt:
            self.interrupted, reason = True, "interrupted"
        except EnvironmentUnusableError as error:
            reason = str(error)
        except (RuntimeError, ValueError, MemoryError) as error:
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")
        failure = seen.failure(probe, found)
        self.tally.add(probe, seen, failure, reason)
        return failure, reason

    def _prepare(self, probe: Probe) -> Prepared:
        if probe.kind == "integers":
            return self._products.prepare(probe)
        if probe.kind == "layer":
            return prepare_layer(probe, self.switches)
        return prepare_round_trip(probe, self._device.device)
