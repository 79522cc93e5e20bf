"""Certified commitment: hold, verify, restore, commit (BioAgent-DF Algorithm 3)."""

from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.outcome.outputs import (
    left_from_earlier,
    prepare_folder,
    stands_committed,
    write_outputs,
    write_whole,
)
from veristate.screening.outcome.result import (
    AgentStory,
    Assurance,
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
    "Assurance",
    "Calibration",
    "Change",
    "JournalLine",
    "LayerFlags",
    "Recomputation",
    "Scores",
    "ScreeningOptions",
    "ScreeningResult",
    "calibrate",
    "left_from_earlier",
    "prepare_folder",
    "run_screening",
    "stands_committed",
    "write_outputs",
    "write_whole",
]
