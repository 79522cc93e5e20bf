"""The journal of what happened and the gateway through which an action is committed, once.

The journal detects every change that does not also recompute all digests after it and the head; that its head is
shown to somebody outside, and so can't be rewritten either, is the matter of `attest`.
"""

from veristate.ledger.database import Database
from veristate.ledger.entries import GENESIS, Entry, FindingKind, JournalFinding
from veristate.ledger.gateway import Gateway, Outcome
from veristate.ledger.judgement import Reason
from veristate.ledger.ledger import Ledger
from veristate.ledger.tables import SCHEMA_VERSION

__all__ = [
    "GENESIS",
    "SCHEMA_VERSION",
    "Database",
    "Entry",
    "FindingKind",
    "Gateway",
    "JournalFinding",
    "Ledger",
    "Outcome",
    "Reason",
]
