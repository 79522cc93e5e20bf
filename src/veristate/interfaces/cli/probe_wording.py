"""A run of probes, a replay and a history in a few plain lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from veristate.devices import FaultPattern, PastRuns, ProbeRun, ProbeVerdict, Repetition, Replayed, calls_of

SHOWN = 12
_ELEMENTS_SHOWN, _NAMES_SHOWN = 3, 4


def run_lines(run: ProbeRun) -> list[str]:
    """The device, the table of probes, the faults with their pattern, what did not run, and the verdict."""
    return [*_device(run), *_table(run), *_bits(run), *_faults(run), *_gaps(run), _verdict(run)]


def replay_lines(run: ProbeRun, replayed: Sequence[Replayed], failed_probes: int) -> list[str]:
    """What each recorded failure did now, and what that adds up to."""
    if not replayed:
        return [*_device(run), "INCOMPLETE: the record holds no failing probe, so there was nothing to repeat."]
    lines = [line for item in replayed[:SHOWN] for line in _repetition(item)]
    lines += _more(len(replayed))
    if failed_probes > len(replayed):
        lines.append(
            f"The record keeps {len(replayed):,} of {failed_probes:,} failing probes; the others can't be repeated."
        )
    counts = {kind: sum(item.repetition is kind for item in replayed) for kind in Repetition}
    said = ", ".join(f"{count:,} {kind.value}" for kind, count in counts.items() if count)
    return [*_device(run), *lines, f"{run.verdict().value}: of {len(replayed):,} failing probes {said}."]


def history_lines(found: PastRuns, folder: Path) -> list[str]:
    """A line for each past run, device by device, then the lines that could not be read."""
    lines, device = [], ""
    for past in found.runs:
        named = f"{past.get('name')}, {past.get('device')} on {past.get('host')}"
        if named != device:
            lines.append(named)
        device = named
        lines.append(f"  {past.get('started')}  {past.get('verdict')!s:<10}  {_past(past)}")
    return [*(lines or [f"No run of probes is recorded in {folder}"]), *found.broken]


def _past(past: dict[str, object]) -> str:
    parts = [f"{past.get('failed_calls')} of {past.get('calls')} calls failed", f"seed {past.get('seed')}"]
    if past.get("pattern") != FaultPattern.NONE:
        parts.append(str(past.get("pattern")))
    if past.get("not_run"):
        parts.append(f"{past['not_run']} not run")
    parts += [
        f"{word} {past[key]}" for key, word in (("replay_of", "replay of"), ("record", "record")) if past.get(key)
    ]
    return ", ".join(parts)


def _device(run: ProbeRun) -> list[str]:
    device = run.device
    parts = [f"index {device.index}", device.driver if device.device == "cpu" else f"driver {device.driver}"]
    parts += [f"uuid {device.uuid}"] if device.uuid else []
    parts += [f"host {device.host}"]
    parts += [f"cores {device.cores}"] if device.device == "cpu" else []
    return [f"Device: {device.device}, {device.name} ({', '.join(parts)}); seed {run.seed}; {run.seconds:.1f} s"]


def _table(run: ProbeRun) -> list[str]:
    """Columns padded to their widest entry."""
    head = ("probe", "M x K x N", "calls", "wrong calls", "wrong elements", "verdict")
    body = [
        (
            f"{row.format} {row.size}" if row.kind == "bytes" else f"{row.format} {row.kind} {row.size}",
            f"{row.shape[0]:,} bytes" if row.kind == "bytes" else " x ".join(map(str, row.shape)),
            f"{row.calls:,}",
            f"{row.failed_calls:,}",
            f"{row.wrong:,} of {row.compared:,}",
            row.verdict().value,
        )
        for row in run.rows
    ]
    if not body:
        return []
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    ]


def _bits(run: ProbeRun) -> list[str]:
    """How many of each format's stored significand bits were both set and clear; the leading one is never stored."""
    said = [
        f"{t.format} {t.left.bit_count()} of {t.widths[0]} in A, {t.right.bit_count()} of {t.widths[1]} in B"
        for t in run.toggled
    ]
    return [f"Stored significand bits set and cleared: {'; '.join(said)}"] if said else []


def _faults(run: ProbeRun) -> Iterator[str]:
    for failure in run.failures[:SHOWN]:
        calls = f"{len(failure.failed_calls)} of {failure.probe.calls} calls"
        yield f"{failure.probe.name}, iteration {failure.probe.iteration}: {calls} wrong, {failure.wrong:,} elements"
        for element in failure.first[:_ELEMENTS_SHOWN]:
            yield f"  {list(element.index)}: expected {element.expected}, observed {element.observed}"
    if run.failed_probes > SHOWN:
        yield f"and {run.failed_probes - SHOWN:,} more failing probes"
    if run.failed_probes:
        yield f"Pattern: {run.pattern().value}{_counted(run)}"


def _counted(run: ProbeRun) -> str:
    """How many short and long calls of the failing formats fail; the pattern holds for these shapes only."""
    if run.pattern() is FaultPattern.BYTES_ONLY:
        return ": memory or transfer, not arithmetic"
    said = [
        f"{failed:,} of {calls:,} {size} calls"
        for size in ("short", "long")
        for failed, calls in [calls_of(run.rows, size)]
    ]
    return f": {' and '.join(said)} fail, in the shapes above"


def _gaps(run: ProbeRun) -> Iterator[str]:
    """What was not tested and what did not run, reason by reason."""
    for name, reason in run.untested:
        yield f"Not tested: {name} ({reason})"
    names: dict[str, list[str]] = {}
    for gap in run.not_run:
        names.setdefault(gap.reason, []).append(gap.name if gap.times == 1 else f"{gap.name} ({gap.times:,} times)")
    for reason, missing in list(names.items())[:SHOWN]:
        more = f", and {len(missing) - _NAMES_SHOWN:,} more" if len(missing) > _NAMES_SHOWN else ""
        yield f"Did not run ({reason}): {', '.join(missing[:_NAMES_SHOWN])}{more}"
    yield from _more(len(names))


def _verdict(run: ProbeRun) -> str:
    calls = sum(row.calls for row in run.rows)
    verdict = run.verdict()
    if verdict is ProbeVerdict.FAULT:
        return (
            f"{verdict.value}: this device, or what multiplies on it, gave results its declared arithmetic can't give."
        )
    if verdict is ProbeVerdict.PASS:
        return f"{verdict.value}: {calls:,} calls, all as they must be. It holds for these probes alone."
    if not calls:
        return f"{verdict.value}: nothing ran."
    return f"{verdict.value}: no fault in {calls:,} calls, but not everything ran."


def _repetition(item: Replayed) -> list[str]:
    before = item.failure
    line = f"{before.probe.name}, iteration {before.probe.iteration}: {item.repetition.value}"
    if item.reason:
        line += f" ({item.reason})"
    if item.again is None:
        return [line]
    counts = f"{before.wrong:,} wrong elements then, {item.again.wrong:,} now"
    if item.repetition is Repetition.OTHER_ELEMENTS:
        counts += f", {item.common:,} of the kept coordinates in common"
    shown = [f"  {list(e.index)}: expected {e.expected}, observed {e.observed}" for e in item.again.first[:1]]
    return [f"{line}; {counts}", *shown]


def _more(count: int) -> list[str]:
    return [f"and {count - SHOWN:,} more"] if count > SHOWN else []
