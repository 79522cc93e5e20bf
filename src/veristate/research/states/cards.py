"""Result cards: the record of one result signal, and the state that it archived."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from veristate.core import Record

TEXT_UPPER = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The name of a state: a worker and the number of its stage; stage 0 is the empty or given workspace."""

    worker: str
    stage: int

    def __str__(self) -> str:
        return f"{self.worker}/S{self.stage:02d}"

    @classmethod
    def read(cls, text: str) -> "Place | None":
        """The place that `text` names; None when it names none."""
        worker, slash, stage = text.strip().rpartition("/S")
        return cls(worker=worker, stage=int(stage)) if slash and stage.isascii() and stage.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(Record):
    """One judged result. `tree` is the snapshot of the whole workspace at that moment, `candidate` the digest of the
    artifact's files, `parent` the state that the worker's files came from.

    `status` failed is the evaluator's failure. `arithmetic` is the verdict on the evaluator's own arithmetic; a FLAG
    keeps the state from being evidence. `attempts` above 1: an earlier evaluation was claimed and never recorded.
    """

    FORMAT: ClassVar[str] = "veristate.research.card/1"
    place: str
    parent: str
    segment: int
    status: Literal["valid", "rejected", "failed"]
    metric: str | None
    arithmetic: Literal["PASS", "FLAG", "UNCHECKED"]
    reason: str
    note: str
    tree: str
    candidate: str
    time: str
    spent_s: str
    evaluator_s: str
    attempts: int
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether it is evidence: valid, and its arithmetic not flagged."""
        return self.status == "valid" and self.metric is not None and self.arithmetic != "FLAG"

    def text(self) -> str:
        """The card as a worker reads it: what is folded, and what unfolding gives back byte for byte."""
        lines = [
            f"## {self.place}  {self.status}  metric={self.metric if self.metric is not None else 'none'}",
            f"segment {self.segment}, from {self.parent}, at {self.spent_s} s, arithmetic {self.arithmetic}",
        ]
        lines += [f"reason: {self.reason[:TEXT_UPPER]}"] if self.reason else []
        lines += [f"note: {self.note[:TEXT_UPPER]}"] if self.note else []
        lines += [f"{key}: {value}" for key, value in sorted(self.details.items())]
        lines += [f"evaluated {self.attempts} times: an earlier evaluation was cut off"] if self.attempts > 1 else []
        return "\n".join(lines) + "\n"
