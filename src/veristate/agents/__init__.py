"""The execution state of an agent (visible history, namespace, files), kept and gone back to; and the agents.

An agent proposes. What becomes of a proposal is decided by others, from records that no agent can write. Chat models
(`models`) and the protocol in which one checks a claim (`claims`) are packages of their own, imported by their names.
"""

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
