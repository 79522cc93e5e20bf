"""An independent reading of a tiled log: everything from the public format, nothing from the code that writes it.

It parses, hashes and lays out by itself (signatures excepted, which are cryptography's), reads every byte, and says
what is wrong. A finding is data; nothing is repaired.
"""

from veristate.attest.log.fsck.checking import check_log
from veristate.attest.log.fsck.findings import LogFinding, LogFindingKind, LogReport

__all__ = ["LogFinding", "LogFindingKind", "LogReport", "check_log"]
