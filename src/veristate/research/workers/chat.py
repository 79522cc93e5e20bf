"""A chat model with tools: read, write, run, submit, propose a job, unfold. One tool a reply, as one JSON object.

The loop runs in the engine: the model's key never enters the worker's environment. Only `run` starts a process.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from veristate.core import EnvironmentUnusableError, InputError, RefusedError, VeristateError
from veristate.research.processes import Launch, start, tail
from veristate.research.tasks.data import VARIABLE, data_folder
from veristate.research.untrusted import regular_file, write_text
from veristate.research.workers.seat import Departure, Seat

Words = tuple[tuple[str, str], ...]
TOOLS = ("read", "write", "run", "submit", "job", "unfold", "stop")
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["tool", "argument", "content"],
    "properties": {"tool": {"enum": list(TOOLS)}, "argument": {"type": "string"}, "content": {"type": "string"}},
}
INSTRUCTIONS = """You work alone in a folder, with tools. Each reply is one JSON object with tool, argument and content:
read: argument is a file. write: argument is a file, content what it will hold. run: content is a shell command.
submit: content says what you did. job: content is a shell command to run in the background.
unfold: argument is the identifier of folded results. stop: nothing more to try; content says why."""
_RUN_S, _LOOK_S = 300.0, 0.1
_OBSERVED = 8000
_MISREAD_UPPER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model answered, and the tokens it counted."""

    text: str
    prompt_tokens: int | None = None
    reply_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDriver:
    """The tool loop. `talk` asks the model within the budget; it raises RefusedError when the budget is spent."""

    talk: Callable[[Words, Mapping[str, Any]], Said]

    @property
    def name(self) -> Mapping[str, str]:
        """The kind of worker."""
        return {"model": "tool loop"}

    def drive(self, seat: Seat) -> Departure:
        """As `Driver.drive`. The gate's exchange is told to the model in one line and stays out of its history else."""
        history: list[tuple[str, str]] = [("system", INSTRUCTIONS), ("user", seat.brief)]
        misread, cpu_s = 0, 0.0
        while True:
            if reason := seat.over():
                return Departure(reason=reason, cpu_s=cpu_s, words=history[-1][1][-1500:])
            if sum(len(text) for _, text in history) > seat.context_chars:
                return Departure(reason="the context limit", cpu_s=cpu_s, words=history[-1][1][-1500:])
            try:
                said = self.talk(tuple(history), SCHEMA)
            except RefusedError as error:
                return Departure(reason=str(error), cpu_s=cpu_s)
            except VeristateError as error:
                return Departure(reason=f"the model gave no answer: {error}"[:500], cpu_s=cpu_s)
            history.append(("assistant", said.text))
            try:
                tool, argument, content = _read(said.text)
            except InputError as error:
                misread += 1
                if misread >= _MISREAD_UPPER:
                    return Departure(reason="text-only answer", cpu_s=cpu_s, words=said.text[-1500:])
                history.append(("user", f"{error}; answer with one JSON object"))
                continue
            misread = 0
            if tool == "stop":
                return Departure(reason="text-only answer", cpu_s=cpu_s, words=content[-1500:])
            observed, used = self._use(seat, tool, argument, content)
            cpu_s += used
            seat.spend(cpu_s)
            history.append(("user", observed[:_OBSERVED]))

    def _use(self, seat: Seat, tool: str, argument: str, content: str) -> tuple[str, float]:
        """What the model observes, and the processor time that it took."""
        try:
            match tool:
                case "read":
                    with seat.held(), regular_file(_inside(seat.workspace, argument)) as source:
                        return source.read(4 * _OBSERVED).decode("utf-8", "replace"), 0.0
                case "write":
                    with seat.held():  # what was looked at is what is written
                        path = _inside(seat.workspace, argument)
                        path.parent.mkdir(parents=True, exist_ok=True)
                        write_text(path, content)
                    return f"wrote {len(content):,} characters", 0.0
                case "run":
                    return _run(seat, content)
                case "unfold":
                    return str(seat.serve({"kind": "unfold", "id": argument}).get("text")), 0.0
                case "job":
                    return json.dumps(seat.serve({"kind": "job", "argv": ["sh", "-c", content]})), 0.0
                case _:
                    return str(seat.serve({"kind": "submit", "note": content}).get("text")), 0.0
        except (OSError, ValueError, RuntimeError, InputError, EnvironmentUnusableError) as error:
            # Names and commands of any text at all: a NUL, half a character, a link to itself.
            return f"that did not work: {error}", 0.0


def _read(text: str) -> tuple[str, str, str]:
    """Tool, argument and content. Models wrap JSON in fences and talk around it: the first object counts.

    Raises: InputError when there is none, or it names no tool.
    """
    decoder = json.JSONDecoder()
    for at in (i for i, character in enumerate(text) if character == "{"):
        try:
            content, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and content.get("tool") in TOOLS:
            return content["tool"], str(content.get("argument", "")), str(content.get("content", ""))
        break
    raise InputError(f"that names none of the tools {', '.join(TOOLS)}")


def _inside(workspace: Path, name: str) -> Path:
    """The path in the workspace, links followed. Raises: InputError for one that leads out of it."""
    relative = PurePosixPath(name)
    path = (workspace / relative).resolve()
    if not name or relative.is_absolute() or not path.is_relative_to(workspace.resolve()):
        raise InputError(f"{name!r} is not inside the workspace")
    return path


def _run(seat: Seat, command: str) -> tuple[str, float]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(seat.home), "TMPDIR": str(seat.home)}
    if seat.resources.data == "worker" and VARIABLE in os.environ:
        environment[VARIABLE] = os.environ[VARIABLE]
    launch = Launch(
        argv=("/bin/sh", "-c", command),
        cwd=seat.workspace,
        environment=environment,
        output=seat.home / "run.log",
        mark=seat.mark,
        writable=(seat.workspace, seat.home),
        readable=data_folder(environment),
        network=seat.resources.network,
        memory_bytes=seat.resources.memory_bytes,
    )
    launch.output.unlink(missing_ok=True)
    running = start(seat.confine(launch))
    began = time.monotonic()
    over = None
    while running.wait(_LOOK_S) is None and over is None:
        over = seat.over() or (f"it ran past {_RUN_S:g} s" if time.monotonic() - began > _RUN_S else None)
    ended = running.end()
    return f"{over or ended.words()}\n{tail(launch.output, _OBSERVED - 200)}", ended.cpu_s
