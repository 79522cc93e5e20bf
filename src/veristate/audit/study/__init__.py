"""Studies: a TOML file's captures, agent and arms, run attempt by attempt, kept, counted and written as tables."""

from veristate.audit.study.benches import Bench, Done, Execution, StudyCapture
from veristate.audit.study.committing import committing
from veristate.audit.study.deciding import deciders
from veristate.audit.study.figures import (
    RunFolder,
    Series,
    Sides,
    StudyResults,
    Table,
    as_json,
    group_name,
    item_words,
    name_of,
    read_run,
    results_of,
    sides_of,
    tables_of,
    texts_of,
)
from veristate.audit.study.opening import open_bench
from veristate.audit.study.recorded import Executed, Recorded, opened, read_recorded, read_transcript
from veristate.audit.study.running import Plan, Ran, run_study
from veristate.audit.study.spec import StudySpec, read_study

__all__ = [
    "Bench",
    "Done",
    "Executed",
    "Execution",
    "Plan",
    "Ran",
    "Recorded",
    "RunFolder",
    "Series",
    "Sides",
    "StudyCapture",
    "StudyResults",
    "StudySpec",
    "Table",
    "as_json",
    "committing",
    "deciders",
    "group_name",
    "item_words",
    "name_of",
    "open_bench",
    "opened",
    "read_recorded",
    "read_run",
    "read_study",
    "read_transcript",
    "results_of",
    "run_study",
    "sides_of",
    "tables_of",
    "texts_of",
]
