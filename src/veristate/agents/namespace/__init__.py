"""An agent's Python in a process of its own: run cells, keep the whole namespace, go back to it.

`client` and `process` are our side, `worker` and what it imports the other one. Pickles are made and read in the
worker alone; our side only moves bytes that the store has re-hashed.
"""

from veristate.agents.namespace.client import Namespace, StoredNamespace
from veristate.agents.namespace.values import CellResult, NamespaceCheckpoint, NamespaceReport, Variable

__all__ = ["CellResult", "Namespace", "NamespaceCheckpoint", "NamespaceReport", "StoredNamespace", "Variable"]
