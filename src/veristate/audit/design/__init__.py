"""The design of a paired audit: conditions and their states, selections, environments, schedule, comparisons."""

from veristate.audit.design.comparisons import (
    TARGETS,
    Across,
    GroupKey,
    Partings,
    Reached,
    Replacement,
    across,
    key_of,
    parting,
    partings,
    reaching,
)
from veristate.audit.design.conditions import ALGORITHM_1, CELLS, FACTORIAL, SELECTIVE, Condition, Treatment, treat
from veristate.audit.design.environments import constructed_from, in_environment
from veristate.audit.design.schedule import Planned, PlannedGroup, Role, interleaved, schedule
from veristate.audit.design.selecting import changed_rows, developed_selection, minimal_selection, pair_of

__all__ = [
    "ALGORITHM_1",
    "CELLS",
    "FACTORIAL",
    "SELECTIVE",
    "TARGETS",
    "Across",
    "Condition",
    "GroupKey",
    "Partings",
    "Planned",
    "PlannedGroup",
    "Reached",
    "Replacement",
    "Role",
    "Treatment",
    "across",
    "changed_rows",
    "constructed_from",
    "developed_selection",
    "in_environment",
    "interleaved",
    "key_of",
    "minimal_selection",
    "pair_of",
    "parting",
    "partings",
    "reaching",
    "schedule",
    "treat",
]
