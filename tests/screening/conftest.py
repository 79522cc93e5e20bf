"""A small case that runs the whole procedure in a few seconds."""

import csv
import random
import sys
from pathlib import Path

import pytest

from veristate.screening import ScreeningOptions, run_screening

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def tiny_is_importable(monkeypatch):
    """Both processes find the test's predictor: this one by its path, the trusted one by the environment."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE))


@pytest.fixture
def table(tmp_path):
    """130 candidates, so that the last batch is short."""
    path = tmp_path / "candidates.csv"
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

    def run(**changes):
        options = {"table": table, "predictor": ("tiny:make",), "store": tmp_path / "home"} | changes
        return run_screening(ScreeningOptions(**options))

    return run


@pytest.fixture(autouse=True)
def python_is_ours():
    """The trusted process is started with the interpreter of the tests."""
    assert Path(sys.executable).exists()
