"""What is told of a study: its figures, their tables, single groups side by side, and what its folder holds."""

from veristate.audit.study.figures.folder import RunFolder, read_run, texts_of
from veristate.audit.study.figures.results import Series, StudyResults, results_of
from veristate.audit.study.figures.sides import Sides, item_words, name_of, sides_of
from veristate.audit.study.figures.tables import Table, as_json, group_name, tables_of

__all__ = [
    "RunFolder",
    "Series",
    "Sides",
    "StudyResults",
    "Table",
    "as_json",
    "group_name",
    "item_words",
    "name_of",
    "read_run",
    "results_of",
    "sides_of",
    "tables_of",
    "texts_of",
]
