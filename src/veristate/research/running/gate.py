"""The stage gate: a result signal becomes a snapshot, a judgement, a card and an archived state. The worker goes on.

Order: the snapshot is in the store, the evaluation is claimed, it runs on a fresh copy, the card is recorded. Killed in
between, the claim is found and the same snapshot is evaluated again, and the card says so.
"""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.core import Clock, VeristateError, utc_now
from veristate.ledger import Entry
from veristate.research.evaluating import Candidate, Judgement, evaluate, materialise, read_candidate
from veristate.research.processes import Confine
from veristate.research.running.archiving import Archive
from veristate.research.running.budget import Meter
from veristate.research.running.committing import CommitTo, no_commitment
from veristate.research.running.record import CampaignRecord
from veristate.research.states import Card, Place, Standing
from veristate.research.tasks import Task
from veristate.store import Store

NOTE_UPPER = 2000
_MORE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate of one campaign; workers' threads use it at once. `over` says why everything must end now."""

    task: Task
    archive: Archive
    record: CampaignRecord
    meter: Meter
    scratch: Path
    mark: str
    confine: Confine
    over: Callable[[], str | None]
    stopped: threading.Event
    clock: Clock = utc_now
    commit_to: CommitTo = no_commitment

    @property
    def store(self) -> Store:
        """The store behind the archive."""
        return self.archive.store

    def submit(
        self, worker: str, workspace: Path, note: str, still: AbstractContextManager[None] | None = None
    ) -> dict[str, Any]:
        """The reply to a worker's result signal, after the card is recorded. Nobody may write in the workspace while it
        is read; `still` is entered for that time.
        """
        note = note.encode("utf-8", "backslashreplace").decode()[:NOTE_UPPER]
        if reason := self.over():
            return self.reply(worker, "refused", reason=reason)
        try:
            with still or nullcontext():
                tree = self.archive.snapshot(worker, workspace)
        except VeristateError as error:
            return self.reply(worker, "refused", reason=f"the workspace can't be kept: {error}")
        candidate = read_candidate(self.store, tree, self.task.artifact)
        if known := self._known(candidate):
            if known.place.startswith(f"{worker}/"):
                return self.reply(worker, "refused", card=known, reason=f"the same candidate as {known.place}")
            judged = Judgement(
                status=known.status, metric=known.metric, reason=known.reason, arithmetic=known.arithmetic
            )
            details = {**known.details, "judged as": known.place}
            return self._record(worker, candidate, note, judged, attempts=0, details=details)
        if candidate.against:
            judged = Judgement(status="rejected", reason=candidate.against)
            return self._record(worker, candidate, note, judged, attempts=0, details={})
        return self._evaluated(worker, candidate, note)

    def over_for(self, worker: str) -> str | None:
        """Why this worker must end now; None while it may go on."""
        return self.meter.part_used(worker) or self.over()

    def recover(self, worker: str) -> int:
        """How many evaluations of this worker were claimed and not recorded; they are run again and recorded."""
        claimed = self.record.read(lambda standing: list(standing.workers[worker].claimed.values()))
        for content, _ in claimed:
            candidate = read_candidate(self.store, content["tree"], self.task.artifact)
            self._evaluated(worker, candidate, content["note"], stage=content["stage"])
        return len(claimed)

    def reply(self, worker: str, status: str, *, card: Card | None = None, reason: str = "") -> dict[str, Any]:
        """What the worker is told, in fields and as one line of text."""
        best, stages = self.record.read(lambda standing: _standing_of(standing, worker, self.task))
        over = self.over_for(worker) or (f"stages: {stages}" if stages >= self.task.segment.stages else None)
        metric = card.metric if card is not None else None
        place = card.place if card is not None else ""
        flagged = status == "valid" and card is not None and not card.counts
        if flagged:
            reason = f"the evaluator's arithmetic is flagged, so this does not count; it may be tried again. {reason}"
        said = f": {reason}" if reason else ""
        told = f"{self.task.objective.metric} = {metric}" if metric is not None and status == "valid" else status
        return {
            "ok": status == "valid" and not flagged,
            "status": status,
            "stage": place,
            "metric": metric,
            "reason": reason,
            "best": best,
            "queries_left": self.meter.queries_left(worker),
            "segment_over": over is not None,
            "text": f"{place or 'no stage'} {told}{said}; best so far {best}" + (f"; {over}, stop" if over else ""),
        }

    def _evaluated(self, worker: str, candidate: Candidate, note: str, stage: int | None = None) -> dict[str, Any]:
        def claim(standing: Standing) -> str | None:
            left = self.meter.queries_left(worker)
            if stage is None and left is not None and left < 1:
                return "no evaluator queries are left"
            number = stage if stage is not None else _next_stage(standing, worker)
            body.update(stage=number, segment=standing.workers[worker].segments[-1].number)
            body.update(parent=standing.workers[worker].live)
            return None

        body: dict[str, Any] = {"worker": worker, "tree": candidate.tree, "candidate": candidate.digest, "note": note}
        claimed = self.record.append("evaluation.claimed", body, unless=claim)
        if not isinstance(claimed, Entry):
            return self.reply(worker, "refused", reason=claimed)
        attempts = self.record.read(lambda standing: standing.workers[worker].claimed[body["stage"]][1])
        judged = self._judge(candidate, f"{worker}-S{body['stage']:02d}")
        return self._record(worker, candidate, note, judged, attempts=attempts, details=judged.details, claim=body)

    def _judge(self, candidate: Candidate, name: str) -> Judgement:
        folder = self.scratch / name
        if folder.exists():
            shutil.rmtree(folder)
        try:
            (folder / "run").mkdir(parents=True)
            materialise(self.store, candidate, folder / "candidate")
            judged = evaluate(
                self.task,
                self.task.evaluator,
                candidate=folder / "candidate",
                scratch=folder / "run",
                mark=self.mark,
                confine=self.confine,
                checked=self.task.checked,
                timeout_s=max(_MORE_S, self.meter.wall_left_s()),
                stopped=self.stopped.is_set,
            )
            reply = folder / "run" / "reply.json"
            self.commit_to(f"{self.mark}/{name}", self.task.evaluator, candidate, judged, reply)
            return judged
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _record(
        self,
        worker: str,
        candidate: Candidate,
        note: str,
        judged: Judgement,
        *,
        attempts: int,
        details: Mapping[str, str],
        claim: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        standing = self.record.standing
        number = claim["stage"] if claim else _next_stage(standing, worker)
        card = Card(
            place=str(Place(worker=worker, stage=number)),
            parent=claim["parent"] if claim else standing.workers[worker].live,
            segment=standing.workers[worker].segments[-1].number,
            status=judged.status,
            metric=judged.metric,
            arithmetic=judged.arithmetic,
            reason=judged.reason,
            note=note,
            tree=candidate.tree,
            candidate=candidate.digest,
            time=self.clock(),
            spent_s=f"{self.meter.wall_s():.3f}",
            evaluator_s=f"{judged.seconds:.3f}",
            attempts=attempts,
            details=details,
        )
        body = {
            "worker": worker,
            "stage": number,
            "card": card.to_bytes().decode(),
            "reply": judged.reply,
            "cpu_ms": round(1000 * judged.cpu_s),
        }
        self.record.append("stage.recorded", body, card=card)
        return self.reply(worker, judged.status, card=card, reason=judged.reason)

    def _known(self, candidate: Candidate) -> Card | None:
        """The recorded judgement of the same bytes. An evaluator's failure is none, nor is a flagged metric."""
        if candidate.against:
            return None
        cards: list[Card] = self.record.read(lambda standing: standing.cards)
        mine = (card for card in cards if card.candidate == candidate.digest and card.attempts)
        return next((card for card in mine if card.status == "rejected" or card.counts), None)


def _next_stage(standing: Standing, worker: str) -> int:
    mine = standing.workers[worker]
    return 1 + max([*mine.claimed, *(place.stage for c in mine.cards if (place := Place.read(c.place)))], default=0)


def _standing_of(standing: Standing, worker: str, task: Task) -> tuple[str | None, int]:
    mine = standing.workers[worker]
    best = task.objective.best([str(card.metric) for card in mine.cards if card.counts])
    return best, mine.segments[-1].stages if mine.segments else 0
