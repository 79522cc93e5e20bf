"""The one structured decision that every decider gives."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from veristate.core import Record

LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReAnchoring(Record):
    """Where the next segment starts and whether it goes on or turns. `restart` is `live` or an archived state.

    `imports` are single artifacts of other archived states, as `place:path`. `decider` is policy, model, none (a
    campaign without re-anchoring), or policy-after-model with the reason in `failure`.
    """

    FORMAT: ClassVar[str] = "veristate.research.restart/1"
    restart: str
    direction: Literal["extend", "redirect"]
    bottleneck: str
    evidence: tuple[str, ...]
    rationale: str
    focus: str
    imports: tuple[str, ...] = ()
    decider: str = "policy"
    failure: str = ""


def keep_live() -> ReAnchoring:
    """Live and extend, always: what an engine without re-anchoring does."""
    return ReAnchoring(
        restart=LIVE,
        direction="extend",
        bottleneck="none named",
        evidence=(),
        rationale="this campaign runs without re-anchoring",
        focus="go on",
        decider="none",
    )
