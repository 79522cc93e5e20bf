"""Claim: every bundled campaign runs through the engine in its sandbox, without a model, and the engine costs little.

Each is one command in a new process with two workers: the best audited value beside the best known one, when it was
reached, what the audit said of it, and the share of the processor time that was the engine's own. Needs the data of
the tours and of GB1 in VERISTATE_DATA.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.record import Claim, note, write
from veristate.research import CampaignHome, bundled_tasks, read_standing
from veristate.research.running.exporting import summary

# Wall-clock seconds each, and the bar as the metric; None where a feasible, audited result is all that is asked.
SOUGHT: dict[str, tuple[float, str | None]] = {
    "packing-26": (60, "2.6359830849"),
    "packing-32": (120, "2.9395727712"),
    "ratio-16": (30, "3.5901573654"),
    "heilbronn-triangle-11": (150, "0.0365298898"),
    "heilbronn-convex-13": (180, "0.030936889"),
    "uncertainty-3": (60, "0.35209911"),
    "uncertainty-5": (90, "0.3515178"),
    "uncertainty-7": (120, "0.3484426"),
    "kttsp-easy": (180, None),
    "kttsp-medium": (180, None),
    "kttsp-hard": (300, None),
    "gb1": (120, None),
    "tabular-cells": (90, None),
    "tabular-cultivars": (90, None),
    "tabular-progression": (90, None),
}
ENGINE_SHARE = 0.01
# The command, which leaves the processor seconds of its own process: the engine's, from the interpreter's start on.
# What it started, each with its keeper, stands in the campaign's account.
_COMMAND = """
import resource, sys
from pathlib import Path
from veristate.interfaces.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    Path("engine").write_text(str(used.ru_utime + used.ru_stime))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One campaign that ran: `cards` in the order of time, `cpu_s` all its processor time, `engine_s` the engine's."""

    name: str
    seconds: float
    cpu_s: float
    engine_s: float
    said: dict[str, Any]
    cards: list[dict[str, Any]]
    audit: dict[str, Any]
    error: str


def main() -> None:
    """Runs them one after the other and writes the figures. `--only NAME` runs some, `--share S` shortens each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--name", default="campaigns")
    asked = parser.parse_args()
    started, busy = time.time(), os.getloadavg()[0]
    assert set(SOUGHT) == set(bundled_tasks()), set(SOUGHT) ^ set(bundled_tasks())
    claims, runs = [], []
    for name in asked.only or SOUGHT:
        wall_s, bar = SOUGHT[name]
        runs.append(ran(name, wall_s * asked.share))
        claims.append(_claim(runs[-1], wall_s * asked.share, bar))
        note(f"{name}: {claims[-1].measured}; {claims[-1].detail}")
    engine, total = sum(run.engine_s for run in runs), sum(run.cpu_s for run in runs)
    claims.append(
        Claim(
            claim=f"the engine's own processor time over that of {len(runs)} campaigns, the command's start included",
            measured=f"{100 * engine / total:.2f}",
            unit="%",
            bar="below 1",
            met=engine < ENGINE_SHARE * total,
            detail=f"{engine:.1f} of {total:.0f} s; load average before {busy:.1f} on {os.cpu_count()} cores",
        )
    )
    data = {run.name: {key: getattr(run, key) for key in Ran.__slots__} for run in runs}
    write(asked.name, claims, {"load_at_start": busy, "campaigns": data}, started)


def ran(name: str, wall_s: float) -> Ran:
    """The campaign, run by the command in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        argv = ["research", "run", name, "--workers", "2", "--wall", str(wall_s)]
        begun, home = time.perf_counter(), Path(folder, "home")
        out, err = Path(folder, "out"), Path(folder, "err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *argv, "--home", str(home), "--json"],
                cwd=folder,
                stdout=stdout,
                stderr=stderr,
            )
            process.wait()
        seconds, engine_s = time.perf_counter() - begun, float(Path(folder, "engine").read_text(encoding="utf-8"))
        try:
            standing = read_standing(CampaignHome(folder=home))
            said = summary(standing)
        except Exception as error:  # what went wrong is the figure then
            words = err.read_text(encoding="utf-8", errors="replace")[-2000:]
            return Ran(
                name=name, seconds=seconds, cpu_s=engine_s, engine_s=engine_s, said={}, cards=[], audit={},
                error=f"{error}: {words}",
            )  # fmt: skip
        cards = [
            {"place": c.place, "status": c.status, "metric": c.metric, "reason": c.reason, "at_s": c.spent_s}
            for c in sorted(standing.cards, key=lambda c: float(c.spent_s))
        ]
        cpu_s = engine_s + float(said["spent_cpu_s"])
        audit = {place: dict(each) for place, each in standing.audits.items()}
        return Ran(
            name=name, seconds=seconds, cpu_s=cpu_s, engine_s=engine_s, said=said, cards=cards, audit=audit, error=""
        )


def _claim(run: Ran, wall_s: float, bar: str | None) -> Claim:
    said = run.said
    audited, best_known = said.get("audited"), said.get("best_known")
    place = said.get("audited_at")
    at = next((card["at_s"] for card in run.cards if card["place"] == place), "-")
    down = said.get("direction") == "minimise"
    reached = audited is not None and (
        bar is None or (Decimal(audited) <= Decimal(bar) if down else Decimal(audited) >= Decimal(bar))
    )
    repaired = ", repaired" if audited and run.audit[place]["repaired"] else ""
    beyond = ""
    if audited and best_known:
        gain = (Decimal(best_known) - Decimal(audited)) * (1 if down else -1)
        # Best known values are rounded as they are written, and doubles.
        last = Decimal(1).scaleb(int(Decimal(best_known).as_tuple().exponent))
        if gain > max(last, abs(Decimal(best_known)) * Decimal("1e-12")):
            beyond = f"; better than the best known by {gain:.3g}"
    refused = sum(card["status"] != "valid" for card in run.cards)
    return Claim(
        claim=f"{run.name}: two workers, {wall_s:.0f} s, audited at tolerance 0",
        measured=f"{_short(audited)} after {at} s" if audited else f"none: {run.error or said.get('workers')}",
        unit=f"{said.get('metric', 'metric')}; s wall",
        bar=bar or "a result that stands the audit",
        met=reached,
        detail=f"best known {_short(best_known)}{repaired}{beyond}; {len(run.cards)} results, {refused} not valid; "
        f"{run.seconds:.0f} s and {run.cpu_s:.0f} processor s in all, engine {run.engine_s:.1f}",
    )


def _short(text: str | None) -> str:
    return text[:18] if text else "-"


if __name__ == "__main__":
    main()
