"""An agent's Python in a process of its own: run cells, keep the whole namespace, go back to it.

`client` and `process` are our side, `worker` and what it imports the other one. Pickles are made and read in the
worker alone; our side only moves bytes that the store has re-hashed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from veristate.agents.namespace.values import CellResult, NamespaceCheckpoint, NamespaceReport, Variable

if TYPE_CHECKING:
    from veristate.agents.namespace.client import Namespace, StoredNamespace

__all__ = ["CellResult", "Namespace", "NamespaceCheckpoint", "NamespaceReport", "StoredNamespace", "Variable"]


def __getattr__(name: str) -> Any:
    """Our side is imported when it is asked for: the worker starts without it, and without the store."""
    if name not in ("Namespace", "StoredNamespace"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.client"), name)
