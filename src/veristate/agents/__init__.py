"""The execution state of an agent (visible history, namespace, files), kept and gone back to; and the agents.

An agent proposes. What becomes of a proposal is decided by others, from records that no agent can write. Chat models
(`models`) and the protocol in which one checks a claim (`claims`) are packages of their own, imported by their names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veristate.agents.agent import Agent, Proposal, Task
    from veristate.agents.loading import FunctionAgent, load_agent
    from veristate.agents.namespace import CellResult, NamespaceCheckpoint, NamespaceReport, Variable
    from veristate.agents.session import Session
    from veristate.agents.state import Checkpoint, Message, Payload, Pending

__all__ = [
    "Agent",
    "CellResult",
    "Checkpoint",
    "FunctionAgent",
    "Message",
    "NamespaceCheckpoint",
    "NamespaceReport",
    "Payload",
    "Pending",
    "Proposal",
    "Session",
    "Task",
    "Variable",
    "load_agent",
]

_WHERE = {
    "agent": ("Agent", "Proposal", "Task"),
    "loading": ("FunctionAgent", "load_agent"),
    "namespace": ("CellResult", "NamespaceCheckpoint", "NamespaceReport", "Variable"),
    "session": ("Session",),
    "state": ("Checkpoint", "Message", "Payload", "Pending"),
}


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: an agent's process, which starts often, needs none of them."""
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
