"""How a benchmark writes down what it measured: machine, versions, commit, and rows of claims against their bars."""

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PACKAGES = ("veristate", "torch", "numpy", "numba", "chemprop", "admet-ai", "rdkit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the performance table. `met` is None where there is no bar, or where a figure is only reported."""

    claim: str
    measured: str
    unit: str
    bar: str
    met: bool | None
    detail: str = ""


def write(name: str, claims: list[Claim], data: dict[str, Any], started: float) -> None:
    """Writes one benchmark's results. `started` is its `time.time()` at the start."""
    content = {
        "name": name,
        "machine": machine(),
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "commit": _commit(),
        "seconds": round(time.time() - started, 1),
        "rows": [asdict(claim) for claim in claims],
        "data": data,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for claim in claims:
        verdict = {True: "met", False: "MISSED", None: "reported"}[claim.met]
        print(f"{verdict:9}{claim.claim}: {claim.measured} {claim.unit} (bar: {claim.bar})")


def note(text: str) -> None:
    """A line of progress on stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """The processor and the cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    flags = next((line for line in lines if line.startswith("flags")), "")
    units = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags.split()]
    return {"processor": ", ".join(sorted(names)), "cores": len(os.sched_getaffinity(0)), "instructions": units}


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
