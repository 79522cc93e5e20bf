"""One worker's way through a campaign: restore, work, judge, re-anchor, again. A thread of the engine.

Each step is journaled before the next, so that a lane that was killed anywhere is taken up where its journal ends.
"""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veristate.core import InputError, VeristateError
from veristate.research.deciding import Evidence, ReAnchoring
from veristate.research.deciding.decision import LIVE
from veristate.research.jobs import JobController
from veristate.research.memory import abandoned_tail, unfold
from veristate.research.running.briefing import brief_for, decision_in, evidence_for, memory_of
from veristate.research.running.gate import Gate
from veristate.research.running.opening import CampaignHome
from veristate.research.running.working import hiding
from veristate.research.running.workspaces import bring, remove_endpoints, write_brief
from veristate.research.states import Place, Segment, Standing, WorkerStanding
from veristate.research.tasks import Task
from veristate.research.workers.mailbox import Mailbox
from veristate.research.workers.seat import Departure, Driver, Seat

BARREN_UPPER = 5
_BY_ITSELF = ("text-only", "the worker", "the model", "the context")
Decide = Callable[[Evidence, str], ReAnchoring]


@dataclass(slots=True, kw_only=True)
class Lane:
    """One worker. `run` is called once, in a thread of its own; whatever happens in it stays in it."""

    name: str
    task: Task
    home: CampaignHome
    gate: Gate
    driver: Driver
    decide: Decide
    seed: int
    jobs: JobController
    proposals: bool = True
    _trusted: bool = field(default=False, init=False)

    @property
    def workspace(self) -> Path:
        """Where the worker works."""
        return self.home.worker(self.name) / "workspace"

    def run(self) -> None:
        """Returns when this worker has no more to do; the journal says why."""
        try:
            self._recover()
            reason = self.gate.over_for(self.name)
            while reason is None:
                self._work(self._enter())
                reason = self.gate.over_for(self.name) or self._barren()
        except VeristateError as error:
            reason = f"stopped: {error}"
        except Exception as error:  # one bad worker must not end the others
            reason = f"failed: {error!r} at {traceback.format_exc(limit=-2)[-600:]}"
        if not self.gate.stopped.is_set():
            self.gate.record.append("worker.ended", {"worker": self.name, "reason": reason[:2000]})

    def _recover(self) -> None:
        """Returns when what a killed engine left open is closed: claims are judged, the segment has an end."""
        self.home.worker(self.name).mkdir(parents=True, exist_ok=True)
        segment = self._mine().open_segment
        if segment is None:
            return
        self.gate.recover(self.name)
        if not self.workspace.is_dir():
            self.gate.archive.restore(self.name, segment.tree, self.workspace)
        self._close(segment, Departure(reason="the engine was killed"))

    def _enter(self) -> Segment:
        """The new segment, its restart state restored."""
        mine = self._mine()
        decision = self._decision(mine)
        restart, tree, direction, focus = self._start(mine, decision)
        live = decision is not None and decision.restart == LIVE
        if not (live and self._trusted):  # a workspace that nobody but the last segment could touch is what it was
            self.jobs.leave(self.name, f"the workspace was restored to {restart}")
            self.gate.archive.restore(self.name, tree, self.workspace)
        self._trusted = True
        if decision is not None and decision.imports:
            with self.jobs.held(self.name):
                bring(self.gate.store, mine.cards, decision.imports, self.workspace)
        body = {
            "worker": self.name,
            "segment": len(mine.segments) + 1,
            "restart": restart,
            "tree": tree,
            "direction": direction,
            "focus": focus,
        }
        self.gate.record.append("segment.started", body)
        return self._mine().segments[-1]

    def _decision(self, mine: WorkerStanding) -> ReAnchoring | None:
        """The decision that the next segment starts from: the recorded one, or a new one, recorded. None at first."""
        if not mine.segments:
            return None
        after = mine.segments[-1].number
        if mine.decisions and mine.decisions[-1].after == after:
            return decision_in(mine.decisions[-1])
        decision = self.decide(evidence_for(self.gate, self.name), memory_of(mine, self.task.objective))
        body = {"worker": self.name, "after": after, "live": mine.live, "decision": decision}
        self.gate.record.append("restart.decided", body)
        if decision.restart not in (LIVE, mine.live):
            identifier, summary = abandoned_tail(mine.cards, decision.restart, self.task.objective)
            if identifier:
                folded = {"worker": self.name, "id": identifier, "summary": summary}
                self.gate.record.append("memory.folded", folded)
        return decision

    def _start(self, mine: WorkerStanding, decision: ReAnchoring | None) -> tuple[str, str, str, str]:
        """The restart state's name and tree, the direction and the focus."""
        start = str(Place(worker=self.name, stage=0))
        template = self.gate.record.standing.opened["template"]
        if decision is None:
            return start, template, "extend", "start"
        if decision.restart == LIVE:
            return mine.live, mine.segments[-1].end_tree, decision.direction, decision.focus
        card = next((card for card in mine.cards if card.place == decision.restart), None)
        tree = card.tree if card is not None else template
        return decision.restart, tree, decision.direction, decision.focus

    def _work(self, segment: Segment) -> None:
        """Returns when the segment has ended and its live state is archived."""
        text, told = brief_for(self.gate, self.name, segment, self.seed)
        mailbox = Mailbox(self.home.worker(self.name) / "mailbox")
        with self.jobs.held(self.name):
            write_brief(self.workspace, text)
        home = self.home.worker(self.name) / "home"
        home.mkdir(exist_ok=True)
        deadline = time.monotonic() + told["seconds"]
        seat = Seat(
            worker=self.name,
            segment=segment.number,
            workspace=self.workspace,
            home=home,
            mailbox=mailbox,
            log=self.home.worker(self.name) / f"segment-{segment.number:04d}.log",
            brief=text,
            task_folder=self.task.folder,
            resources=self.task.resources,
            mark=self.gate.mark,
            context_chars=self.task.segment.context_chars,
            confine=hiding(self.gate.confine, self.task),
            serve=lambda content: self._serve(content, self._over(segment, deadline)),
            held=lambda: self.jobs.held(self.name),
            over=lambda: self._over(segment, deadline),
            spend=lambda cpu_s: self.gate.meter.runs(self.name, cpu_s),
        )
        with mailbox.open_for(told):
            departure = self.driver.drive(seat)
        self._close(segment, departure)

    def _over(self, segment: Segment, deadline: float) -> str | None:
        if reason := self.gate.over_for(self.name):
            return reason
        if time.monotonic() > deadline:
            return self._limit()
        return f"stages: {segment.stages}" if segment.stages >= self.task.segment.stages else None

    def _limit(self) -> str:
        return f"segment: {self.task.segment.wall_s:g} s"

    def _close(self, segment: Segment, departure: Departure) -> None:
        with self.jobs.held(self.name):
            remove_endpoints(self.workspace)
            tree = self.gate.archive.snapshot(self.name, self.workspace)
        body = {
            "worker": self.name,
            "segment": segment.number,
            "reason": departure.reason[:600],
            "tree": tree,
            "cpu_ms": round(1000 * departure.cpu_s),
            "words": departure.words.encode("utf-8", "backslashreplace").decode()[-1500:],
        }
        self.gate.record.append("segment.ended", body)
        self.gate.meter.runs(self.name, 0.0)

    def _serve(self, content: Mapping[str, Any], over: str | None) -> Mapping[str, Any]:
        """The reply to any request of the worker; what comes after the segment's end is not evaluated."""
        kind = content.get("kind")
        if kind == "submit" and over is not None:
            return self.gate.reply(self.name, "refused", reason=f"the segment is over ({over})") | {
                "segment_over": True
            }
        if kind == "submit":
            return self.gate.submit(self.name, self.workspace, str(content.get("note", "")), self.jobs.held(self.name))
        if kind == "unfold":
            stages = content.get("stages")
            listed = [str(stage) for stage in stages] if isinstance(stages, list) else []
            try:
                return {"ok": True, "text": unfold(self._mine().cards, str(content.get("id", "")), listed)}
            except InputError as error:
                return {"ok": False, "text": str(error)}
        if kind == "job" and self.proposals:
            return self.jobs.propose(self.name, content)
        return {"ok": False, "status": "refused", "text": f"this campaign serves no request of kind {kind!r}"}

    def _barren(self) -> str | None:
        """Why to stop: not even one more call fits the budget, or the worker ended the last segments by itself, all
        without a single result.
        """
        said = self._mine().segments[-1].reason or ""
        if said.startswith("budget"):
            return said
        last = self._mine().segments[-BARREN_UPPER:]
        if len(last) == BARREN_UPPER and all(s.stages == 0 and (s.reason or "").startswith(_BY_ITSELF) for s in last):
            return f"{BARREN_UPPER} segments without a result; the last ended: {last[-1].reason}"
        return None

    def _mine(self) -> WorkerStanding:
        standing: Standing = self.gate.record.standing
        return standing.workers[self.name]
