"""Claim: after kill -9 of engine, worker, evaluator or job at random moments, resuming loses no card, repeats no
evaluation that was recorded, and leaves no process and no lease behind.

A small campaign of two workers, each with a job in the background that leaves its session, is killed again and again
and resumed; the sandbox is on where there is one. Cards are compared by their bytes in the journal before and after,
evaluations by the order of claims and cards in it, processes by a scan of /proc for the campaign's folder.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.record import Claim, note, write
from veristate.ledger import Ledger
from veristate.research import CampaignHome, read_standing
from veristate.research.jobs import Leases
from veristate.research.sandbox.confining import find_sandbox
from veristate.research.sandbox.keeper import below

ENGINE = """
import sys
from pathlib import Path
from veristate.research import CampaignHome, CampaignOptions, Surroundings, read_task, run_campaign
home, sandbox, *task = sys.argv[1:]
around = Surroundings(sandbox=sandbox == "yes")
given = read_task(task[0]) if task else None
print(run_campaign(CampaignHome(folder=Path(home)), given, CampaignOptions(workers=2), around).reason)
"""
TASK = """
format = "veristate.task/1"
name = "steps"
description = "Count to forty."
[objective]
metric = "height"
direction = "maximise"
target = "40"
stop_at_target = true
[artifact]
files = ["x.txt"]
[evaluator]
command = ["{python}", "-S", "-E", "{task}/judge.py", "{candidate}", "{reply}"]
timeout_s = 60
[worker]
command = ["{python}", "-S", "-E", "{task}/climber.py"]
[budget]
wall_s = 3600
[segment]
wall_s = 60
stages = 8
"""
JUDGE = """
import json, pathlib, sys, time
candidate, reply = map(pathlib.Path, sys.argv[1:])
time.sleep(0.05)
said = {"metric": (candidate / "x.txt").read_text().split()[0]}
reply.with_suffix(".draft").write_text(json.dumps(said))
reply.with_suffix(".draft").rename(reply)
"""
CLIMBER = """
import importlib.util, os, pathlib
from importlib.machinery import SourceFileLoader
mailbox = pathlib.Path(os.environ["VERISTATE_MAILBOX"])
loader = SourceFileLoader("submit", str(mailbox / "submit"))
submit = importlib.util.module_from_spec(importlib.util.spec_from_loader("submit", loader))
loader.exec_module(submit)
submit.ask(mailbox, {"kind": "job", "argv": ["sh", "-c", "setsid sleep 300 & sleep 300"], "seconds": 300})
file = pathlib.Path("x.txt")
x = int(file.read_text().split()[0]) + 1 if file.exists() else 0
while True:
    file.write_text(f"{x} of {mailbox.parent.name}")
    if submit.ask(mailbox, {"kind": "submit", "note": str(x)})["segment_over"]:
        break
    x += 1
"""
VICTIMS = {"worker": "climber.py", "evaluator": "judge.py", "job": "sleep 300"}


def main() -> None:
    """Measures and writes. `--kills` is how many kills in all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    given = options.parse_args()
    started = time.time()
    sandbox = find_sandbox() is not None
    total: Counter[str] = Counter()
    seed = 0
    while sum(total[f"{victim} killed"] for victim in ("engine", *VICTIMS)) < given.kills:
        with tempfile.TemporaryDirectory() as name:
            left = given.kills - sum(total[f"{victim} killed"] for victim in ("engine", *VICTIMS))
            total += campaign(Path(name), min(20, left), seed, sandbox)
        seed += 1
        note(f"{dict(total)}")
    write("crash_resume", claims(total, sandbox), {"counts": dict(total), "sandbox": sandbox}, started)


def campaign(base: Path, kills: int, seed: int, sandbox: bool) -> Counter[str]:
    """What happened to one campaign that was killed that often and came to its end."""
    task, home = base / "task", CampaignHome(folder=base / "home")
    task.mkdir()
    for file, text in (("task.toml", TASK), ("judge.py", JUDGE), ("climber.py", CLIMBER)):
        (task / file).write_text(text)
    chance, seen, told, done = random.Random(seed), Counter[str](), list[Any](), 0
    while done < kills:
        process = engine(home, task, sandbox)
        victim = chance.choice(["engine", "engine", *VICTIMS])
        wait(home, process, chance.uniform(0.0, 1.0))
        done += killed(process, victim, seen)
        if victim != "engine":
            time.sleep(chance.uniform(0.0, 0.2))
        process.kill()
        process.communicate()
        if victim != "engine":
            seen["engine killed after it"] += 1
        told = compared(home, told, seen)
        seen["processes left"] += survivors(base)
        if read(home) is not None and read(home).finished is not None:
            break
    finished = engine(home, task, sandbox)
    _, err = finished.communicate(timeout=600)
    seen["resumptions that failed"] += finished.returncode != 0
    if finished.returncode:
        note(err[-1000:])
    compared(home, told, seen)
    standing = read_standing(home)
    seen["recorded evaluations repeated"] += repeated(home)
    seen["cards"] += len(standing.cards)
    seen["campaigns"] += 1
    seen["campaigns short of their target"] += "target" not in (standing.finished or {}).get("reason", "")
    leases = Leases(home.folder / "leases.sqlite")
    seen["leases left"] += len(leases.held())
    leases.close()
    seen["processes left"] += survivors(base)
    return seen


def engine(home: CampaignHome, task: Path, sandbox: bool) -> "subprocess.Popen[str]":
    """An engine in a process of its own; it begins the campaign, or resumes it."""
    known = [] if home.ledger.is_file() and read(home) is not None else [str(task)]
    argv = [sys.executable, "-W", "ignore", "-c", ENGINE, str(home.folder), "yes" if sandbox else "no", *known]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read(home: CampaignHome) -> Any:
    """The standing; None before there is one."""
    try:
        return read_standing(home)
    except Exception:
        return None


def wait(home: CampaignHome, process: "subprocess.Popen[str]", seconds: float) -> None:
    """Returns when the engine works and that much time is over, or it has ended."""
    began = time.time()
    while process.poll() is None and not (home.heartbeat.exists() and home.heartbeat.stat().st_mtime > began):
        time.sleep(0.01)
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def killed(process: "subprocess.Popen[str]", victim: str, seen: Counter[str]) -> int:
    """Whether a victim of that kind was there, and was killed."""
    if victim == "engine":
        found = [process.pid] if process.poll() is None else []
    else:
        found = [pid for pid in below(process.pid) if is_it(pid, victim)]
    for pid in found[-1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return 0
        seen[f"{victim} killed"] += 1
        return 1
    return 0


def is_it(pid: int, victim: str) -> bool:
    """Whether the process itself, and not what keeps it, is a victim of that kind."""
    line = command(pid)
    return VICTIMS[victim] in line and "keeper.py" not in line and not line.startswith("bwrap")


def command(pid: int) -> str:
    """The command line of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def compared(home: CampaignHome, told: list[Any], seen: Counter[str]) -> list[Any]:
    """The cards in the journal now; what was there before and is not, or differs, is counted as lost."""
    if not home.ledger.is_file():
        return told
    with Ledger.open(home.ledger) as ledger:
        cards = [entry.content["card"] for entry in ledger.entries() if entry.kind == "stage.recorded"]
    seen["cards lost"] += sum(before != after for before, after in zip(told, cards, strict=False))
    seen["cards lost"] += max(0, len(told) - len(cards))
    return cards


def repeated(home: CampaignHome) -> int:
    """How many evaluations were claimed of a candidate that had its recorded one by then, in the journal's order."""
    recorded, again = set(), 0
    with Ledger.open(home.ledger) as ledger:
        for entry in ledger.entries():
            if entry.kind == "evaluation.claimed":
                again += entry.content["candidate"] in recorded
            elif entry.kind == "stage.recorded":
                card = json.loads(entry.content["card"])
                recorded |= {card["candidate"]} if card["status"] != "failed" else set()
    return again


def survivors(base: Path) -> int:
    """Living processes that work in the campaign's folder three seconds after its engine was killed, by /proc."""
    deadline = time.monotonic() + 3.0
    while True:
        found = 0
        for process in Path("/proc").iterdir():
            try:
                inside = process.name.isdigit() and (process / "cwd").readlink().is_relative_to(base)
                state = (process / "stat").read_text().rpartition(")")[2].split()[0] if inside else "X"
            except OSError:
                continue
            found += int(inside and state not in "ZX")
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def claims(total: Counter[str], sandbox: bool) -> list[Claim]:
    """The rows."""
    kills = {victim: total[f"{victim} killed"] for victim in ("engine", *VICTIMS)}
    detail = f"{sum(kills.values())} kills ({', '.join(f'{n} {v}' for v, n in kills.items())}), "
    detail += f"{total['campaigns']} campaigns, {total['cards']} cards, {'with' if sandbox else 'without'} the sandbox"
    names = (
        "cards lost",
        "recorded evaluations repeated",
        "processes left",
        "leases left",
        "resumptions that failed",
        "campaigns short of their target",
    )
    return [
        Claim(
            claim=f"kill -9 at random moments: {name}",
            measured=str(total[name]),
            unit="",
            bar="0",
            met=total[name] == 0,
            detail=detail,
        )
        for name in names
    ]


if __name__ == "__main__":
    main()
