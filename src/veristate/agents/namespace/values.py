"""What the namespace tells: the result of a cell, the variables and what becomes of them, a kept namespace."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from veristate.core import Record

Outcome = Literal["done", "raised", "killed", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """What a cell did. `output` is what it and the processes it started printed, on either stream; `error` the
    traceback of what it raised, or why its process ended: `killed` at the deadline, `died` by itself.
    """

    outcome: Outcome
    output: str
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the cell ran to its end."""
        return self.outcome == "done"

    @property
    def observation(self) -> str:
        """What the agent is shown: the output, then the error."""
        gap = "\n" if self.error and self.output and not self.output.endswith("\n") else ""
        return self.output + gap + self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Record):
    """One variable of the namespace: whether a checkpoint keeps it, the reason when not, its bytes when pickled alone
    (what it shares with others is counted with each of them).
    """

    FORMAT: ClassVar[str] = "veristate.variable/1"
    name: str
    type: str
    kept: bool
    reason: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport(Record):
    """What a checkpoint keeps and what stands against one.

    Restored along with the variables: the state of the generators named in `random`, the variables of the
    `environment` that changed since the process started, the working `directory` (relative to the workspace where it
    lies in it). Living `threads` and `processes` can't be kept. `notes` say what is kept less than exactly.
    """

    FORMAT: ClassVar[str] = "veristate.namespace-report/1"
    variables: tuple[Variable, ...]
    random: tuple[str, ...]
    environment: tuple[str, ...]
    directory: str
    threads: tuple[str, ...]
    processes: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why there can be no checkpoint now, one reason each; empty when there can."""
        refused = tuple(f"variable {v.name} ({v.type}): {v.reason}" for v in self.variables if not v.kept)
        threads = tuple(f"thread {name} is still running" for name in self.threads)
        return refused + threads + tuple(f"process {name} is still running" for name in self.processes)

    def text(self) -> str:
        """The report for people: a line per variable, then what surrounds them."""
        width = max((len(v.name) for v in self.variables), default=0)
        lines = [
            f"{'kept   ' if v.kept else 'REFUSED'}  {v.name:<{width}}  {v.type}, "
            + (f"{v.size:,} bytes" if v.kept else v.reason)
            for v in self.variables
        ]
        lines.append(f"random state restored: {', '.join(self.random) or 'none'}")
        lines.append(f"environment restored: {', '.join(self.environment) or 'unchanged since the start'}")
        lines.append(f"working directory restored: {self.directory}")
        lines += [f"REFUSED  thread {name} is still running" for name in self.threads]
        lines += [f"REFUSED  process {name} is still running" for name in self.processes]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceCheckpoint(Record):
    """A namespace in the store: one pickle of all variables together, the large buffers beside it, and the report.
    Code is pickled as byte code, so only the same `python` can read it.
    """

    FORMAT: ClassVar[str] = "veristate.namespace-checkpoint/1"
    pickle: str
    buffers: tuple[str, ...]
    report: NamespaceReport
    python: str
    cloudpickle: str
