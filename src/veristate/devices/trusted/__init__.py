"""The trusted executor: a separate process that checks what a suspect device did and recomputes what it must."""

from veristate.devices.trusted.executor import CaptureStream, CheckedPass, Evidence, Group, TrustedExecutor

__all__ = ["CaptureStream", "CheckedPass", "Evidence", "Group", "TrustedExecutor"]
