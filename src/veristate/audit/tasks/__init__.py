"""The tasks that audits run: small scientific computations with their data, endpoints and aggregate metrics."""

from importlib import import_module

from veristate.audit.tasks.catalogue import FILES
from veristate.audit.tasks.sources import VARIABLE, Data, DataFile, FoundFile, is_known
from veristate.audit.tasks.task import (
    Change,
    Description,
    LayeredTask,
    Product,
    Task,
    TaskOutcome,
    unchanged,
)
from veristate.core import InputError

NAMES = tuple(FILES)


def load_task(name: str, data: Data) -> Task:
    """The task of that name, ready to run; what took long to prepare comes from the user's cache.

    Raises: InputError for a name that is none, EnvironmentUnusableError when its data is absent.
    """
    if name not in FILES:
        raise InputError(f"no task {name!r}; known are {', '.join(NAMES)}")
    # Each module imports what it alone needs, so that listing the tasks needs no library of any.
    task: Task = import_module(f"{__name__}.{name}").load(data)
    return task


__all__ = [
    "FILES",
    "NAMES",
    "VARIABLE",
    "Change",
    "Data",
    "DataFile",
    "Description",
    "FoundFile",
    "LayeredTask",
    "Product",
    "Task",
    "TaskOutcome",
    "is_known",
    "load_task",
    "unchanged",
]
