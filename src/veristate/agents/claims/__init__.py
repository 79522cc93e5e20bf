"""The claim protocol: search, read, finish. A verdict with sentence citations, within budgets, on the record.

Source: BioAgent-DF 3.1, F, H.3. Claims and documents come in as values; nothing here reads a data set.
"""

from veristate.agents.claims.continuation import check_transcript, continue_claim
from veristate.agents.claims.deciders import ChatDecider, LexicalController
from veristate.agents.claims.desk import Decider, Hit, Library, Situation
from veristate.agents.claims.episode import attempt_claim
from veristate.agents.claims.schema import Allowed
from veristate.agents.claims.settings import ClaimSettings, Masking, Prompt
from veristate.agents.claims.transcript import (
    Call,
    Cited,
    Claim,
    Delivery,
    Document,
    Ending,
    Listed,
    Origin,
    Replaced,
    Transcript,
    Turn,
    Verdict,
)
from veristate.agents.models import Reply

__all__ = [
    "Allowed",
    "Call",
    "ChatDecider",
    "Cited",
    "Claim",
    "ClaimSettings",
    "Decider",
    "Delivery",
    "Document",
    "Ending",
    "Hit",
    "LexicalController",
    "Library",
    "Listed",
    "Masking",
    "Origin",
    "Prompt",
    "Replaced",
    "Reply",
    "Situation",
    "Transcript",
    "Turn",
    "Verdict",
    "attempt_claim",
    "check_transcript",
    "continue_claim",
]
