"""Claim: after kill -9 of engine, worker, evaluator or job at random moments, resuming loses no card, repeats no
evaluation that was recorded, and leaves no process and no lease behind.

A small campaign of two workers, each with a job in the background that leaves its session, is killed again and again
and resumed; every other campaign runs in the sandbox where there is one. Cards are compared by their bytes in the
journal before and after, evaluations by the order of claims and cards in it. Processes are looked for in /proc, by
working folder and environment, from the moment the engine is dead and before anything resumes it.
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
KILLS_EACH, PATIENCE_S = 20, 3.0
# How long a victim is looked for, and how many of each kind there must be for a row to say more than "reported".
SEEK_S, LEAST = 5.0, 5
VICTIMS = {"worker": "climber.py", "evaluator": "judge.py", "job": "sleep 300"}


def main() -> None:
    """Measures and writes. `--kills` is how many kills in all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    given = options.parse_args()
    started, seed = time.time(), 0
    total, slowest = Counter[str](), 0.0
    while (left := given.kills - kills_of(total)) > 0:
        sandbox = seed % 2 == 0 and find_sandbox() is not None
        with tempfile.TemporaryDirectory() as name:
            seen, longest = campaign(Path(name), min(KILLS_EACH, left), seed, sandbox)
        total["kills in the sandbox" if sandbox else "kills without it"] += kills_of(seen)
        total.update(seen)
        slowest, seed = max(slowest, longest), seed + 1
        note(f"{dict(total)}, slowest {slowest:.3f} s")
        data = {"counts": dict(total), "slowest_end_s": round(slowest, 3)}
        write("crash_resume", claims(total, slowest), data, started)


def kills_of(seen: Counter[str]) -> int:
    """How many victims were killed."""
    return sum(seen[f"{victim} killed"] for victim in ("engine", *VICTIMS))


def campaign(base: Path, kills: int, seed: int, sandbox: bool) -> tuple[Counter[str], float]:
    """What happened to one campaign that was killed that often and came to its end, and the longest that anything of it
    lived after an engine's death, in seconds.
    """
    task, home = base / "task", CampaignHome(folder=base / "home")
    task.mkdir()
    for file, text in (("task.toml", TASK), ("judge.py", JUDGE), ("climber.py", CLIMBER)):
        (task / file).write_text(text)
    chance, seen, told, done, longest = random.Random(seed), Counter[str](), list[Any](), 0, 0.0
    while done < kills:
        process = engine(home, task, sandbox)
        victim = chance.choice(["engine", "engine", *VICTIMS])
        wait(home, process, chance.uniform(0.0, 1.0))
        done += killed(process, victim, seen)
        if victim != "engine":  # the engine goes on without it, for a moment or for a few stages
            time.sleep(chance.choice([0.0, 0.2, 2.0]) * chance.random())
        process.kill()
        process.communicate()
        if victim != "engine":
            seen["engine killed after it"] += 1
        left, after = survivors(base)
        seen["processes left"] += left
        longest = max(longest, after)
        told = compared(home, told, seen)
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
    seen["processes left"] += survivors(base)[0]
    return seen, longest


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
    """Whether a victim of that kind was there within `SEEK_S`, and was killed."""
    deadline = time.monotonic() + SEEK_S
    while process.poll() is None and time.monotonic() < deadline:
        found = [process.pid] if victim == "engine" else [pid for pid in below(process.pid) if is_it(pid, victim)]
        for pid in found[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            seen[f"{victim} killed"] += 1
            return 1
        time.sleep(0.005)
    seen[f"{victim} not found"] += 1
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


def survivors(base: Path) -> tuple[int, float]:
    """How many processes of the campaign in this folder still live after `PATIENCE_S`, and after how many seconds the
    last one was gone.
    """
    began = time.monotonic()
    while True:
        found = sum(lives(process, base) for process in Path("/proc").iterdir() if process.name.isdigit())
        passed = time.monotonic() - began
        if not found or passed > PATIENCE_S:
            return found, passed
        time.sleep(0.01)


def lives(process: Path, base: Path) -> bool:
    """Whether it is alive and works in that folder, or was given a name of it."""
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        inside = (process / "cwd").readlink().is_relative_to(base) or os.fsencode(base) in (
            process / "environ"
        ).read_bytes()
    except OSError:
        return False
    return inside and state not in "ZX"


def claims(total: Counter[str], slowest: float) -> list[Claim]:
    """The rows."""
    kills = {victim: total[f"{victim} killed"] for victim in ("engine", *VICTIMS)}
    detail = f"{kills_of(total)} kills ({', '.join(f'{n} {v}' for v, n in kills.items())}), "
    detail += f"{total['kills in the sandbox']} of them in the sandbox and {total['kills without it']} without it; "
    detail += f"{total['campaigns']} campaigns, {total['cards']} cards; the last process of a dead engine was gone "
    detail += f"after at most {slowest:.2f} s"
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
            met=False if total[name] else True if min(kills.values()) >= LEAST else None,
            detail=detail,
        )
        for name in names
    ]


if __name__ == "__main__":
    main()
