"""What a Python worker is handed: its workspace, the engine's direction, and `submit`."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from veristate.research.workers.submit import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a result signal. `status` is valid, rejected, failed (the evaluator's fault) or refused (nothing
    was evaluated: the budget is spent, or the candidate is the one of `stage`). `reason` says why; `best` is this
    worker's best valid metric so far, `queries_left` None when not limited.
    """

    status: Literal["valid", "rejected", "failed", "refused"]
    stage: str
    metric: str | None
    reason: str
    best: str | None
    queries_left: int | None
    segment_over: bool


class Bench:
    """A segment as the worker sees it. Made by the engine's host from what lies in the mailbox.

    `plateau` is how many segments brought no gain before this one, `turns` how many of those were redirected: a
    restored workspace does not know what was tried after it.
    """

    def __init__(self, workspace: Path, mailbox: Path) -> None:
        self.workspace = workspace
        self._mailbox = mailbox
        told: dict[str, Any] = json.loads((mailbox / "segment.json").read_text(encoding="utf-8"))
        self.worker: str = told["worker"]
        self.segment: int = told["segment"]
        self.seed: int = told["seed"]
        self.direction: Literal["extend", "redirect"] = told["direction"]
        self.restart: str = told["restart"]
        self.focus: str = told["focus"]
        self.plateau: int = told["plateau"]
        self.turns: int = told["turns"]
        self.peers: str = told["peers"]
        self.peer_best: str | None = told["peer_best"]
        self.best: str | None = told["best"]
        self.queries_left: int | None = told["queries_left"]
        self.target: str | None = told["target"]
        self.parameters: Mapping[str, Any] = MappingProxyType(told["parameters"])
        self._deadline: float = told["deadline"]
        self._over = False

    def remaining_s(self) -> float:
        """Seconds until the segment's deadline, when this process is killed; 0 once the engine said it is over."""
        return 0.0 if self._over else max(0.0, self._deadline - time.time())

    def submit(self, note: str = "") -> Outcome:
        """The judgement of the artifact's files as they lie in the workspace now. Waits for the evaluator.

        Nothing may write in the workspace meanwhile. The same candidate again costs no query.
        """
        reply = ask(self._mailbox, {"kind": "submit", "note": note})
        self.best, self.queries_left, self._over = reply["best"], reply["queries_left"], reply["segment_over"]
        return Outcome(**{name: reply[name] for name in Outcome.__slots__})

    def unfold(self, identifier: str, stages: Sequence[str] = ()) -> str:
        """The original cards behind a folded summary, or those of the named stages. Raises: KeyError for others."""
        reply = ask(self._mailbox, {"kind": "unfold", "id": identifier, "stages": list(stages)})
        if not reply["ok"]:
            raise KeyError(reply["text"])
        return str(reply["text"])

    def propose_job(self, argv: Sequence[str], **wishes: Any) -> Mapping[str, Any]:
        """The controller's answer to a proposal of physical work. `wishes` are those of the job controller."""
        return ask(self._mailbox, {"kind": "job", "argv": list(argv)} | wishes)
