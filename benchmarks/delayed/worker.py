"""The workers: `worker.py KIND SEED HOW`. Each goes on from what lies in its workspace and searches by itself, with
kicks of its own when it stagnates, twice as large each time; told to redirect, it kicks first. A `plain` one never
kicks by itself: it climbs, and where it can climb no more it ends its segment. What it draws comes from the segment's
seed. The worker of long jobs trains configurations: HOW says whether it proposes them as jobs, or starts
processes of its own, all at once or one after the other.
"""

import json
import os
import random
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from landscapes import CONFIGS, CUBE, ONSETS, STEPS, flipped, induced, start
from training import steps

ASKED_UPPER = 40
MAILBOX = Path(os.environ["VERISTATE_MAILBOX"])
_LOADER = SourceFileLoader("submit", str(MAILBOX / "submit"))
submit = module_from_spec(spec_from_loader("submit", _LOADER))
_LOADER.exec_module(submit)


class Over(Exception):  # noqa: N818 - an end, not an error
    """The segment is over."""


class Search:
    """A segment: the candidate in the workspace, its value, the best on the way to it, the kicks since that best, and
    what is planned next; all of it lies in the workspace's files, so restoring a state restores the search too.
    """

    def __init__(self, kind: str, seed: int, plain: bool) -> None:
        self.plain = plain
        told = json.loads((MAILBOX / "segment.json").read_text())
        self.draw, self.asked, self.over = random.Random(told["seed"]), 0, False
        self.redirect: bool = told["direction"] == "redirect"
        kept = Path("search.json")
        fresh = [start(kind, seed), -1, 0, []]
        self.now, self.best, self.kicks, self.plan = json.loads(kept.read_text()) if kept.exists() else fresh
        self.kicks = max(self.kicks, told["turns"])  # a restored state does not know what was tried after it
        self.value = self.worth(self.now)  # a state that was judged before costs nothing

    def worth(self, candidate: str) -> int:
        """The evaluator's answer. The files are of the candidate while it is judged: that is what is archived.

        Raises: Over when the segment is.
        """
        if self.over or self.asked == ASKED_UPPER:
            raise Over
        before, self.now = self.now, candidate
        self._keep()
        self.asked += 1
        reply = submit.ask(MAILBOX, {"kind": "submit", "note": ""})
        self.now, self.over = before, reply["segment_over"]
        self._keep()
        if reply["metric"] is None:
            raise Over
        return int(reply["metric"])

    def take(self, candidate: str, value: int) -> None:
        """Returns when the workspace holds this candidate."""
        self.now, self.value = candidate, value
        if value > self.best:
            self.best, self.kicks = value, 0
        self._keep()

    def stuck(self) -> None:
        """Returns when the worker may kick. Raises: Over for a plain one that was not told to."""
        if self.plain and not self.redirect:
            raise Over

    def kick(self, first: int, upper: int) -> int:
        """How much to change at once: `first`, doubled for each kick since the best."""
        self.redirect, self.kicks = False, self.kicks + 1
        return min(upper, first * 2 ** (self.kicks - 1))

    def _keep(self) -> None:
        Path("x.txt").write_text(self.now)
        Path("search.json").write_text(json.dumps([self.now, self.best, self.kicks, self.plan]))


def flip(bits: str, places: list[int]) -> str:
    """The bits with those at `places` turned."""
    return "".join(flipped(bit) if i in places else bit for i, bit in enumerate(bits))


def threshold(search: Search) -> None:
    """Detour: one or two bits at a time; what is worse by one is accepted one time in three, if not plain."""
    daring = 0 if search.plain else 1 / 3
    while True:
        many = search.kick(3, 6) if search.redirect else search.draw.choice((1, 1, 2))
        candidate = flip(search.now, search.draw.sample(range(len(search.now)), many))
        value = search.worth(candidate)
        if value >= search.value or many > 2 or (value == search.value - 1 and search.draw.random() < daring):
            search.take(candidate, value)


def growth(search: Search) -> None:
    """Dead ends: the path grows at its end by corners that were drawn, handed in after every second one; where none
    fits, some are taken off.
    """
    while True:
        path = [int(part) for part in search.now.split()]
        if search.redirect or not fitting(path):
            search.stuck()
            path = path[: max(1, len(path) - search.kick(2, len(path)))]
        for _ in range(2):
            if found := fitting(path):
                path.append(search.draw.choice(found))
        candidate = " ".join(map(str, path))
        search.take(candidate, search.worth(candidate))


def fitting(path: list[int]) -> list[int]:
    """The corners that may follow."""
    near = [path[-1] ^ 1 << axis for axis in range(CUBE)]
    return [corner for corner in near if corner not in path and induced([*path, corner])]


def sweeps(search: Search) -> None:
    """Late value: each bit in a drawn order, kept when better; then a kick, taken as it is, and the next sweep."""
    bits = len(search.now)
    swept = search.best >= 0 and not search.plan
    while True:
        if search.redirect or swept:
            search.stuck()
            candidate = flip(search.now, search.draw.sample(range(bits), search.kick(3, bits // 2)))
            search.plan = []
            search.take(candidate, search.worth(candidate))
        search.plan = search.plan or search.draw.sample(range(bits), bits)
        while search.plan:
            candidate = flip(search.now, [search.plan.pop()])
            value = search.worth(candidate)
            if value > search.value:
                search.take(candidate, value)
        swept = True


JOB_S, EVERY, LOOK_S = 3.0, 8, 0.05


class Training:
    """Configurations that train beside the worker, which hands in what has gone on: the best ones are trained on."""

    def __init__(self, kind: str, seed: int, how: str) -> None:
        here = Path(__file__).resolve().parent / "training.py"
        self.command = [sys.executable, "-S", "-E", str(here), kind, str(seed)]
        told = json.loads((MAILBOX / "segment.json").read_text())
        self.how, self.order = how, random.Random(told["seed"]).sample(range(CONFIGS), CONFIGS)
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self.jobs: dict[int, str] = {}
        self.asked_at: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.handed_in = dict.fromkeys(self.order, 0)

    def go_on(self) -> None:
        """Returns when every configuration that has made some steps more, or has ended, is handed in.

        Raises: Over when the segment is.
        """
        for config in self.order:
            made = steps(config)
            if made - self.handed_in[config] >= EVERY or (made == STEPS > self.handed_in[config]):
                self.handed_in[config] = made
                Path("x.txt").write_text(f"{config} {made}")
                reply = submit.ask(MAILBOX, {"kind": "submit", "note": ""})
                if reply["metric"] is not None:
                    self.values[config] = int(reply["metric"])
                if reply["segment_over"]:
                    raise Over

    def propose(self) -> None:
        """Returns when each configuration is proposed once, and then, whenever no job is left, the best one again. What
        has made no step since it was proposed is given up.
        """
        if any(self._waits(job) for job in self.jobs.values()):
            return
        wanted = [config for config in self.order if self.asked_at.get(config, -1) < steps(config) < STEPS]
        first = [config for config in wanted if config not in self.jobs]
        for config in first or sorted(wanted, key=lambda config: -self.values.get(config, 0))[:1]:
            request = {"kind": "job", "argv": [*self.command, str(config)], "seconds": JOB_S}
            self.asked_at[config] = steps(config)
            self.jobs[config] = submit.ask(MAILBOX, request).get("job", "")

    def start(self) -> None:
        """Returns when processes of its own run: all, or the next one."""
        for config in self.order:
            if config not in self.started:
                self.started[config] = subprocess.Popen([*self.command, str(config)])
            if self.how == "in turn" and self.started[config].poll() is None:
                return

    def _waits(self, job: str) -> bool:
        return submit.ask(MAILBOX, {"kind": "job", "status": job})["status"] in ("running", "queued")


def trains(kind: str, seed: int, how: str) -> None:
    """Long jobs, until the campaign is over or all are trained."""
    training = Training(kind, seed, how)
    while min(steps(config) for config in training.order) < STEPS:
        (training.propose if how == "jobs" else training.start)()
        training.go_on()
        time.sleep(LOOK_S)
    training.go_on()


if __name__ == "__main__":
    try:
        if sys.argv[1] in ONSETS:
            trains(sys.argv[1], int(sys.argv[2]), sys.argv[3])
            raise Over
        {"detour": threshold, "dead_ends": growth, "late_value": sweeps}[sys.argv[1]](
            Search(sys.argv[1], int(sys.argv[2]), plain=sys.argv[3] == "plain")
        )
    except Over:
        print("the segment is over")
