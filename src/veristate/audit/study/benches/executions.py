"""One execution of a design: what fixes it, and what it gives back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from veristate.audit.design import Condition, Replacement, Role
from veristate.audit.endpoints import Endpoint, Exchange
from veristate.audit.statistics import Attempt
from veristate.audit.study.benches.capturing import StudyCapture
from veristate.audit.study.spec import ArmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution that is to run. `key` is the digest of everything that fixes it: what is shown, by whom it is
    answered with which settings and request seed, and where in the design it stands. `task` names a claim, or "all"
    where one execution of a task decides all of its lists and rows.
    """

    key: str
    arm: str
    environment: str
    role: Role
    capture: str
    task: str
    repeat: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an execution gave. `exchanges` are digests of each request and of the reply to it; `metrics` what an
    evaluator says of it, as decimal strings, and no agent ever sees.
    """

    attempts: tuple[Attempt, ...]
    replacement: Replacement | None
    transcript: bytes = b""
    rejected: int = 0
    reply_tokens: int = 0
    exchanges: tuple[Exchange, ...] = ()
    metrics: tuple[tuple[str, str], ...] = ()


class Bench(Protocol):
    """What a study's executions run on: claims with an agent, or a task's arrays alone.

    Law: `run` depends on nothing but the execution, and where a model samples on its request seed.
    """

    @property
    def captures(self) -> tuple[StudyCapture, ...]:
        """All captures of the study, development ones included."""
        ...

    def executions(self, arm: ArmSpec) -> Iterator[Execution]:
        """The executions of an arm in the order in which they run."""
        ...

    def run(self, execution: Execution) -> Done:
        """Runs one of them."""
        ...

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What attempts are compared on here."""
        ...

    def titles(self) -> dict[str, str]:
        """What a reader is shown beside an item of a path, by item; empty where nothing is known."""
        ...
