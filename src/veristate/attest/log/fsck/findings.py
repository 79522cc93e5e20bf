"""What can be said of a log that was read."""

from dataclasses import dataclass
from enum import StrEnum


class LogFindingKind(StrEnum):
    """What can be wrong with a log. Only `UNCLAIMED` is harmless: files beyond the head, of an append that was cut."""

    CHECKPOINT = "checkpoint"
    SIGNATURE = "signature"
    MISSING = "missing"
    ENTRY = "entry differs from its leaf"
    TILE = "tile differs"
    ROOT = "root differs"
    STRAY = "stray"
    UNCLAIMED = "unclaimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding:
    """One thing that is wrong, and at which path."""

    kind: LogFindingKind
    path: str
    detail: str

    @property
    def harmless(self) -> bool:
        """Whether everything that the head claims is untouched by it."""
        return self.kind is LogFindingKind.UNCLAIMED


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """What was read: how many entries the signed head claims, who cosigned it, and what is wrong.

    `unjudged` names the signers of lines under the head whose keys were not given: nothing was checked of those lines.
    """

    origin: str
    size: int
    findings: tuple[LogFinding, ...]
    cosigned: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing but harmless things was found."""
        return all(finding.harmless for finding in self.findings)
