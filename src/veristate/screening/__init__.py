"""Certified commitment: hold, verify, restore, commit (BioAgent-DF Algorithm 3)."""

from veristate.screening.calibrate import Calibration, calibrate
from veristate.screening.options import PolicyName, Recovery, ScreeningOptions
from veristate.screening.outputs import prepare_folder, write_outputs, write_whole
from veristate.screening.procedure import run_screening
from veristate.screening.result import (
    AgentStory,
    Change,
    JournalLine,
    LayerFlags,
    Recomputation,
    Scores,
    ScreeningResult,
)

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
