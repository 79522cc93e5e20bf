"""The process in which an agent's cells run: `python -m veristate.agents.namespace.worker REQUESTS REPLIES FOLDER`.

It answers one frame with one frame until the other side closes. Standard output and error are a file that the other
side reads, so that what was printed is not lost with the process.
"""

import builtins
import io
import os
import platform
import signal
import sys
import types
from importlib import invalidate_caches
from pathlib import Path
from typing import Any, TextIO

import cloudpickle

from veristate.agents.namespace.cells import Cells
from veristate.agents.namespace.pickling import dump, load, measure, refill
from veristate.agents.namespace.surroundings import Surroundings, living_processes, living_threads, random_states
from veristate.agents.namespace.values import NamespaceReport, Variable
from veristate.agents.namespace.wire import receive, send

_ALWAYS_THERE = {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"}
_GRACE_S = 5.0

Answer = tuple[dict[str, Any], list[Any]]


class Worker:
    """The namespace, which is that of a module `__main__`, and what is asked of it."""

    def __init__(self, workspace: Path) -> None:
        self._main = types.ModuleType("__main__")
        self.namespace = self._main.__dict__
        self.namespace["__builtins__"] = builtins
        sys.modules["__main__"] = self._main
        self.surroundings = Surroundings(workspace)
        self.cells = Cells(self.namespace)
        self._printed = os.dup(1)
        self._stream = self._fresh_stream()
        self._point_streams()

    def run(self, source: str, seconds: float) -> Answer:
        """The outcome of a cell."""
        own = os.getpid()
        self._point_streams()
        invalidate_caches()  # a module that the last cell wrote
        # Should the other side die while the cell hangs, the kernel ends this process.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_S)
        error = self.cells.run(source)
        if os.getpid() != own:
            os._exit(0)  # a copy that the cell forked and forgot
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._flush()
        return {"error": _utf8(error), "directory": self.surroundings.directory()}, []

    def survey(self) -> NamespaceReport:
        """The variables and what surrounds them."""
        around = self.surroundings
        return NamespaceReport(
            variables=tuple(self._variable(n, v) for n, v in self.namespace.items() if n not in _ALWAYS_THERE),
            random=random_states(),
            environment=tuple(_utf8(name) for name in around.changed_environment()),
            directory=_utf8(around.directory()),
            threads=tuple(_utf8(name) for name in living_threads()),
            processes=tuple(_utf8(name) for name in living_processes()),
            notes=tuple(self._notes()),
        )

    def checkpoint(self) -> Answer:
        """The report and, when nothing stands against it, the pickle and its buffers."""
        report = self.survey()
        if report.obstacles:
            return {}, [report.to_bytes()]
        state = {"surroundings": self.surroundings.take(), "cells": self.cells.sources}
        data, buffers = dump(self.namespace, state)
        versions = {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__}
        return versions, [report.to_bytes(), data, *buffers]

    def restore(self, data: bytearray, buffers: list[bytearray], *, python: str) -> Answer:
        """Returns when the namespace and what surrounds it are as in the checkpoint; on an error, as before."""
        ours = platform.python_version()
        if python.split(".")[:2] != ours.split(".")[:2]:
            raise RuntimeError(f"the checkpoint holds byte code of Python {python}, this is {ours}; use that version")
        os.chdir(self.surroundings.workspace)
        modules = self.surroundings.workspace_modules()
        for name in modules:
            del sys.modules[name]  # the restored files may say something else
        before = self.surroundings.take()
        try:
            content, state = load(self.namespace, data, buffers)
            self.surroundings.apply(state["surroundings"])
        except BaseException:
            sys.modules.update(modules)
            self.surroundings.apply({**before, "directory": "."})
            raise
        refill(self.namespace, content)
        self.cells.reset(state["cells"])
        return {"directory": self.surroundings.directory()}, []

    def answer(self, request: dict[str, Any], parts: list[bytearray]) -> Answer:
        """What the request asks for."""
        match request["do"]:
            case "run":
                return self.run(request["source"], request["seconds"])
            case "survey":
                return {}, [self.survey().to_bytes()]
            case "checkpoint":
                return self.checkpoint()
            case "restore":
                return self.restore(parts[0], parts[1:], python=request["python"])
            case "living":
                return {"living": [*living_threads(), *living_processes()]}, []
            case _:
                os.chdir(self.surroundings.workspace / request["directory"])
                return {}, []

    def _variable(self, name: Any, value: Any) -> Variable:
        size, reason = measure(self.namespace, value)
        kind = type(value)
        home = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
        label = _utf8(name if isinstance(name, str) else repr(name))
        return Variable(name=label, type=home + kind.__qualname__, kept=not reason, reason=_utf8(reason), size=size)

    def _notes(self) -> list[str]:
        notes = []
        if modules := sorted(self.surroundings.workspace_modules()):
            notes.append(f"imported anew from the restored files, without what changed in them: {', '.join(modules)}")
        if "torch" in sys.modules:
            notes.append("torch: its random state is not kept, and tensors that share memory come back apart")
        return notes

    def _fresh_stream(self) -> TextIO:
        # Nothing is kept back: what a cell printed before it was killed must be in the file.
        unbuffered: Any = io.FileIO(1, "w", closefd=False)
        return io.TextIOWrapper(unbuffered, encoding="utf-8", errors="replace", write_through=True)

    def _point_streams(self) -> None:
        """Returns when printing goes to the other side, whatever the cell before did to the streams."""
        os.dup2(self._printed, 1)
        os.dup2(self._printed, 2)
        if self._stream.closed:
            self._stream = self._fresh_stream()
        sys.stdout = sys.stderr = self._stream

    def _flush(self) -> None:
        for stream in {id(s): s for s in (sys.stdout, sys.stderr, self._stream)}.values():
            try:
                stream.flush()
            except Exception:  # noqa: S112 - a stream of the agent's own making
                continue


def serve(worker: Worker, requests: int, replies: int) -> None:
    """Returns when the other side has closed."""
    send(replies, {"ready": True})
    while True:
        try:
            request, parts = receive(requests)
        except EOFError:
            return
        try:
            header, answer = worker.answer(request, parts)
        except Exception as error:
            header, answer = {"failed": _utf8(f"{type(error).__name__}: {error}")}, []
        send(replies, header, answer)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def main() -> None:
    """Never returns: the process ends with the other side, threads or not."""
    requests, replies = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(requests, False)
    os.set_inheritable(replies, False)
    workspace = Path(sys.argv[3])
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    sys.dont_write_bytecode = True  # the workspace holds what the agent wrote, nothing else
    serve(Worker(workspace), requests, replies)
    os._exit(0)


if __name__ == "__main__":
    main()
