"""The data folder: who is shown it, and what is said where it is missing. Nothing is run: launches are looked at."""

import json
import threading

import pytest

from veristate.core import EnvironmentUnusableError, InputError
from veristate.research import CampaignHome, CampaignOptions, Code, Said, Surroundings, Talk, read_task, run_campaign
from veristate.research.evaluating import evaluate


def seen(launches):
    """A confinement that keeps what was to be started, and starts nothing."""

    def confine(launch):
        launches.append(launch)
        raise EnvironmentUnusableError("nothing is started here")

    return confine


def worker_launch(tmp_path, name, **options):
    """How the task's worker would be started."""
    launches = []
    home = CampaignHome(folder=tmp_path / "home")
    run_campaign(home, read_task(name), CampaignOptions(**options), Surroundings(confine=seen(launches)))
    return launches[0]


def test_the_worker_of_a_tour_is_shown_the_instances(tmp_path, monkeypatch):
    """Its task says so: the variable and the folder, read-only."""
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path))
    launch = worker_launch(tmp_path, "kttsp-easy")
    assert launch.environment["VERISTATE_DATA"] == str(tmp_path)
    assert tmp_path in launch.readable
    assert tmp_path not in launch.writable


def test_the_worker_that_must_not_see_labels_is_not_shown_them(tmp_path, monkeypatch):
    """GB1's labels lie in the folder: neither it nor its name reach the worker; the evaluator has both."""
    (tmp_path / "labels").mkdir()
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path / "labels"))
    launch = worker_launch(tmp_path, "gb1")
    assert "VERISTATE_DATA" not in launch.environment
    assert not any(tmp_path / "labels" == path or path in (tmp_path / "labels").parents for path in launch.readable)
    task, launches = read_task("gb1"), []
    (tmp_path / "run").mkdir()
    with pytest.raises(EnvironmentUnusableError, match="nothing is started"):
        evaluate(task, task.evaluator, candidate=tmp_path, scratch=tmp_path / "run", mark="m", confine=seen(launches))
    assert launches[0].environment["VERISTATE_DATA"] == str(tmp_path / "labels")
    assert tmp_path / "labels" in launches[0].readable


def test_hidden_labels_are_not_passed_by_name(tmp_path, monkeypatch):
    """`--pass VERISTATE_DATA` would open them to the worker: refused where the task does not say that it may read."""
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r'--pass VERISTATE_DATA: .*data = "evaluator"'):
        worker_launch(tmp_path, "gb1", passed=("VERISTATE_DATA",))
    assert tmp_path in worker_launch(tmp_path, "kttsp-easy", passed=("VERISTATE_DATA",)).readable


@pytest.mark.parametrize(("name", "seen_it"), [("kttsp-easy", True), ("gb1", False)])
def test_a_models_commands_are_shown_what_a_worker_is(tmp_path, monkeypatch, name, seen_it):
    """The tool loop's `run` has the variable and the folder where the task's worker has them."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path / "data"))
    stop = threading.Event()

    def say(*_args, **_options):
        stop.set()
        return Said(text=json.dumps({"tool": "run", "argument": "", "content": "true"}))

    launches = []
    around = Surroundings(confine=seen(launches), talk=Talk(say=say, reply_tokens=100), stop=stop)
    options = CampaignOptions(worker=Code(command=("model",)))
    run_campaign(CampaignHome(folder=tmp_path / "home"), read_task(name), options, around)
    assert (launches[0].environment.get("VERISTATE_DATA") == str(tmp_path / "data")) is seen_it
    assert (tmp_path / "data" in launches[0].readable) is seen_it


def test_a_campaign_that_goes_on_needs_its_data_too(tmp_path, monkeypatch):
    """Opened where the folder was, and resumed in a shell that names none: said at once."""
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path))
    stop = threading.Event()
    stop.set()
    home = CampaignHome(folder=tmp_path / "home")
    run_campaign(home, read_task("gb1"), CampaignOptions(), Surroundings(confine=seen([]), stop=stop))
    monkeypatch.delenv("VERISTATE_DATA")
    with pytest.raises(EnvironmentUnusableError, match="set VERISTATE_DATA"):
        run_campaign(home, None, CampaignOptions(), Surroundings(confine=seen([])))


def test_an_evaluator_whose_task_names_no_data_is_not_shown_it(make_task, tmp_path, monkeypatch):
    """What it can't read its judgement can't depend on, also where the user's shell names the folder."""
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path / "data"))
    task, launches = read_task(make_task()), []
    (tmp_path / "run").mkdir()
    with pytest.raises(EnvironmentUnusableError, match="nothing is started"):
        evaluate(task, task.evaluator, candidate=tmp_path, scratch=tmp_path / "run", mark="m", confine=seen(launches))
    assert "VERISTATE_DATA" not in launches[0].environment
    assert tmp_path / "data" not in launches[0].readable


@pytest.mark.parametrize("name", ["kttsp-hard", "gb1"])
def test_without_the_data_nothing_begins(tmp_path, monkeypatch, name):
    """What to set is said at once, not by failing workers; the campaign can be begun afterwards in the same folder."""
    home = CampaignHome(folder=tmp_path / "home")
    for value, said in (("", "set VERISTATE_DATA"), (str(tmp_path / "none"), "which is none")):
        monkeypatch.setenv("VERISTATE_DATA", value)
        with pytest.raises(EnvironmentUnusableError, match=said):
            run_campaign(home, read_task(name), CampaignOptions(), Surroundings(confine=seen([])))
    monkeypatch.setenv("VERISTATE_DATA", str(tmp_path))
    assert run_campaign(home, read_task(name), CampaignOptions(), Surroundings(confine=seen([]))).standing.opened
