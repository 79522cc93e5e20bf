"""A small case that runs the whole procedure in a few seconds."""

import csv
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from veristate.screening import ScreeningOptions, run_screening

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from forked import forked_processes  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def small_processes():
    """The trusted process finds the test's predictor by the environment and, if a run here starts it, is forked."""
    with forked_processes():
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """130 candidates, so that the last batch is short."""
    path = tmp_path_factory.mktemp("table") / "candidates.csv"
    rng = random.Random(5)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "smiles"])
        for i in range(130):
            writer.writerow([f"c{i:03}", f"compound {i}", " ".join(f"{rng.gauss(0, 1):.3f}" for _ in range(3))])
    return path


@pytest.fixture
def screen(table, tmp_path):
    """A function that runs the small case with options changed."""
    return lambda **changes: run_screening(small_case(table, {"store": tmp_path / "home"} | changes))


@pytest.fixture(scope="module")
def ran(table, tmp_path_factory):
    """A function that gives the result and the home of a run, which is made once in this file: for reading only."""
    made = {}

    def run(**changes):
        options = small_case(table, {"compare": True} | changes)
        if options not in made:
            home = tmp_path_factory.mktemp("ran") / "home"
            made[options] = run_screening(replace(options, store=home)), home
        return made[options]

    return run


def small_case(table, changes):
    """The options of a run of the small predictor."""
    return ScreeningOptions(**{"table": table, "predictor": ("tiny:make",)} | changes)


@pytest.fixture(autouse=True)
def python_is_ours():
    """The trusted process is started with the interpreter of the tests."""
    assert Path(sys.executable).exists()
