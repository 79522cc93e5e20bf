"""Running an evaluator once, and reading its reply as what it is: untrusted bytes in a file."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from veristate.core import InputError, RefusedError, digest
from veristate.research.processes import Confine, Launch, start, tail
from veristate.research.tasks import Code, Task, filled, metric_text
from veristate.research.tasks.data import VARIABLE, data_folder
from veristate.research.untrusted import regular_file

Status = Literal["valid", "rejected", "failed"]
Arithmetic = Literal["PASS", "FLAG", "UNCHECKED"]
REPLY_UPPER = 2**20
REASON_UPPER = 2000
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one evaluation. `failed` is the evaluator's failure, not the candidate's: there is no score."""

    status: Status
    metric: str | None = None
    reason: str = ""
    arithmetic: Arithmetic = "UNCHECKED"
    repaired: bool = False
    details: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0


def evaluate(
    task: Task,
    code: Code,
    *,
    candidate: Path,
    scratch: Path,
    mark: str,
    confine: Confine,
    checked: bool = False,
    timeout_s: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Judgement:
    """The judgement of the files in `candidate`. `scratch` is an empty folder for order, reply and log.

    The evaluator and all it started are dead when this returns, at the latest after its deadline.

    Raises: RefusedError as soon as `stopped`; then nothing is judged.
    """
    limit = min(code.timeout_s, timeout_s if timeout_s is not None else code.timeout_s)
    reply = scratch / "reply.json"
    environment = _environment(task, scratch)
    launch = Launch(
        argv=_argv(task, code, candidate, scratch, reply, checked),
        cwd=scratch,
        environment=environment,
        output=scratch / "log.txt",
        mark=mark,
        writable=(scratch,),
        readable=(task.folder, candidate, *data_folder(environment)),
        memory_bytes=task.resources.memory_bytes,
    )
    began = time.monotonic()
    running = start(confine(launch))
    timed_out = False
    while running.wait(max(0.0, min(_LOOK_S, limit - (time.monotonic() - began)))) is None:
        timed_out = time.monotonic() - began >= limit
        if timed_out or stopped():
            break
    ended = running.end()
    if not timed_out and stopped():
        raise RefusedError("stopped during an evaluation, which will be run again")
    seconds = time.monotonic() - began
    if timed_out:
        judged = Judgement(status="failed", reason=f"the evaluator ran past its {limit:g} s and was killed")
    elif ended.code != 0:
        judged = Judgement(status="failed", reason=f"the evaluator {ended.words()}: {tail(launch.output, 600)}")
    else:
        judged = read_reply(reply)
    values = {name: getattr(judged, name) for name in Judgement.__slots__}
    if not checked:  # a verdict is our host's to give, never the evaluator's own claim
        values["arithmetic"] = "UNCHECKED"
    return Judgement(**values | {"seconds": seconds, "cpu_s": ended.cpu_s})


def read_reply(path: Path) -> Judgement:
    """The judgement that the reply file holds; a failure when it is missing, too long, no JSON, or no number."""
    try:
        data = reply_bytes(path)
    except OSError:
        return Judgement(status="failed", reason="the evaluator ended without a reply")
    if len(data) > REPLY_UPPER:
        return Judgement(status="failed", reason=f"the evaluator's reply is longer than {REPLY_UPPER:,} bytes")
    name = digest(data)
    try:
        content = json.loads(data)
        return _judgement(content, name)
    except (ValueError, RecursionError) as error:
        return Judgement(status="failed", reason=f"the evaluator's reply is not JSON: {error}", reply=name)
    except (InputError, TypeError, AttributeError) as error:
        return Judgement(status="failed", reason=f"the evaluator's reply can't be used: {error}", reply=name)


def reply_bytes(path: Path) -> bytes:
    """What the evaluator left as its reply, at most one byte more than a reply may have.

    Raises: OSError when no regular file is there.
    """
    with regular_file(path) as source:
        return source.read(REPLY_UPPER + 1)


def _judgement(content: Any, name: str) -> Judgement:
    if not isinstance(content, dict) or ("metric" in content) == ("rejected" in content):
        raise InputError("it must be an object with either a metric or a rejection")
    details = {str(key)[:80]: str(value)[:400] for key, value in dict(content.get("details") or {}).items()}
    if "rejected" in content:
        reason = str(content["rejected"])[:REASON_UPPER] or "no reason was given"
        return Judgement(status="rejected", reason=reason, details=details, reply=name)
    arithmetic = content.get("arithmetic", "UNCHECKED")
    return Judgement(
        status="valid",
        metric=metric_text(content["metric"]),
        reason=str(content.get("finding", ""))[:REASON_UPPER],
        arithmetic=arithmetic if arithmetic in ("PASS", "FLAG") else "UNCHECKED",
        repaired=content.get("repaired") is True,
        details=details,
        reply=name,
    )


def _argv(task: Task, code: Code, candidate: Path, scratch: Path, reply: Path, checked: bool) -> tuple[str, ...]:
    if code.function is None:
        places = {"python": sys.executable, "task": task.folder, "candidate": candidate, "reply": reply}
        return tuple(filled(part, places) for part in code.command)
    order = {
        "function": code.function,
        "folder": str(task.folder),
        "candidate": str(candidate),
        "parameters": dict(task.parameters),
        "reply": str(reply),
        "checked": checked,
    }
    (scratch / "order.json").write_text(json.dumps(order), encoding="utf-8")
    return sys.executable, "-P", "-m", "veristate.research.hosts.evaluator", str(scratch / "order.json")


def _environment(task: Task, scratch: Path) -> dict[str, str]:
    kept = ["PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH"]
    kept += [VARIABLE] if task.resources.data != "none" else []  # what it reads a commitment must say
    found = {name: os.environ[name] for name in kept if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return found | threads | {"HOME": str(scratch), "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
