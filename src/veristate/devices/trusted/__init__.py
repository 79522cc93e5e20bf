"""The trusted executor: a separate process that checks what a suspect device did and recomputes what it must."""

from veristate.devices.trusted.certification import Certification, PlannedPass, RowsAsked
from veristate.devices.trusted.executor import Group, TrustedExecutor
from veristate.devices.trusted.exported import ExportedPass, no_export, run_exported
from veristate.devices.trusted.stream import CaptureStream, CheckedPass, Evidence

__all__ = [
    "CaptureStream",
    "Certification",
    "CheckedPass",
    "Evidence",
    "ExportedPass",
    "Group",
    "PlannedPass",
    "RowsAsked",
    "TrustedExecutor",
    "no_export",
    "run_exported",
]
