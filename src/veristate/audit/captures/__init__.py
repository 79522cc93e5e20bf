"""Captures: the values of a healthy and of a suspect execution at one site, where they differ, and of which class."""

from veristate.audit.captures.capture import Capture, CaptureRecord
from veristate.audit.captures.differences import (
    Computation,
    DifferenceClass,
    Differences,
    classify,
    ordinary_bound,
)
from veristate.audit.captures.files import read_saved
from veristate.audit.captures.saved import Provenance, Saved

__all__ = [
    "Capture",
    "CaptureRecord",
    "Computation",
    "DifferenceClass",
    "Differences",
    "Provenance",
    "Saved",
    "classify",
    "ordinary_bound",
    "read_saved",
]
