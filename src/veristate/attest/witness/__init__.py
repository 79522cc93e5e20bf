"""Witnesses: who cosigns heads, how they are asked, and the evidence when a log forks. Source: C2SP tlog-witness."""

from veristate.attest.witness.client import Ask, Witnessing, http_ask, witness_head
from veristate.attest.witness.forks import Fork
from veristate.attest.witness.server import serve
from veristate.attest.witness.state import AddCheckpoint, Answer, Witness

__all__ = ["AddCheckpoint", "Answer", "Ask", "Fork", "Witness", "Witnessing", "http_ask", "serve", "witness_head"]
