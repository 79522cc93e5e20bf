"""One call compared with what it must give, what the calls of a probe add up to, and what a run's probes do.

Counters are Python integers: they don't overflow, however long a run takes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import digest
from veristate.devices.probe.outcome import Failure, NotRun, Probe, Row, Toggled, WrongElement

# A failure names this many coordinates, and shows the values of the first few.
COORDINATES_KEPT = 256
VALUES_SHOWN = 8
# A failing device fails often: this many probes are kept in full, and the others counted.
FAILURES_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One result against its expectation, two arrays of one shape; `wrong` are the flat positions of wrong elements and
    `text` writes one value. Where nothing is wrong `expected` may be the result itself.
    """

    observed: NDArray[Any]
    expected: NDArray[Any]
    wrong: NDArray[np.intp]
    text: Callable[[Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A probe ready to run: `calls` makes one call each time it is advanced; the digest names the operands, `toggled`
    says which bits of an exact-integer probe they set and clear.
    """

    operands_digest: str
    calls: Iterator[Call]
    toggled: Toggled | None = None


@dataclass(slots=True)
class Seen:
    """What the calls of one probe have shown so far; a call that breaks off leaves the earlier ones standing."""

    calls: int = 0
    compared: int = 0
    wrong: int = 0
    failed: list[int] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    union: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    first: tuple[WrongElement, ...] = ()

    def add(self, call: Call) -> None:
        """Counts one call."""
        if call.wrong.size:
            if not self.failed:
                self.first = tuple(_told(call, int(flat)) for flat in call.wrong[:VALUES_SHOWN])
            self.failed.append(self.calls)
            self.wrong += int(call.wrong.size)
            self.union = np.union1d(self.union, call.wrong)
        self.shape = call.observed.shape
        self.compared += int(call.observed.size)
        self.calls += 1

    def failure(self, probe: Probe, operands_digest: str) -> Failure | None:
        """The failure, when a call was wrong."""
        if not self.failed:
            return None
        return Failure(
            probe=probe,
            failed_calls=tuple(self.failed),
            wrong=self.wrong,
            elements=tuple(_index(int(flat), self.shape) for flat in self.union[:COORDINATES_KEPT]),
            elements_digest=digest(self.union.astype("<i8").tobytes()),
            operands_digest=operands_digest,
            first=self.first,
        )


@dataclass(slots=True)
class _Total:
    """A row in the making."""

    shape: tuple[int, ...]
    calls: int = 0
    failed_calls: int = 0
    compared: int = 0
    wrong: int = 0
    not_run: int = 0


@dataclass(slots=True)
class Tally:
    """What a run has found so far."""

    failures: list[Failure] = field(default_factory=list)
    failed_probes: int = 0
    _toggled: dict[str, Toggled] = field(default_factory=dict)
    _totals: dict[tuple[str, str, str], _Total] = field(default_factory=dict)
    _missed: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, probe: Probe, seen: Seen, failure: Failure | None, reason: str) -> None:
        """Counts what one probe has shown, and why it broke off, if it did."""
        total = self._totals.setdefault((probe.kind, probe.format, probe.size), _Total(shape=probe.shape))
        total.calls += seen.calls
        total.failed_calls += len(seen.failed)
        total.compared += seen.compared
        total.wrong += seen.wrong
        if reason:
            total.not_run += 1
            self.miss(probe.name, reason)
        if failure is not None:
            self.failed_probes += 1
            if len(self.failures) < FAILURES_KEPT:
                self.failures.append(failure)

    def toggle(self, found: Toggled) -> None:
        """Adds the bits of one operand set to those of its format."""
        before = self._toggled.get(found.format, found)
        both = replace(found, left=found.left | before.left, right=found.right | before.right)
        self._toggled[found.format] = both

    def miss(self, name: str, reason: str) -> None:
        """Counts something that should have run and did not; the first reason is kept."""
        times, first = self._missed.get(name, (0, reason))
        self._missed[name] = (times + 1, first)

    def rows(self) -> tuple[Row, ...]:
        """A row for each kind, format and size, in the order in which they came."""
        return tuple(
            Row(
                kind=kind,  # type: ignore[arg-type]
                format=name,
                size=size,  # type: ignore[arg-type]
                shape=total.shape,
                calls=total.calls,
                failed_calls=total.failed_calls,
                compared=total.compared,
                wrong=total.wrong,
                not_run=total.not_run,
            )
            for (kind, name, size), total in self._totals.items()
        )

    def toggled(self) -> tuple[Toggled, ...]:
        """The bits that were set and clear, a format each."""
        return tuple(self._toggled.values())

    def not_run(self) -> tuple[NotRun, ...]:
        """What should have run and did not, once for each name."""
        return tuple(NotRun(name=name, times=times, reason=why) for name, (times, why) in self._missed.items())


def value_text(value: Any) -> str:
    """A floating-point value as the shortest usual decimal text of 17 digits: 405760, 405613.25, nan."""
    return f"{float(value):.17g}"


def _told(call: Call, flat: int) -> WrongElement:
    expected, observed = (call.text(values.flat[flat]) for values in (call.expected, call.observed))
    return WrongElement(index=_index(flat, call.observed.shape), expected=expected, observed=observed)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
