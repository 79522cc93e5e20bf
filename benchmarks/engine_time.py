"""Claim: the research engine itself costs little: below 2 % of its worker's processor time with a model that answers at
once, and below 1 % of a campaign's time.

A scripted model writes a candidate, runs a program that works, and submits, again and again. The program works as long
as the peer's worker did for each of its model calls (1.85 s of processor time a call, of which its engine cost 0.37 s:
20 %), so the two shares can be compared. The engine's time is that of its own process, from opening to the end; its
keepers and evaluators are not in it, but the evaluators' time is in neither share.
"""

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.record import Claim, note, write
from veristate.research import CampaignHome, CampaignOptions, Said, Surroundings, Talk, read_task, run_campaign

WORK_S, CALLS_A_ROUND, PEER = 1.85, 3, 20.0
TASK = """
format = "veristate.task/1"
name = "work"
description = "Work."
[objective]
metric = "height"
direction = "maximise"
[artifact]
files = ["x.txt"]
[evaluator]
command = ["{python}", "-S", "-E", "{task}/judge.py", "{candidate}", "{reply}"]
[worker]
command = ["model"]
[budget]
wall_s = 3600
tokens = 1000000000
[segment]
wall_s = 3600
"""
JUDGE = """
import json, pathlib, sys
candidate, reply = map(pathlib.Path, sys.argv[1:])
reply.with_suffix(".draft").write_text(json.dumps({"metric": (candidate / "x.txt").read_text()}))
reply.with_suffix(".draft").rename(reply)
"""
WORK = "python3 -S -E -c 'import time\nwhile time.process_time() < {}: pass'"


def main() -> None:
    """Measures and writes. `--rounds` is how many times the model writes, runs and submits."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    rounds = options.parse_args().rounds
    started = time.time()
    with tempfile.TemporaryDirectory() as name:
        engine_s, worker_s, wall_s, calls = measured(Path(name), rounds)
    note(f"{calls} calls: engine {engine_s:.3f} s, worker {worker_s:.2f} s, wall {wall_s:.1f} s")
    detail = (
        f"{engine_s:.3f} s of the engine, {worker_s:.1f} s of the worker, {wall_s:.1f} s in all, {calls} model calls"
    )
    rows = [
        share("engine's processor time against its worker's", engine_s / worker_s, 2.0, f"{detail}; the peer {PEER} %"),
        share("engine's own time against the campaign's", engine_s / wall_s, 1.0, detail),
    ]
    figures = {"engine_s": engine_s, "worker_s": worker_s, "wall_s": wall_s, "calls": calls}
    write("engine_time", rows, {"figures": figures}, started)


def measured(base: Path, rounds: int) -> tuple[float, float, float, int]:
    """Processor time of the engine and of its worker, wall-clock time, model calls."""
    task, asked, stop = base / "task", [0], threading.Event()
    task.mkdir()
    (task / "task.toml").write_text(TASK)
    (task / "judge.py").write_text(JUDGE)

    def say(*_: Any) -> Said:
        number, what = divmod(asked[0], CALLS_A_ROUND)
        if number == rounds:
            stop.set()
        asked[0] += 1
        if what == 0:
            return tool("write", "x.txt", str(number))
        return tool("run", "", WORK.format(WORK_S * CALLS_A_ROUND)) if what == 1 else tool("submit", "", "")

    cpu_s, wall_s = time.process_time(), time.monotonic()
    around = Surroundings(talk=Talk(say=say), stop=stop)
    standing = run_campaign(CampaignHome(folder=base / "home"), read_task(task), CampaignOptions(), around).standing
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    assert len(standing.cards) == rounds
    return cpu_s, standing.cpu_ms / 1000, wall_s, asked[0]


def tool(name: str, argument: str, content: str) -> Said:
    """A model's answer that uses a tool."""
    text = json.dumps({"tool": name, "argument": argument, "content": content})
    return Said(text=text, prompt_tokens=100, reply_tokens=50)


def share(what: str, part: float, bar: float, detail: str) -> Claim:
    """One row, in per cent."""
    return Claim(
        claim=what,
        measured=f"{100 * part:.2f}",
        unit="%",
        bar=f"< {bar:g} %",
        met=100 * part < bar,
        detail=detail,
    )


if __name__ == "__main__":
    main()
