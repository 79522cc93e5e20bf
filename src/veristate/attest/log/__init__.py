"""The log: an RFC 6962 tree in C2SP tlog-tiles layout, its proofs, and an independent reading of it."""

from veristate.attest.log.fsck import LogFinding, LogFindingKind, LogReport, check_log
from veristate.attest.log.layout import CHECKPOINT, ENTRY_BYTES_UPPER
from veristate.attest.log.proofs import LogProof
from veristate.attest.log.reader import LogReader, fetch_from
from veristate.attest.log.tree import EMPTY_ROOT, extends, includes, leaf_hash, node_hash, roots_of
from veristate.attest.log.writer import TileLog

__all__ = [
    "CHECKPOINT",
    "EMPTY_ROOT",
    "ENTRY_BYTES_UPPER",
    "LogFinding",
    "LogFindingKind",
    "LogProof",
    "LogReader",
    "LogReport",
    "TileLog",
    "check_log",
    "extends",
    "fetch_from",
    "includes",
    "leaf_hash",
    "node_hash",
    "roots_of",
]
