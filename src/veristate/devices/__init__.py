"""Computation on hardware that may lie: watch it, check it, simulate its faults, recompute on a trusted executor."""

from veristate.devices.checked import Checks, Finding, checked
from veristate.devices.coverage import Coverage, measure_coverage
from veristate.devices.declared import declared_arithmetic
from veristate.devices.faults import Event, FaultModel, fault_named, write_residuals
from veristate.devices.findings import CallFinding, Findings, summarise
from veristate.devices.granularity import Granularity
from veristate.devices.predictors import Candidates, Predictor, PredictorSpec, load_predictor, unreadable_inputs
from veristate.devices.probe import (
    FaultPattern,
    PastRuns,
    ProbeHistory,
    ProbeOptions,
    ProbeRun,
    ProbeVerdict,
    Repetition,
    Replayed,
    calls_of,
    default_history,
    read_record,
    record_of,
    replay_failures,
    run_probes,
)
from veristate.devices.readout import ReadOut, read_outs
from veristate.devices.settings import prepare_process, read_settings
from veristate.devices.sites import SiteValues, continue_from, list_sites, save_sites
from veristate.devices.suspect import SuspectPass, require_probabilities, run_suspect
from veristate.devices.switches import ProductSettings
from veristate.devices.training import Training, torch_version, train_network
from veristate.devices.trusted import CheckedPass, Evidence, Group, TrustedExecutor
from veristate.devices.watch import LinearCall, linear_layers, watch

__all__ = [
    "CallFinding",
    "Candidates",
    "CheckedPass",
    "Checks",
    "Coverage",
    "Event",
    "Evidence",
    "FaultModel",
    "FaultPattern",
    "Finding",
    "Findings",
    "Granularity",
    "Group",
    "LinearCall",
    "PastRuns",
    "Predictor",
    "PredictorSpec",
    "ProbeHistory",
    "ProbeOptions",
    "ProbeRun",
    "ProbeVerdict",
    "ProductSettings",
    "ReadOut",
    "Repetition",
    "Replayed",
    "SiteValues",
    "SuspectPass",
    "Training",
    "TrustedExecutor",
    "calls_of",
    "checked",
    "continue_from",
    "declared_arithmetic",
    "default_history",
    "fault_named",
    "linear_layers",
    "list_sites",
    "load_predictor",
    "measure_coverage",
    "prepare_process",
    "read_outs",
    "read_record",
    "read_settings",
    "record_of",
    "replay_failures",
    "require_probabilities",
    "run_probes",
    "run_suspect",
    "save_sites",
    "summarise",
    "torch_version",
    "train_network",
    "unreadable_inputs",
    "watch",
    "write_residuals",
]
