"""What a screening run ends with: plain values, from which the summary, the JSON and the report are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from veristate.core import Certificate, Decision, Rule
from veristate.core.records import ContractKind
from veristate.devices import Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A candidate that would have been decided otherwise. `entered` says whether the certified decision chooses it.

    `score_before` and `score_after` are its unchecked and its certified calibrated mean. `own` is true when its own
    score was wrong; otherwise a competitor's was.
    """

    id: str
    name: str
    rule: str
    entered: bool
    score_before: float
    score_after: float
    boundary: float
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFlags:
    """The flags of one layer of one member: calls checked and flagged, the worst residual over its bound ("inf" or a
    decimal string), and the table positions of the candidates that were marked.
    """

    member: int
    layer: str
    calls: int
    flagged: int
    worst: str
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """One round of trusted recomputation: why, how many units were asked for, how many were computed with them, and the
    decisions that stood after it (reported; only those after the last round can be certified).
    """

    reason: str
    asked: int
    computed: int
    decisions: tuple[Decision, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStory:
    """What the agent did: its name, the recovery condition, what it read first, whether it was taken back, and what the
    gateway said. `steps` are plain sentences in order.
    """

    agent: str
    recovery: str
    read_unverified: bool
    restored: bool
    refused: tuple[str, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """An entry of the journal as the report shows it."""

    seq: int
    time: str
    kind: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assurance:
    """How a run was certified, or would have been: the contract, delta, what is certified ("" where nothing is), the
    strategy with its reason, the trusted side's predicted and real seconds, what probes were put to, and how many
    exported values stood out and were evaluated on the trusted side.
    """

    contract_kind: ContractKind = "C2"
    delta: str = "0"
    certifies: str = ""
    strategy: str = "full"
    reason: str = ""
    predicted_seconds: float | None = None
    spent_seconds: float | None = None
    rows_checked: int = 0
    probe_draws: int = 0
    values_evaluated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Per candidate, in table order: identifier, name, calibrated mean before checking and as certified (None where
    nothing is certified). `before` may hold NaN when the suspect device gave none. Under exact arithmetic `lower` and
    `upper` enclose the exact means, and `certified` is a point between them.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    before: tuple[float, ...]
    certified: tuple[float, ...] | None
    lower: tuple[float, ...] | None = None
    upper: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningResult:
    """Everything a reader is told about one run. Counts are of units (one candidate from one member) where said so.

    `flagged_units` lie in what a flag proves, `marked_units` also where a check was not applicable. `comparable` says
    that both executors compute alike, so that a value with other bits than the reference's is a wrong one.
    `injected_calls` is the number of calls that a simulated fault changed, `injected_residuals` what it did, in
    the lines that `--inject replay:FILE` takes. `agent` is how the agent was asked for. `commitment` is the payload's
    digest of what goes into the log, empty when nothing does.
    """

    request_id: str
    predictor: str
    candidates: int
    members: int
    dtype: str
    device: str
    trusted_device: str
    injected: str | None
    injected_calls: int
    injected_residuals: str
    policy: str
    epsilon: float | None
    agent: str
    rules: tuple[Rule, ...]
    excluded: tuple[str, ...]
    coverage: float
    unwatched: tuple[tuple[str, int], ...]
    checked_on: str
    granularity: Granularity
    checks: Mapping[str, int]
    layer_flags: tuple[LayerFlags, ...]
    flagged_units: int
    marked_units: int
    comparable: bool
    recomputed_units: int
    recomputations: tuple[Recomputation, ...]
    wrong_values: int | None
    wrong_means: int | None
    largest_displacement: float | None
    decisions_before: tuple[Decision, ...] | None
    decisions: tuple[Decision, ...] | None
    changes: tuple[Change, ...]
    scores: Scores
    certificate: Certificate | None
    committed: bool
    committed_earlier: str | None
    commitment: str
    story: AgentStory
    journal: tuple[JournalLine, ...]
    journal_head: str
    reference_match: bool | None
    peak_memory_mb: float | None
    assurance: Assurance = Assurance()
    seconds: Mapping[str, float] = field(default_factory=dict)

    def decision(self, kind: str) -> Decision | None:
        """The certified decision of the rule of that kind, if there is one."""
        return next((d for d in self.decisions or () if d.rule.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        selected, tested, nearest = (self.decision(kind) for kind in ("top_k", "threshold", "nearest"))
        content: dict[str, Any] = {
            "request_id": self.request_id,
            "predictor": self.predictor,
            "candidates": self.candidates,
            "excluded": list(self.excluded),
            "members": self.members,
            "dtype": self.dtype,
            "device": self.device,
            "trusted_device": self.trusted_device,
            "injected": self.injected,
            "injected_calls": self.injected_calls,
            "contract": self.assurance.contract_kind,
            "delta": self.assurance.delta,
            "certifies": self.assurance.certifies or None,
            "strategy": self.assurance.strategy,
            "strategy_reason": self.assurance.reason,
            "predicted_seconds": self.assurance.predicted_seconds,
            "spent_seconds": self.assurance.spent_seconds,
            "rows_checked": self.assurance.rows_checked,
            "probe_draws": self.assurance.probe_draws,
            "values_evaluated": self.assurance.values_evaluated,
            "policy": self.policy,
            "coverage": {"watched_share": self.coverage, "unwatched": dict(self.unwatched)},
            "checks": dict(self.checks) | {"block": self.granularity.block, "draws": self.granularity.draws},
            "flags": self.checks["flagged"],
            "flagged_units": self.flagged_units,
            "marked_units": self.marked_units,
            "checked_on": self.checked_on,
            "recomputed_units": self.recomputed_units,
            "wrong_values": self.wrong_values,
            "selected": list(selected.chosen) if selected else None,
            "tested": list(tested.chosen) if tested else None,
            "certificate": self.certificate.digest if self.certificate else None,
            "committed": self.committed,
            "committed_earlier": self.committed_earlier,
            "commitment": self.commitment or None,
            "refused": list(self.story.refused),
            "agent": self.story.agent,
            "recovery": self.story.recovery,
            "journal_head": self.journal_head,
            "peak_memory_mb": self.peak_memory_mb,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }
        if self.scores.lower is not None and self.scores.upper is not None:
            ends = zip(self.scores.ids, self.scores.lower, self.scores.upper, strict=True)
            content["intervals"] = {name: [low, high] for name, low, high in ends}
        if nearest:
            content["nearest"] = list(nearest.chosen)
        if self.reference_match is not None:
            content["reference_match"] = self.reference_match
            content["changed"] = sorted({change.id for change in self.changes})
        return content
