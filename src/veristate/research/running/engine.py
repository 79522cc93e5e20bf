"""The engine of one campaign: opens or resumes it, runs its lanes, watches the clock, has the best results audited."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from veristate.core import Clock, InputError, utc_now
from veristate.ledger import Ledger
from veristate.research.deciding import Evidence, ReAnchoring, decide, keep_live, model_decides
from veristate.research.jobs import Ground
from veristate.research.processes import Confine, Launch, reap
from veristate.research.running.archiving import Archive
from veristate.research.running.auditing import audit_campaign
from veristate.research.running.budget import Meter
from veristate.research.running.committing import committing
from veristate.research.running.gate import Gate
from veristate.research.running.lane import Lane
from veristate.research.running.opening import (
    CampaignHome,
    CampaignOptions,
    open_campaign,
    opening_body,
    reopened,
    require_data_for,
)
from veristate.research.running.record import CampaignRecord
from veristate.research.running.talking import Talk, metered
from veristate.research.running.working import campaign_sandbox, job_controller
from veristate.research.sandbox.confining import NO_SANDBOX
from veristate.research.states import Standing
from veristate.research.states.standing import seconds_between
from veristate.research.tasks import Task
from veristate.research.workers.chat import ChatDriver
from veristate.research.workers.process import ProcessDriver
from veristate.research.workers.seat import Driver
from veristate.store import Store

if TYPE_CHECKING:
    from veristate.attest import Boundary

HEARTBEAT_S = 1.0
_TICK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """Where a campaign stands when its engine ended; `reason` is why it ended, empty when it was only stopped."""

    standing: Standing
    task: Task
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine is given: a sandbox, a model, the clock. All of them have a plain default.

    `ground` is where jobs run, this machine without one. `boundary`: where evaluations and audits are committed to;
    nothing is without one.

    `sandbox`: bubblewrap confines workers, evaluators and jobs where it works; `confine` is another such means.
    """

    sandbox: bool = False
    confine: Confine | None = None
    talk: Talk | None = None
    boundary: "Boundary | None" = None
    ground: Ground | None = None
    clock: Clock = utc_now
    stop: threading.Event | None = None
    progress: Callable[[Standing], None] | None = None


def run_campaign(
    home: CampaignHome,
    task: Task | None = None,
    options: CampaignOptions | None = None,
    surroundings: Surroundings | None = None,
) -> CampaignResult:
    """The campaign's standing, after it ended or was stopped. Without a task the one in `home` is resumed; with one it
    is begun, or resumed when it is the same.

    Nothing recorded is done again. Processes that an earlier engine left are killed first, and its time is charged up
    to its last sign of life.

    Raises: InputError when there is nothing to resume, or `home` holds another campaign; RefusedError when another
    engine runs it.
    """
    given = surroundings or Surroundings()
    if task is None:
        home.require()
    with open_campaign(home) as (ledger, store):
        return _Engine(home, ledger, store, task, options or CampaignOptions(), given).run()


class _Engine:
    """One session of a campaign."""

    def __init__(
        self,
        home: CampaignHome,
        ledger: Ledger,
        store: Store,
        task: Task | None,
        options: CampaignOptions,
        given: Surroundings,
    ) -> None:
        self._home, self._store, self._given = home, store, given
        self.record = CampaignRecord(ledger)
        self._stop = given.stop or threading.Event()
        self._began = time.monotonic()
        self._looked, self._reached = -1, False
        self.task, self.options = self._open(task, options)
        self._confine = given.confine or (campaign_sandbox(self.task) if given.sandbox else None)

    def run(self) -> CampaignResult:
        """The result, after everything that was started has ended."""
        standing = self.record.standing
        if standing.finished is not None:
            return CampaignResult(standing=standing, task=self.task, reason=standing.finished["reason"])
        self._start_session()
        budget = self.task.budget
        if self.options.wall_s is not None:
            values = {name: getattr(budget, name) for name in type(budget).__slots__}
            budget = type(budget)(**values | {"wall_s": self.options.wall_s})
        archive = Archive(self._store, self.record, budget.disk_bytes)
        self.meter = Meter(budget, standing, lambda: time.monotonic() - self._began, archive.size_bytes)
        gate = Gate(
            task=self.task,
            archive=archive,
            record=self.record,
            meter=self.meter,
            scratch=self._home.folder / "evaluations",
            mark=self._mark,
            confine=self._confine or _unconfined,
            over=self._over,
            stopped=self._stop,
            clock=self._given.clock,
            commit_to=committing(self.task, self._store, self._given.boundary),
        )
        self._jobs = job_controller(self._home, gate, len(standing.workers), self.meter.wall_s, self._given.ground)
        try:
            self._run_lanes([self._lane(name, gate) for name in standing.workers])
            reason = "" if self._stop.is_set() else self._over() or _ends(standing)
            if reason:
                audit_campaign(gate)
        finally:
            self._jobs.close("the engine ended")
            reap(self._mark)
            self.record.append("engine.ended", {"wall_ms": round(1000 * (time.monotonic() - self._began))})
        if reason:
            self.record.append("campaign.finished", {"reason": reason, "spent_s": f"{self.meter.wall_s():.3f}"})
        return CampaignResult(standing=standing, task=self.task, reason=reason)

    def _open(self, task: Task | None, options: CampaignOptions) -> tuple[Task, CampaignOptions]:
        standing = self.record.standing
        if not standing.opened:
            if task is None:
                raise InputError(f"{self._home.folder}: its campaign was never opened; run the task again")
            if options.workers < 1 or options.workers > 99:
                raise InputError(f"{options.workers} workers: give 1 to 99")
            self.record.append("campaign.opened", opening_body(task, options, self._store))
            return task, options
        before, fixed = reopened(standing.opened)
        if task is not None and task.folder != before.folder:
            raise InputError(f"{self._home.folder} holds a campaign of {before.folder}; give another --home")
        if standing.finished is None:
            require_data_for(before, fixed)
        return before, fixed

    def _start_session(self) -> None:
        standing = self.record.standing
        campaign = standing.opened["campaign"]
        reap(campaign)
        self._mark = f"{campaign}-{len(standing.sessions) + 1}"
        body = {
            "mark": self._mark,
            "pid": os.getpid(),
            "charged_ms": self._crashed_ms(standing),
            "warnings": [] if self._confine is not None else [NO_SANDBOX],
        }
        self.record.append("engine.started", body)
        self._beat()

    def _crashed_ms(self, standing: Standing) -> int:
        """What an engine that never ended is charged: to the heartbeat or its last entry, and one interval more."""
        if not standing.sessions or standing.sessions[-1].wall_ms is not None:
            return 0
        started = standing.sessions[-1].started
        signs = [seconds_between(started, self.record.last_time or started)]
        with suppress(OSError):
            beat = datetime.fromtimestamp(self._home.heartbeat.stat().st_mtime, UTC)
            signs.append((beat - datetime.fromisoformat(started)).total_seconds())
        return round(1000 * (max(0.0, *signs) + HEARTBEAT_S))

    def _beat(self) -> None:
        self._home.heartbeat.touch()

    def _lane(self, name: str, gate: Gate) -> Lane:
        return Lane(
            name=name,
            task=self.task,
            home=self._home,
            gate=gate,
            driver=self._driver(),
            decide=self._decider(),
            seed=self.options.seed,
            jobs=self._jobs,
            proposals=self.options.jobs,
        )

    def _driver(self) -> Driver:
        worker = self.options.worker or self.task.worker
        assert worker is not None
        if worker.command == ("model",):
            if self._given.talk is None:
                raise InputError("a model worker needs an endpoint: give --endpoint and --model")
            return ChatDriver(talk=metered(self._given.talk, self.record, self.meter, self._over))
        return ProcessDriver(code=worker, result_file=self.task.result_file, passed=self.options.passed)

    def _decider(self) -> Callable[[Evidence, str], ReAnchoring]:
        if self.options.decider == "none":
            return lambda _evidence, _memory: keep_live()
        if self.options.decider == "policy" or self._given.talk is None:
            failure = "" if self.options.decider == "policy" else "no model was given"
            return lambda evidence, _memory: decide(evidence, failure=failure)
        talk = metered(self._given.talk, self.record, self.meter, self._over)

        def ask(prompt: str, schema: Mapping[str, Any]) -> str:
            return talk((("user", prompt),), schema).text

        return lambda evidence, memory: model_decides(evidence, ask, memory)

    def _run_lanes(self, lanes: Sequence[Lane]) -> None:
        threads = [threading.Thread(target=lane.run, name=lane.name, daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        beaten = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(_TICK_S) if threads[0].is_alive() else time.sleep(_TICK_S)
            self._jobs.watch()
            if time.monotonic() - beaten >= HEARTBEAT_S / 2:
                beaten = time.monotonic()
                self._beat()
                if self._given.progress is not None:
                    self._given.progress(self.record.standing)

    def _over(self) -> str | None:
        if self._stop.is_set():
            return "stopped"
        if reason := self.meter.spent():
            return reason
        objective, standing = self.task.objective, self.record.standing
        if not objective.stop_at_target:
            return None
        if standing.entries != self._looked:  # asked many times a second, changed rarely
            self._looked = standing.entries
            counting = [str(c.metric) for each in standing.workers.values() for c in each.cards if c.counts]
            self._reached = objective.reached(objective.best(counting))
        return f"target: {objective.target} is reached" if self._reached else None


def _ends(standing: Standing) -> str:
    return "; ".join(f"{name} {worker.ended}" for name, worker in standing.workers.items())[:2000]


def _unconfined(launch: Launch) -> Launch:
    return launch
