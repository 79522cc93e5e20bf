"""Claim: the default case gives the published scores, fits in 2 GB and, once installed, takes under 90 s.

Runs the command as a user does, healthy and with the simulated fault of `make run`, in a fresh store each time.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import Claim, note, write
from veristate.screening.cases.herg import published_scores

RUNS = {"healthy": [], "case2": ["--inject", "case2", "--seed", "7", "--recovery", "restore"]}
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}


def main() -> None:
    """Runs the command and writes the figures."""
    started, data = time.time(), {}
    for name, options in RUNS.items():
        data[name] = run(options)
        note(f"{name}: {data[name]['wall']:.1f} s wall, {data[name]['cpu']:.1f} CPU s")
    load = os.getloadavg()[0]
    wall = max(entry["wall"] for entry in data.values())
    memory = max(entry["result"]["peak_memory_mb"] for entry in data.values())
    difference = max(entry["published_difference"] for entry in data.values())
    claims = [
        Claim(
            claim="recomputed fp32 means against the wheel's own column",
            measured=f"{difference:.3g}",
            unit="largest absolute difference, 2,845 molecules",
            bar="5e-7",
            met=difference <= 5e-7,
        ),
        Claim(
            claim="peak memory of the default case, fp32",
            measured=f"{memory:.0f}",
            unit="MB, PSS of the whole process tree, twice a second",
            bar="under 2000",
            met=memory < 2000,
        ),
        Claim(
            claim="the default case once installed, fp32",
            measured=f"{wall:.0f}",
            unit="s wall, the slower of healthy and simulated fault",
            bar="under 90 on an idle 2-core machine",
            met=wall < 90,
            detail=f"{max(entry['cpu'] for entry in data.values()):.0f} CPU s; load average afterwards {load:.1f}",
        ),
    ]
    for entry in data.values():
        for name in ("selected", "tested", "changed"):
            entry["result"][name] = len(entry["result"].get(name) or [])
    write("default_case", claims, data, started)


def run(options: list[str]) -> dict:
    """One run: seconds, the command's JSON, and how far its scores are from the published ones."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "veristate", "screen", "--json", "--compare", "--store", f"{folder}/store"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [*command, "--out", f"{folder}/out", *options], capture_output=True, check=True, env=os.environ | THREADS
        )
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = (Path(folder) / "out" / "triage.csv").read_text(encoding="utf-8").splitlines()[1:]
    scores = {line.split(",")[0]: float(line.rsplit(",", 2)[1]) for line in lines}
    published = published_scores()
    return {
        "wall": wall,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "result": json.loads(done.stdout),
        "published_difference": max(abs(scores[name] - published[name]) for name in published),
    }


if __name__ == "__main__":
    main()
