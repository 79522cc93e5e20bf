"""What the research tests share: two small tasks whose optimum is known, ways to change them, and to run them."""

import shutil
import threading
from pathlib import Path

import pytest

from veristate.research import CampaignHome, CampaignOptions, Surroundings, read_task, run_campaign

from .campaigning import assert_whole

HERE = Path(__file__).parent


@pytest.fixture
def make_task(tmp_path):
    """A copy of the task `quick` or `climb`, with texts of its task.toml replaced and files added or replaced."""

    def make(*replaced, kind="quick", name=None, files=()):
        folder = tmp_path / (name or kind)
        shutil.copytree(HERE / kind, folder, ignore=shutil.ignore_patterns("__pycache__"))
        toml = (folder / "task.toml").read_text()
        for old, new in replaced:
            assert old in toml, old
            toml = toml.replace(old, new)
        (folder / "task.toml").write_text(toml)
        for path, text in dict(files).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return make


@pytest.fixture
def home(tmp_path):
    """Where the campaign is."""
    return CampaignHome(folder=tmp_path / "home")


@pytest.fixture
def run(home):
    """Runs a task to its end in this process and checks that what it left is whole."""

    def runs(folder, *, options=None, stop=None, talk=None):
        around = Surroundings(stop=stop or threading.Event(), talk=talk)
        result = run_campaign(home, read_task(folder), options or CampaignOptions(), around)
        assert_whole(home)
        return result

    return runs
