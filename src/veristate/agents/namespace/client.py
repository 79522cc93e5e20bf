"""The namespace as the session sees it: cells in, results out; kept in the store, brought back from it.

A worker that hangs or dies costs the cell that did it, never the run: its result says so, and the next use starts a
new worker from the last checkpoint.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.agents.namespace.process import Process
from veristate.agents.namespace.values import CellResult, NamespaceCheckpoint, NamespaceReport
from veristate.core import EnvironmentUnusableError, RefusedError
from veristate.store import Store

TRANSFER_S = 600.0

Answer = tuple[dict[str, Any], list[bytearray]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNamespace:
    """A checkpoint with its blobs, which the store has re-hashed: what may be unpickled."""

    checkpoint: NamespaceCheckpoint
    pickle: bytes
    buffers: tuple[bytes, ...]


class Namespace:
    """An agent's Python. The worker is started on first use, with the environment of this moment."""

    def __init__(self, workspace: Path, store: Store, *, cell_timeout: float = 60.0) -> None:
        self._workspace = workspace.resolve()
        self._store = store
        self._seconds = cell_timeout
        self._environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sets in one order, in whatever process
        self._process: Process | None = None
        self._last: str | None = None
        self._directory = "."

    def run(self, source: str) -> CellResult:
        """What the cell did. A worker that missed the deadline or ended is part of that.

        Raises: EnvironmentUnusableError when no worker can be started; TamperError when the checkpoint that a new one
        starts from is damaged.
        """
        process = self._ready()
        request = {"do": "run", "source": source, "seconds": self._seconds}
        try:
            header, _ = self._call(process, request, (), self._seconds)
        except TimeoutError:
            how = f"the cell ran longer than {self._seconds:g} s and was stopped"
            return self._lost(how, outcome="killed")
        except (EOFError, OSError, ValueError):
            return self._lost("the cell ended the Python process", outcome="died")
        self._directory = header.get("directory", self._directory)
        error = str(header.get("failed") or header["error"])
        return CellResult(outcome="raised" if error else "done", output=process.output(), error=error)

    def report(self) -> NamespaceReport:
        """What a checkpoint taken now would keep, and what stands against it."""
        _, parts = self._ask({"do": "survey"})
        return NamespaceReport.from_bytes(bytes(parts[0]))

    def checkpoint(self) -> NamespaceCheckpoint:
        """The namespace as it is now, in the store with all its blobs.

        Raises: RefusedError naming each variable that can't be kept, with its reason; nothing was changed.
        """
        header, parts = self._ask({"do": "checkpoint"})
        report = NamespaceReport.from_bytes(bytes(parts[0]))
        if report.obstacles:
            raise RefusedError(f"the namespace can't be kept: {'; '.join(report.obstacles)}")
        pickle, *buffers = [self._store.put(bytes(part)) for part in parts[1:]]
        versions = {"python": header["python"], "cloudpickle": header["cloudpickle"]}
        checkpoint = NamespaceCheckpoint(pickle=pickle, buffers=tuple(buffers), report=report, **versions)
        self._last = self._store.put(checkpoint.to_bytes())
        return checkpoint

    def fetch(self, digest: str) -> StoredNamespace:
        """The checkpoint of this digest with its blobs, each verified; the worker has not been asked yet.

        Raises: TamperError when a blob is damaged; InputError when one is not in the store.
        """
        checkpoint = NamespaceCheckpoint.from_bytes(self._store.get(digest))
        buffers = tuple(self._store.get(buffer) for buffer in checkpoint.buffers)
        return StoredNamespace(checkpoint=checkpoint, pickle=self._store.get(checkpoint.pickle), buffers=buffers)

    def restore(self, stored: StoredNamespace) -> None:
        """Returns when the namespace is as in the checkpoint, in a new process: what the discarded cells changed in
        modules, or cached there, is gone with the old one.

        Raises: EnvironmentUnusableError when it can't be read here; the namespace is as before then.
        """
        before, directory = self._process, self._directory
        self._process = None
        try:
            self._start(stored)
        except BaseException:
            self._process, self._directory = before, directory
            raise
        if before is not None:
            before.end()
            before.close_output()
        self._last = stored.checkpoint.digest

    def settle(self) -> None:
        """Returns when nothing that a cell started is alive: if something was, it ended with the whole worker."""
        if self._process is not None and self._ask({"do": "living"})[0]["living"]:
            self.close()

    def enter(self) -> None:
        """Returns when the worker is in its directory by name again, after the workspace was swapped under it."""
        if self._process is not None:
            self._ask({"do": "enter", "directory": self._directory})

    def close(self) -> None:
        """Returns when the worker and all that it started have ended. A later use starts from the last checkpoint."""
        if self._process is not None:
            process, self._process = self._process, None
            process.end()
            process.close_output()

    def _ready(self) -> Process:
        if self._process is None:
            self._start(self.fetch(self._last) if self._last else None)
        assert self._process is not None
        return self._process

    def _start(self, stored: StoredNamespace | None) -> None:
        self._process = Process(self._workspace, self._environment)
        self._directory = "."
        if stored is not None:
            try:
                self._refill(stored)
            except BaseException:
                self.close()
                raise

    def _refill(self, stored: StoredNamespace) -> None:
        request = {"do": "restore", "python": stored.checkpoint.python}
        header, _ = self._ask(request, (stored.pickle, *stored.buffers))
        self._directory = header["directory"]

    def _ask(self, request: dict[str, Any], parts: tuple[bytes, ...] = ()) -> Answer:
        """The answer to what is no cell. Raises: EnvironmentUnusableError when the worker fails or is lost at it."""
        process = self._ready() if request["do"] != "restore" else self._process
        assert process is not None
        try:
            header, answer = self._call(process, request, parts, TRANSFER_S)
        except (TimeoutError, EOFError, OSError, ValueError) as error:
            result = self._lost(f"the Python process was lost at '{request['do']}'", outcome="died")
            raise EnvironmentUnusableError(result.observation) from error
        if "failed" in header:
            raise EnvironmentUnusableError(f"the agent's Python failed at '{request['do']}': {header['failed']}")
        return header, answer

    def _call(self, process: Process, request: dict[str, Any], parts: tuple[bytes, ...], seconds: float) -> Answer:
        try:
            return process.ask(request, parts, seconds=seconds)
        except (TimeoutError, EOFError, OSError, ValueError):
            raise
        except BaseException:
            self.close()  # interrupted between question and answer: the next question would get this answer
            raise

    def _lost(self, how: str, *, outcome: Any) -> CellResult:
        """The result of a cell whose worker is of no more use: what was printed is still there."""
        process, self._process = self._process, None
        assert process is not None
        ended = process.end(patience_s=0.0 if outcome == "killed" else 1.0)
        output = process.output()
        process.close_output()
        detail = "" if outcome == "killed" else f" (it {ended})"
        start = "goes back to the last checkpoint" if self._last else "will be empty"
        return CellResult(outcome=outcome, output=output, error=f"{how}{detail}; the namespace {start}")
