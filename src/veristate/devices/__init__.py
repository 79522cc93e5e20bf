"""Computation on hardware that may lie: watch it, check it, simulate its faults, recompute on a trusted executor."""

from veristate.devices.coverage import Coverage, measure_coverage
from veristate.devices.faults import Event, FaultModel, fault_named, write_residuals
from veristate.devices.findings import CallFinding, Findings, summarise
from veristate.devices.predictors import Candidates, Predictor, PredictorSpec, load_predictor, unreadable_inputs
from veristate.devices.settings import prepare_process, read_settings
from veristate.devices.suspect import SuspectPass, require_probabilities, run_suspect
from veristate.devices.trusted import CheckedPass, Evidence, Group, TrustedExecutor
from veristate.devices.watch import LinearCall, linear_layers, watch

__all__ = [
    "CallFinding",
    "Candidates",
    "CheckedPass",
    "Coverage",
    "Event",
    "Evidence",
    "FaultModel",
    "Findings",
    "Group",
    "LinearCall",
    "Predictor",
    "PredictorSpec",
    "SuspectPass",
    "TrustedExecutor",
    "fault_named",
    "linear_layers",
    "load_predictor",
    "measure_coverage",
    "prepare_process",
    "read_settings",
    "require_probabilities",
    "run_suspect",
    "summarise",
    "unreadable_inputs",
    "watch",
    "write_residuals",
]
