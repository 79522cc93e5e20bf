"""What a cell changes outside the namespace: random state, environment, working directory, import path; and what
lives on after it: threads and processes.
"""

import os
import random
import sys
import threading
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any


class Surroundings:
    """The state around the namespace, against what it was when the process started."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._environment = dict(os.environ)
        self._path = list(sys.path)

    def take(self) -> dict[str, Any]:
        """What `apply` needs to bring the present state back."""
        numpy_random = sys.modules.get("numpy.random")
        return {
            "random": random.getstate(),
            "numpy": numpy_random.get_state(legacy=False) if numpy_random else None,
            "environment": self.changed_environment(),
            "directory": self.directory(),
            "path": sys.path if sys.path != self._path else None,
        }

    def apply(self, taken: dict[str, Any]) -> None:
        """Returns when the state is the one that was taken. Raises: OSError when its directory is not there."""
        os.chdir(self.workspace / taken["directory"])
        random.setstate(taken["random"])
        if taken["numpy"] is not None:
            import_module("numpy.random").set_state(taken["numpy"])
        wanted = {
            name: value for name, value in (self._environment | taken["environment"]).items() if value is not None
        }
        for name in [name for name in os.environ if name not in wanted]:
            del os.environ[name]
        os.environ.update(wanted)
        sys.path[:] = self._path if taken["path"] is None else taken["path"]
        invalidate_caches()

    def changed_environment(self) -> dict[str, str | None]:
        """The variables that differ from the start; None for those that were removed."""
        now = dict(os.environ)
        names = sorted(now.keys() | self._environment.keys())
        return {name: now.get(name) for name in names if now.get(name) != self._environment.get(name)}

    def directory(self) -> str:
        """The working directory, relative to the workspace where it lies in it."""
        try:
            here = Path.cwd()
        except FileNotFoundError:
            return "."  # the cell removed the folder it was in
        return str(here.relative_to(self.workspace)) if here.is_relative_to(self.workspace) else str(here)

    def workspace_modules(self) -> dict[str, ModuleType]:
        """The imported modules whose source lies in the workspace."""
        inside = f"{self.workspace}{os.sep}"
        modules = [(name, module, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        return {name: module for name, module, file in modules if isinstance(file, str) and file.startswith(inside)}


def random_states() -> tuple[str, ...]:
    """The names of the generators whose state is kept."""
    return ("random", "numpy.random") if "numpy.random" in sys.modules else ("random",)


def living_threads() -> tuple[str, ...]:
    """The threads beside the main one that run Python and could still write; a progress bar's monitor can't."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    names = []
    for ident in sys._current_frames():
        thread = known.get(ident)
        if thread is threading.main_thread() or type(thread).__module__.startswith("tqdm."):
            continue
        names.append(thread.name if thread else f"number {ident}")
    return tuple(sorted(names))


def living_processes() -> tuple[str, ...]:
    """What the cells started and did not wait for, as `number (name)`, whoever its parent is now."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    harmless = (os.getpid(), tracker._resource_tracker._pid if tracker else None)
    members = session_members(os.getpid())
    return tuple(f"{number} ({name})" for number, name in members.items() if number not in harmless)


def session_members(session: int) -> dict[int, str]:
    """The living processes of a session by number, with their names."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            head, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # it ended while we looked
        state, _, _, its_session = rest.split()[:4]
        if int(its_session) == session and state not in "ZX":
            found[int(entry.name)] = head.partition("(")[2]
    return found
