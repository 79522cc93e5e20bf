"""What a run of probes found: rows of counts, the failures, what did not run; its verdict and its pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from veristate.devices.probe.identity import DeviceIdentity

Kind = Literal["integers", "layer", "bytes"]
Size = Literal["short", "long"]


class ProbeVerdict(StrEnum):
    """FAULT: a result that the declared arithmetic can't give. INCOMPLETE: no fault, but something did not run, or
    nothing did. PASS: all ran and agreed, which holds for these probes alone.
    """

    PASS = "PASS"  # noqa: S105 - no password
    FAULT = "FAULT"
    INCOMPLETE = "INCOMPLETE"


class FaultPattern(StrEnum):
    """Which calls fail. It holds for the tested shapes only. Source: BioAgent-DF A.1, A.2."""

    SIZE_DEPENDENT = "size-dependent (Case 1)"
    EXPANDED_TRIGGER = "expanded-trigger (Case 2)"
    SHORT_ONLY = "short calls only"
    BYTES_ONLY = "byte round trips only"
    UNDETERMINED = "undetermined"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One operand set in one layout, called `calls` times. All that is needed to draw and to run it again.

    `shape` is (M, K, N) of a product, or the number of bytes; `pattern` and `layout` are a kind's own words.
    """

    kind: Kind
    format: str
    pattern: str
    size: Size
    layout: str
    shape: tuple[int, ...]
    calls: int
    seed: int
    iteration: int

    @property
    def name(self) -> str:
        """What it is in words, the same in every iteration."""
        return " ".join(part for part in (self.format, self.kind, self.pattern, self.size, self.layout) if part)

    @property
    def operands(self) -> tuple[object, ...]:
        """What fixes the operands: all but the layout and the number of calls."""
        return (self.kind, self.format, self.pattern, self.size, self.shape, self.seed, self.iteration)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongElement:
    """A coordinate with the value it must have and the one that came, as text: hexadecimal for bytes, else decimal."""

    index: tuple[int, ...]
    expected: str
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A probe with wrong results. `wrong` adds the wrong elements of all its calls; `elements` are the first
    coordinates wrong in any call, `elements_digest` that of all of them; `operands_digest` names the operands.
    """

    probe: Probe
    failed_calls: tuple[int, ...]
    wrong: int
    elements: tuple[tuple[int, ...], ...]
    elements_digest: str
    operands_digest: str
    first: tuple[WrongElement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """Something that should have run and did not, how often, and why the first time."""

    name: str
    times: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggled:
    """The stored significand bits of a format that were both set and clear among A's and among B's values, as masks;
    `widths` says how many are stored.
    """

    format: str
    widths: tuple[int, int]
    left: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the probes of one kind, format and size add up to. `compared` and `wrong` count elements."""

    kind: Kind
    format: str
    size: Size
    shape: tuple[int, ...]
    calls: int
    failed_calls: int
    compared: int
    wrong: int
    not_run: int

    def verdict(self) -> ProbeVerdict:
        """FAULT when a call failed, PASS when all probes ran, otherwise INCOMPLETE."""
        if self.failed_calls:
            return ProbeVerdict.FAULT
        return ProbeVerdict.PASS if self.calls and not self.not_run else ProbeVerdict.INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """One run on one device. `untested` are optional formats the device does not multiply, each with the reason: they
    leave the verdict alone. `failures` are the first of `failed_probes`. `interrupted` by the user.
    """

    device: DeviceIdentity
    settings: dict[str, str]
    started: str
    seconds: float
    seed: int
    iterations: int
    rows: tuple[Row, ...]
    toggled: tuple[Toggled, ...]
    failures: tuple[Failure, ...]
    failed_probes: int
    not_run: tuple[NotRun, ...]
    untested: tuple[tuple[str, str], ...]
    interrupted: bool

    def verdict(self) -> ProbeVerdict:
        """FAULT when a call failed, whatever did not run; PASS when all ran, and at least one did; else INCOMPLETE."""
        if any(row.failed_calls for row in self.rows):
            return ProbeVerdict.FAULT
        missing = self.interrupted or self.not_run or not sum(row.calls for row in self.rows)
        return ProbeVerdict.INCOMPLETE if missing else ProbeVerdict.PASS

    def pattern(self) -> FaultPattern:
        """Whether long calls, short ones or both fail, among products and layers."""
        return _pattern(self.rows)


def calls_of(rows: Sequence[Row], size: Size) -> tuple[int, int]:
    """The failed and all calls of that size, among products and layers of the formats that failed at any size."""
    failed = _failed_arithmetic(rows)
    chosen = [row for row in rows if row.size == size and (row.kind, row.format) in failed]
    return sum(row.failed_calls for row in chosen), sum(row.calls for row in chosen)


def _failed_arithmetic(rows: Sequence[Row]) -> set[tuple[str, str]]:
    return {(row.kind, row.format) for row in rows if row.failed_calls and row.kind != "bytes"}


def _pattern(rows: Sequence[Row]) -> FaultPattern:
    """The other size must have run whole before its silence tells anything."""
    failed = _failed_arithmetic(rows)
    if not failed:
        return FaultPattern.BYTES_ONLY if any(row.failed_calls for row in rows) else FaultPattern.NONE
    (short, short_calls), (long, long_calls) = calls_of(rows, "short"), calls_of(rows, "long")
    if short and long:
        return FaultPattern.EXPANDED_TRIGGER
    quiet: Size = "short" if long else "long"
    gaps = any(row.not_run for row in rows if row.size == quiet and (row.kind, row.format) in failed)
    if gaps or not short_calls or not long_calls:
        return FaultPattern.UNDETERMINED
    return FaultPattern.SIZE_DEPENDENT if long else FaultPattern.SHORT_ONLY
