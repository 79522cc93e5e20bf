"""Commitments to steps: what they say, who signs them, and how a function becomes a committed step."""

from veristate.attest.commitments.audit import AuditFinding, AuditFindingKind, LogAudit
from veristate.attest.commitments.boundary import Boundary
from veristate.attest.commitments.environment import environment_of
from veristate.attest.commitments.key_events import KEY_TYPE, KeyEvent, KeyHistory, Standing
from veristate.attest.commitments.reading import Digest, Name, read_record
from veristate.attest.commitments.recorder import Committed, Recorder
from veristate.attest.commitments.records import EXACT, STATEMENT_TYPE, STEP, Commitment, Count, Manifest, Policy
from veristate.attest.commitments.stage import stage
from veristate.attest.commitments.values import to_artifact

__all__ = [
    "EXACT",
    "KEY_TYPE",
    "STATEMENT_TYPE",
    "STEP",
    "AuditFinding",
    "AuditFindingKind",
    "Boundary",
    "Commitment",
    "Committed",
    "Count",
    "Digest",
    "KeyEvent",
    "KeyHistory",
    "LogAudit",
    "Manifest",
    "Name",
    "Policy",
    "Recorder",
    "Standing",
    "environment_of",
    "read_record",
    "stage",
    "to_artifact",
]
