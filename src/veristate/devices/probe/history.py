"""The history of a device: one JSON line a run, appended and never rewritten."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veristate.core import EnvironmentUnusableError, decimal_string
from veristate.devices.probe.outcome import ProbeRun

FORMAT = "veristate.probe.history/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """The runs of all devices in a folder, those of one device in order; `broken` names the lines that are none."""

    runs: tuple[dict[str, Any], ...]
    broken: tuple[str, ...]


def default_history() -> Path:
    """The folder for histories: $XDG_STATE_HOME/veristate/probes, or ~/.local/state/veristate/probes."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state") / "veristate" / "probes"


class ProbeHistory:
    """The histories of devices in one folder, a file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Returns when a line can be appended, in a folder made if there is none. Raises: EnvironmentUnusableError."""
        with self._writable():
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise OSError(None, "not writable for this user")

    def append(self, run: ProbeRun, *, record: Path | None, replay_of: Path | None) -> Path:
        """The device's file, which now ends with a line for the run: whole, or not there at all. A line that an earlier
        crash broke is closed, not mended. Raises: EnvironmentUnusableError.
        """
        path = self.folder / f"{run.device.key}.jsonl"
        line = json.dumps(_line(run, record, replay_of)).encode() + b"\n"
        with self._writable():
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _append_whole(descriptor, line)
            finally:
                os.close(descriptor)
        return path

    def read(self) -> PastRuns:
        """The runs; none when the folder is not there. A line that is no run is reported and passed over.

        Raises: EnvironmentUnusableError when a file can't be read.
        """
        runs, broken = [], []
        for path in sorted(self.folder.glob("*.jsonl")):
            try:
                lines = path.read_bytes().split(b"\n")
            except OSError as error:
                raise EnvironmentUnusableError(f"{path}: {error.strerror}; see to its permissions") from error
            for number, line in enumerate(lines, 1):
                found = _run(line)
                if found:
                    runs.append(found)
                elif line:
                    broken.append(f"{path} line {number}: not a whole line of this history; passed over")
        return PastRuns(runs=tuple(runs), broken=tuple(broken))

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise EnvironmentUnusableError(f"--history {self.folder}: {reason}; choose another folder") from error


def _append_whole(descriptor: int, line: bytes) -> None:
    """Returns when the line is on the disk. Raises: OSError, with the file as it was."""
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    data = b"\n" * torn + line
    if os.write(descriptor, data) != len(data):
        os.ftruncate(descriptor, size)
        raise OSError(None, "the disk took a part of the line only")
    os.fsync(descriptor)


def _line(run: ProbeRun, record: Path | None, replay_of: Path | None) -> dict[str, Any]:
    """What a history keeps of a run: the device, the verdict and the counts, and where its record is."""
    return {
        "format": FORMAT,
        "started": run.started,
        "seconds": decimal_string(round(run.seconds, 3)),
        **asdict(run.device),
        "torch": run.settings["torch"],
        "verdict": run.verdict().value,
        "pattern": run.pattern().value,
        "seed": run.seed,
        "iterations": run.iterations,
        "calls": sum(row.calls for row in run.rows),
        "failed_calls": sum(row.failed_calls for row in run.rows),
        "wrong": sum(row.wrong for row in run.rows),
        "not_run": sum(gap.times for gap in run.not_run),
        "untested": [name for name, _ in run.untested],
        "record": str(record) if record else "",
        "replay_of": str(replay_of) if replay_of else "",
    }


def _run(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None
