"""The trusted executor: a separate process that checks what a suspect device did and recomputes what it must."""

from veristate.devices.trusted.executor import Group, TrustedExecutor
from veristate.devices.trusted.stream import CaptureStream, CheckedPass, Evidence

__all__ = ["CaptureStream", "CheckedPass", "Evidence", "Group", "TrustedExecutor"]
