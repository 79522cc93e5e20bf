"""Certified commitment: hold, verify, restore, commit (BioAgent-DF Algorithm 3)."""

from veristate.screening.inputs.options import PolicyName, Recovery, ScreeningOptions
from veristate.screening.outcome.outputs import prepare_folder, write_outputs, write_whole
from veristate.screening.outcome.result import (
    AgentStory,
    Change,
    JournalLine,
    LayerFlags,
    Recomputation,
    Scores,
    ScreeningResult,
)
from veristate.screening.procedure import run_screening
from veristate.screening.studies.calibrate import Calibration, calibrate

__all__ = [
    "AgentStory",
    "Calibration",
    "Change",
    "JournalLine",
    "LayerFlags",
    "PolicyName",
    "Recomputation",
    "Recovery",
    "Scores",
    "ScreeningOptions",
    "ScreeningResult",
    "calibrate",
    "prepare_folder",
    "run_screening",
    "write_outputs",
    "write_whole",
]
