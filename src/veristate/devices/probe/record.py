"""The diagnostic record of a run, and its failing probes run again from it, on the same device or another."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from veristate.core import Clock, InputError, decimal_string, plain, utc_now
from veristate.devices.probe.outcome import Failure, Probe, ProbeRun, WrongElement
from veristate.devices.probe.plan import require_possible
from veristate.devices.probe.running import Monotonic, Progress, Running

FORMAT = "veristate.probe/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """What a replay needs of a record: the device's torch name and the failures that were kept of `failed_probes`."""

    device: str
    failures: tuple[Failure, ...]
    failed_probes: int


class Repetition(StrEnum):
    """What a failing probe did when it was run again with the same operands."""

    SAME_ELEMENTS = "fails again in the same elements"
    OTHER_ELEMENTS = "fails again in other elements"
    PASSES = "passes now"
    NOT_RUN = "could not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A recorded failure and what it did now; `again` when it failed. `common` counts the coordinates that are kept of
    both and were wrong both times; `reason` says why it broke off.
    """

    failure: Failure
    again: Failure | None
    repetition: Repetition
    common: int
    reason: str


def record_of(run: ProbeRun) -> dict[str, Any]:
    """The record as JSON values: every row, failure and gap with the verdict. No floats, so NaN stays text."""
    rows = [plain(row) | {"verdict": row.verdict().value} for row in run.rows]
    content = {name: getattr(run, name) for name in run.__slots__}
    words = {"format": FORMAT, "verdict": run.verdict().value, "pattern": run.pattern().value}
    return words | dict(plain(content | {"seconds": decimal_string(round(run.seconds, 3)), "rows": rows}))


def read_record(path: Path) -> ProbeRecord:
    """What a replay needs of the record at `path`. Raises: InputError that says what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        failures = tuple(_failure(item) for item in content["failures"])
        device, failed = content["device"]["device"], content["failed_probes"]
        if not isinstance(device, str) or type(failed) is not int:
            raise ValueError("device must be text and failed_probes a whole number")
    except OSError as error:
        raise InputError(f"--replay {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--replay {path} is no record of veristate probe: {error}") from error
    return ProbeRecord(device=device, failures=failures, failed_probes=failed)


def replay_failures(
    failures: Sequence[Failure],
    device: str,
    *,
    progress: Progress,
    clock: Clock = utc_now,
    now: Monotonic = time.monotonic,
) -> tuple[ProbeRun, tuple[Replayed, ...]]:
    """The run of exactly these probes, and what each failure did in it. Its verdict is that of the probes run now.

    Raises: InputError and EnvironmentUnusableError when torch can't use the device.
    """
    running = Running(device, clock, now)
    replayed = []
    for done, before in enumerate(failures, 1):
        again, reason = (
            (None, "interrupted") if running.interrupted else running.attempt(before.probe, before.operands_digest)
        )
        replayed.append(_replayed(before, again, reason))
        progress("replaying", done, len(failures))
    seed = failures[0].probe.seed if failures else 0
    return running.finished(seed, 1 if failures else 0, ()), tuple(replayed)


def _replayed(before: Failure, again: Failure | None, reason: str) -> Replayed:
    common = 0
    if again is None:
        repetition = Repetition.NOT_RUN if reason else Repetition.PASSES
    else:
        common = len(set(before.elements) & set(again.elements))
        same = before.elements_digest == again.elements_digest
        repetition = Repetition.SAME_ELEMENTS if same else Repetition.OTHER_ELEMENTS
    return Replayed(failure=before, again=again, repetition=repetition, common=common, reason=reason)


def _failure(content: Mapping[str, Any]) -> Failure:
    """Raises: ValueError, KeyError, TypeError or AttributeError."""
    first = [WrongElement(**item | {"index": _whole(item["index"])}) for item in content["first"]]
    wrong = {
        "probe": _probe(content["probe"]),
        "failed_calls": _whole(content["failed_calls"]),
        "elements": tuple(_whole(item) for item in content["elements"]),
        "first": tuple(first),
    }
    return Failure(**dict(content) | wrong)


def _probe(content: Mapping[str, Any]) -> Probe:
    """Raises: ValueError, KeyError or TypeError."""
    shape = _whole(content["shape"])
    _whole([content[name] for name in ("calls", "seed", "iteration")])
    probe = Probe(**dict(content) | {"shape": shape})
    require_possible(probe)
    return probe


def _whole(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
        raise ValueError(f"{values!r} must be whole numbers of 0 or more")
    return tuple(values)
