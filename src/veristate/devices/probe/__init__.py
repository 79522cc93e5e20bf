"""Probes: computations whose right results are known beforehand, run on a device to see whether it gives them."""

from veristate.devices.probe.history import PastRuns, ProbeHistory, default_history
from veristate.devices.probe.identity import DeviceIdentity
from veristate.devices.probe.outcome import Failure, FaultPattern, ProbeRun, ProbeVerdict, Row, calls_of
from veristate.devices.probe.plan import ProbeOptions
from veristate.devices.probe.record import ProbeRecord, Repetition, Replayed, read_record, record_of, replay_failures
from veristate.devices.probe.running import run_probes

__all__ = [
    "DeviceIdentity",
    "Failure",
    "FaultPattern",
    "PastRuns",
    "ProbeHistory",
    "ProbeOptions",
    "ProbeRecord",
    "ProbeRun",
    "ProbeVerdict",
    "Repetition",
    "Replayed",
    "Row",
    "calls_of",
    "default_history",
    "read_record",
    "record_of",
    "replay_failures",
    "run_probes",
]
