"""The default case, whole: real molecules and ensemble, a simulated fault, judged by the published column."""

import csv
import json
import os
import subprocess
import sys

from veristate.screening.cases.herg import published_scores


def test_a_faulty_run_commits_the_decision_of_the_published_scores(tmp_path):
    """The certified means are the published ones to 5e-7, so both decisions are theirs; the unchecked ones are not."""
    command = [sys.executable, "-m", "veristate", "screen", "--json", "--compare", "--recovery", "restore"]
    options = ["--inject", "case2", "--seed", "7", "--store", "home", "--out", "out", "--report", "report.html"]
    done = subprocess.run([*command, *options], capture_output=True, check=False, cwd=tmp_path, env=os.environ)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    published = published_scores()
    ranked = sorted(published, key=lambda name: (-published[name], name))
    assert found["committed"] is True
    assert found["selected"] == sorted(ranked[:569])
    assert found["tested"] == sorted(name for name in published if published[name] >= 0.5)
    with (tmp_path / "out" / "triage.csv").open(newline="") as file:
        scores = {row["id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert max(abs(scores[name] - published[name]) for name in published) <= 5e-7
    assert found["wrong_values"] > 0
    assert found["flags"] > 0
    assert found["changed"]
    assert found["reference_match"] is True
    assert found["coverage"]["watched_share"] == 1.0
    assert found["peak_memory_mb"] < 2000
    assert "simulated" in (tmp_path / "report.html").read_text(encoding="utf-8")
