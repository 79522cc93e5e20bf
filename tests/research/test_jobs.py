"""Job control: what is admitted, queued, extended, stopped, journaled; leases die with their processes.

What a ground for jobs must do is asked of this machine and, in soak runs where it is installed, of Ray.
"""

import itertools
import os
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from veristate.core import InputError
from veristate.research import read_standing
from veristate.research.jobs import Free, Ground, JobController, Lease, Leases, Offer, here, read_offer
from veristate.research.processes import Launch, born

from .engines import Engine


class Campaign:
    """A campaign of one worker as the controller sees it: everything it is told is kept, time goes as it is set."""

    def __init__(self, folder, ground):
        self.start = ground
        self.folder, self.changes, self.metric, self.reason, self.used = folder, [], None, None, {}
        self.now, self.room = 0.0, Free(cores=2, memory_bytes=2**30, gpus=(0, 1))

    def journal(self, body):
        """A change."""
        self.changes.append((body["job"], body["state"], body["reason"]))

    def best(self, worker):
        """What was set."""
        return self.metric

    def over(self):
        """What was set."""
        return self.reason

    def spend(self, job, cpu_s):
        """Kept."""
        self.used[job] = cpu_s

    def launch(self, worker, offer, output, gpus):
        """A plain one."""
        environment = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        return Launch(argv=offer.argv, cwd=self.folder, environment=environment, output=output, mark="jobs-test")

    def controller(self):
        """A new one."""
        ticks = itertools.count()
        return JobController(
            desk=self,
            leases=Leases(self.folder / "leases.sqlite"),
            folder=self.folder / "jobs",
            ground=Ground(free=lambda: self.room, start=self.start),
            seconds=lambda: self.now,
            now=lambda: f"{next(ticks):09d}",
            confine=lambda launch: launch,
        )

    def states(self, job):
        """Those of one job, in order."""
        return [state for name, state, _ in self.changes if name == job]


@pytest.fixture(scope="module")
def ray_ground():
    """A cluster of this machine's processes, with two cores and as many devices as it is told."""
    pytest.importorskip("ray", reason="Ray is the extra `ray`, and not installed")
    import ray

    from veristate.research.jobs.cluster import connected

    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        ground = connected("local", num_cpus=4, num_gpus=2, object_store_memory=80 * 2**20, **quiet)
        yield ground
        ray.shutdown()


@pytest.fixture(params=["here", pytest.param("ray", marks=[pytest.mark.soak, pytest.mark.filterwarnings("ignore")])])
def campaign(tmp_path, request):
    """A campaign without an engine, on each ground."""
    on_this = here(lambda: None) if request.param == "here" else request.getfixturevalue("ray_ground")
    return Campaign(tmp_path, on_this.start)


@pytest.fixture
def jobs(campaign):
    """Its controller, closed at the end."""
    controller = campaign.controller()
    yield controller
    controller.close("the test is over")


def watched(jobs, true):
    """Returns when it is true, the controller watching."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        jobs.watch()
        time.sleep(0.01)


def sleeping(for_s=300, **wishes):
    """A request for a job that sleeps."""
    return {"kind": "job", "argv": ["sleep", str(for_s)]} | wishes


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"argv": []},
        {"argv": "rm -rf"},
        {"argv": ["a", 1]},
        {"argv": ["a\0b"]},
        {"argv": ["a"], "seconds": 0},
        {"argv": ["a"], "seconds": float("nan")},
        {"argv": ["a"], "seconds": True},
        {"argv": ["a"], "cores": 0},
        {"argv": ["a"], "cores": 1.5},
        {"argv": ["a"], "gpus": -1},
        {"argv": ["a"], "memory_bytes": 2**60},
    ],
)
def test_what_is_no_offer_is_refused(content, jobs, campaign):
    """The worker is told, and nothing is started or journaled."""
    with pytest.raises(InputError):
        read_offer(content)
    assert jobs.propose("w0", content)["status"] == "refused"
    assert campaign.changes == []


def test_defaults_are_one_core_for_a_minute():
    """An offer of a command alone."""
    assert read_offer({"argv": ["x"]}) == Offer(argv=("x",), seconds=60.0, cores=1, memory_bytes=0, gpus=0)


@pytest.mark.parametrize("wish", [{"cores": 3}, {"memory_bytes": 2**31}, {"gpus": 3}])
def test_what_could_never_run_is_refused(wish, jobs):
    """More than the machine has is no reason to wait."""
    assert "more than this machine has" in jobs.propose("w0", sleeping(**wish))["text"]


def test_a_job_runs_and_its_end_is_told_and_charged(jobs, campaign):
    """Output, exit and processor time reach the journal and the worker; others can't ask for it."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('made it')"
    told = jobs.propose("w0", {"argv": [sys.executable, "-S", "-c", burn]})
    assert told["status"] == "running"
    watched(jobs, lambda: "done" in campaign.states("J001"))
    told = jobs.propose("w0", {"status": "J001"})
    assert (told["status"], told["output"]) == ("done", "made it")
    assert jobs.propose("w1", {"status": "J001"})["status"] == "refused"
    assert campaign.states("J001") == ["queued", "running", "done"]
    failed = jobs.propose("w0", {"argv": ["sh", "-c", "exit 3"]})["job"]
    watched(jobs, lambda: "failed" in campaign.states(failed))
    assert campaign.changes[-1][2] == "ended with exit status 3"


def test_first_come_first_served(jobs, campaign):
    """What doesn't fit waits, in order; a freed core goes to the first that waits."""
    names = [jobs.propose("w0", sleeping(cores=2))["job"]]
    names += [jobs.propose("w0", sleeping(0.1, cores=cores))["job"] for cores in (2, 1, 1)]
    assert [campaign.states(name)[-1] for name in names] == ["running", "queued", "queued", "queued"]
    campaign.now = 61.0
    watched(jobs, lambda: campaign.states(names[3])[-1] == "done")
    assert campaign.states(names[0]) == ["queued", "running", "stopped"]
    began = [name for name, state, _ in campaign.changes if state == "running"]
    assert began == names


def test_gpus_are_whole_and_are_nobody_elses(jobs, campaign):
    """Two jobs get two devices; the third waits although a core is free."""
    campaign.room = Free(cores=9, memory_bytes=0, gpus=(0, 1))
    for _ in range(3):
        jobs.propose("w0", {"argv": ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 300"], "gpus": 1})
    logs = [campaign.folder / "jobs" / f"J00{number}.log" for number in (1, 2)]
    watched(jobs, lambda: all(log.exists() and log.read_text() for log in logs))
    assert sorted(log.read_text().strip() for log in logs) == ["0", "1"]
    assert campaign.states("J003") == ["queued"]


def test_validated_progress_buys_time_and_nothing_else_does(jobs, campaign):
    """At its time a job is extended once for each improvement of its worker's best, then stopped."""
    name = jobs.propose("w0", sleeping(seconds=10))["job"]
    campaign.now, campaign.metric = 10.0, "2.5"
    jobs.watch()
    assert campaign.states(name)[-1] == "extended"
    campaign.now = 19.0
    jobs.watch()
    assert campaign.states(name)[-1] == "extended"
    campaign.now = 20.0
    jobs.watch()
    assert campaign.changes[-1] == (name, "stopped", "its 10 s are over without validated progress")


def test_progress_does_not_hold_what_others_wait_for(jobs, campaign):
    """With a queue nobody is extended."""
    one = jobs.propose("w0", sleeping(cores=2, seconds=10))["job"]
    other = jobs.propose("w0", sleeping(cores=2, seconds=10))["job"]
    campaign.now, campaign.metric = 10.0, "2.5"
    jobs.watch()
    assert (campaign.states(one)[-1], campaign.states(other)[-1]) == ("stopped", "running")


def test_the_budgets_end_stops_all_and_admits_none(jobs, campaign):
    """No process, no lease, no proposal after it."""
    jobs.propose("w0", {"argv": ["sh", "-c", "setsid sleep 300 & sleep 300"], "cores": 2})
    jobs.propose("w0", sleeping())
    campaign.reason = "budget: 1 s are spent"
    jobs.watch()
    assert campaign.states("J001")[-1] == "stopped"
    assert campaign.states("J002") == ["queued"]
    assert jobs.propose("w0", sleeping())["text"] == "refused: budget: 1 s are spent"
    with Held(campaign) as leases:
        assert leases.held() == ()


class Held:
    """The leases file as another process reads it."""

    def __init__(self, campaign):
        self.leases = Leases(campaign.folder / "leases.sqlite")

    def __enter__(self):
        return self.leases

    def __exit__(self, *_):
        self.leases.close()


def test_a_restore_stops_the_workers_jobs_and_no_others(jobs, campaign):
    """A workspace that becomes another one has no job of the old one left in it."""
    mine, theirs = jobs.propose("w0", sleeping())["job"], jobs.propose("w1", sleeping())["job"]
    waiting = jobs.propose("w0", sleeping())["job"]
    jobs.leave("w0", "restored")
    assert campaign.states(mine)[-1] == campaign.states(waiting)[-1] == "stopped"
    assert campaign.states(theirs)[-1] == "running"


def test_nobody_writes_while_a_workspace_is_read(jobs, campaign):
    """Between the beginning and the end of `held` no job of that worker writes."""
    grows = campaign.folder / "grows"
    jobs.propose("w0", {"argv": ["sh", "-c", "while :; do echo x >> grows; sleep 0.001; done"]})
    watched(jobs, grows.exists)
    with jobs.held("w0"):
        time.sleep(0.05)
        size = grows.stat().st_size
        time.sleep(0.2)
        assert grows.stat().st_size == size
    watched(jobs, lambda: grows.stat().st_size > size)


def test_a_missing_program_fails_the_job_with_its_name(jobs, campaign):
    """The worker is told, nothing is leased."""
    told = jobs.propose("w0", {"argv": ["no-such-trainer"]})
    assert told["status"] == "failed"
    assert "no-such-trainer" in told["text"]
    with Held(campaign) as leases:
        assert leases.held() == ()


def test_a_job_past_its_time_gives_its_device_back(jobs, campaign):
    """What it left in another session is dead before the next job gets the device."""
    argv = ["sh", "-c", "setsid sleep 300 & echo $! > left; sleep 300"]
    jobs.propose("w0", {"argv": argv, "gpus": 2, "seconds": 10})
    other = jobs.propose("w0", {"argv": ["true"], "gpus": 2})["job"]
    left = campaign.folder / "left"
    watched(jobs, lambda: left.exists() and left.read_text().strip())
    assert campaign.states(other) == ["queued"]
    campaign.now = 10.0
    watched(jobs, lambda: "running" in campaign.states(other))
    assert born(int(left.read_text())) == 0


def test_what_left_its_session_dies_with_the_job(jobs, campaign):
    """On every ground: the tree is ended whole."""
    jobs.propose("w0", {"argv": ["sh", "-c", "setsid sleep 300 & echo $! > left; sleep 300"]})
    left = campaign.folder / "left"
    watched(jobs, lambda: left.exists() and left.read_text().strip())
    pid = int(left.read_text())
    assert born(pid)
    jobs.leave("w0", "over")
    assert born(pid) == 0


ON_RAY = """
import sys, time
from pathlib import Path
from veristate.research.jobs import Offer
from veristate.research.jobs.cluster import connected
from veristate.research.processes import Launch
folder = Path(sys.argv[1])
ground = connected(sys.argv[2], log_to_driver=False)
argv = ("sh", "-c", "setsid sleep 300 & echo $! > left; sleep 300")
launch = Launch(argv=argv, cwd=folder, environment={}, output=folder / "log", mark="ray-test")
job = ground.start(launch, Offer(argv=argv))
time.sleep(300)
"""


def test_a_lost_cluster_stops_no_engine_from_ending(tmp_path, monkeypatch):
    """Every call to a head that is gone raises: nothing is free beside our own job, which ends as killed."""

    class RayError(Exception):
        pass

    def lost(*_args, **_options):
        raise (RayError if cluster_there else ConnectionError)("the head is gone")

    cluster_there = True
    ray, exceptions = ModuleType("ray"), ModuleType("ray.exceptions")
    exceptions.RayError, exceptions.GetTimeoutError = RayError, type("GetTimeoutError", (RayError,), {})
    method = SimpleNamespace(remote=lambda *_: None)
    actor = SimpleNamespace(remote=lambda _launch: SimpleNamespace(trouble=method, call=method))
    ray.init = lambda **_: None
    ray.remote = lambda _host: SimpleNamespace(options=lambda **_: actor)
    ray.get = lambda *_, **__: ""
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    monkeypatch.delitem(sys.modules, "veristate.research.jobs.cluster", raising=False)
    ground = import_module("veristate.research.jobs.cluster").connected("there")
    sys.modules.pop("veristate.research.jobs.cluster")
    offer = Offer(argv=("true",), cores=2)
    launch = Launch(argv=offer.argv, cwd=tmp_path, environment={}, output=tmp_path / "log", mark="lost")
    jobs = [ground.start(launch, offer) for _ in range(2)]
    ray.get = ray.kill = ray.available_resources = lost
    assert ground.free() == Free(cores=4, memory_bytes=2 * offer.memory_bytes, gpus=())
    for job, there in zip(jobs, (True, False), strict=True):
        cluster_there = there
        assert job.end().code == -9
    assert ground.free().cores == 0


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_a_killed_engine_takes_its_jobs_on_ray_with_it(tmp_path, ray_ground):
    """Killed with -9: its actors die, and their trees with them, what left the session too."""
    import ray

    address = ray.get_runtime_context().gcs_address
    engine = subprocess.Popen([sys.executable, "-c", ON_RAY, str(tmp_path), address])
    left, deadline = tmp_path / "left", time.monotonic() + 120
    while not (left.exists() and left.read_text().strip()):
        assert engine.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    engine.kill()
    engine.wait()
    deadline = time.monotonic() + 60
    while born(int(left.read_text())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert born(int(left.read_text())) == 0


def test_leases_of_the_dead_are_reaped_and_those_of_the_living_kept(tmp_path):
    """By number and birth: a number that somebody else has now is dead too."""
    leases = Leases(tmp_path / "leases.sqlite")
    living = subprocess.Popen(["sleep", "300"])
    ended = subprocess.Popen(["true"])
    ended.wait()
    when = born(living.pid)
    for job, pid, since in (("alive", living.pid, when), ("gone", ended.pid, when), ("reused", living.pid, when - 1)):
        leases.take(Lease(job=job, worker="w0", pid=pid, born=since, cores=1, memory_bytes=0, gpus=(1,)))
    leases.close()
    again = Leases(tmp_path / "leases.sqlite")
    assert {lease.job for lease in again.reap(born)} == {"gone", "reused"}
    assert [lease.job for lease in again.held()] == ["alive"]
    living.kill()
    living.wait()
    assert [lease.job for lease in again.reap(born)] == ["alive"]
    again.close()


CLIMBER = (Path(__file__).parent / "quick" / "climber.py").read_text()
BEGINS = CLIMBER.index("file = ")


def climbing(body):
    """The quick task's worker, which does `body` first."""
    return {"climber.py": f"{CLIMBER[:BEGINS]}import time\n{body}\n{CLIMBER[BEGINS:]}"}


def test_a_worker_proposes_a_job_and_reads_what_it_made(make_task, run):
    """From a worker's request to a file in its workspace that only the job wrote; the journal has all of it."""
    body = """
def job(**wishes):
    return submit.ask(mailbox, {"kind": "job"} | wishes)
if not pathlib.Path("made").exists():
    told = job(argv=["sh", "-c", "sleep 0.1; echo done > made"], seconds=20)
    assert told["status"] in ("running", "queued"), told
    while job(status=told["job"])["status"] in ("running", "queued"):
        time.sleep(0.02)
assert pathlib.Path("made").read_text() == "done\\n"
"""
    standing = run(make_task(files=climbing(body))).standing
    assert standing.finished["reason"].startswith("target")
    states = [change["state"] for change in standing.jobs if change["job"] == "J001"]
    assert states == ["queued", "running", "done"]


def test_a_job_outlives_the_segment_that_proposed_it(make_task, run):
    """A worker that ends its turn does not lose its job: it is there, and done, in the next one."""
    body = """
told = pathlib.Path("job")
if not told.exists():
    told.write_text(submit.ask(mailbox, {"kind": "job", "argv": ["sh", "-c", "sleep 0.5; echo done > made"]})["job"])
    pathlib.Path("x.txt").write_text("3"); submit.ask(mailbox, {"kind": "submit", "note": ""}); raise SystemExit
while submit.ask(mailbox, {"kind": "job", "status": told.read_text()})["status"] != "done":
    time.sleep(0.02)
assert pathlib.Path("made").read_text() == "done\\n"
"""
    standing = run(make_task(files=climbing(body))).standing
    assert standing.finished["reason"].startswith("target")
    assert len(standing.workers["w0"].segments) >= 2
    assert [change["state"] for change in standing.jobs] == ["queued", "running", "done"]


def test_an_engine_that_is_killed_leaves_no_job_and_no_lease(make_task, home):
    """Killed with -9 while a job runs: it dies with its engine, and the next one reaps its lease."""
    body = """
if not pathlib.Path("proposed").exists():
    pathlib.Path("proposed").touch()
    argv = ["sh", "-c", "setsid sleep 300 & echo $! > job-pid; sleep 300"]
    submit.ask(mailbox, {"kind": "job", "argv": argv})
    time.sleep(300)
"""
    folder = make_task(files=climbing(body))
    engine = Engine(home, folder)
    path = home.worker("w0") / "workspace" / "job-pid"
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()):
        assert engine.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int(path.read_text())
    leases = Leases(home.folder / "leases.sqlite")
    while not leases.held():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    engine.kill()
    deadline = time.monotonic() + 10
    while born(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert born(pid) == 0
    Engine(home).finished()
    assert leases.held() == ()
    leases.close()
    assert read_standing(home).finished["reason"].startswith("target")
