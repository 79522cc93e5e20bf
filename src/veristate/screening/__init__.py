"""Certified commitment: hold, verify, restore, commit (BioAgent-DF Algorithm 3)."""

from veristate.screening.options import PolicyName, Recovery, ScreeningOptions
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
    "Change",
    "JournalLine",
    "LayerFlags",
    "PolicyName",
    "Recomputation",
    "Recovery",
    "Scores",
    "ScreeningOptions",
    "ScreeningResult",
    "run_screening",
]
