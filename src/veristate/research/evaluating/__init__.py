"""Judging candidates: an evaluator in a process of its own, on a fresh copy of an immutable snapshot."""

from veristate.research.evaluating.candidates import Candidate, materialise, read_candidate
from veristate.research.evaluating.evaluator import Judgement, Status, evaluate, reply_bytes

__all__ = ["Candidate", "Judgement", "Status", "evaluate", "materialise", "read_candidate", "reply_bytes"]
