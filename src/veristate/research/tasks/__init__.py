"""What a campaign is asked to do: the task contract, and its loader."""

from veristate.research.judgement import Rejection, Score, metric_text
from veristate.research.tasks.contract import (
    Artifact,
    Budget,
    Code,
    Direction,
    Example,
    Objective,
    Resources,
    SegmentLimits,
    Task,
    filled,
)
from veristate.research.tasks.reading import bundled_tasks, read_task
from veristate.research.tasks.starting import new_task

__all__ = [
    "Artifact",
    "Budget",
    "Code",
    "Direction",
    "Example",
    "Objective",
    "Rejection",
    "Resources",
    "Score",
    "SegmentLimits",
    "Task",
    "bundled_tasks",
    "filled",
    "metric_text",
    "new_task",
    "read_task",
]
