"""Finding the agent that the user names."""

import copy
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from veristate.agents.agent import Agent, Proposal, Task, pending_proposal
from veristate.agents.controllers import BUILT_IN
from veristate.agents.session import Session
from veristate.agents.state import Payload
from veristate.core import InputError


class FunctionAgent:
    """A plain function `f(session, task)` as an agent: what it returns is proposed, and handed in as it is."""

    def __init__(self, function: Callable[[Session, Task], Payload], name: str) -> None:
        self.name = name
        self._function = function

    def analyse(self, session: Session, task: Task) -> None:
        """Returns when the function has run and its payload is pending. Raises: what it raises."""
        session.propose(self._function(session, task))

    def submit(self, session: Session, task: Task) -> Proposal:
        """The pending action. Raises: RefusedError when there is none."""
        return pending_proposal(session, task)


class _Named:
    """A user's agent that has no name of its own."""

    def __init__(self, agent: Any, name: str) -> None:
        self.name = name
        self.analyse = agent.analyse
        self.submit = agent.submit


def load_agent(spec: str, *, folder: Path | None = None) -> Agent:
    """The agent of this name: `keeps`, `rereads`, or `module:attribute`.

    The attribute is an agent, a function that makes one when called without arguments, or a function of session and
    task that returns the payload. `folder` is searched for the module first.

    Raises: InputError naming what is missing.
    """
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    module, colon, attribute = spec.partition(":")
    if not (module and colon and attribute):
        raise InputError(f"no agent {spec!r}; name {', '.join(BUILT_IN)} or your own as module:function")
    return _agent(_found(spec, module, attribute, folder), spec, attribute)


def _found(spec: str, module: str, attribute: str, folder: Path | None) -> Any:
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"agent {spec!r}: there is no module {error.name!r} on the path") from error
    except Exception as error:  # whatever a user's module raises
        raise InputError(f"agent {spec!r}: importing {module!r} raised {error!r}") from error
    if not hasattr(found, attribute):
        raise InputError(f"agent {spec!r}: the module {module!r} has no {attribute!r}")
    return getattr(found, attribute)


def _agent(found: Any, spec: str, attribute: str) -> Agent:
    if _takes(found, 0) and not _missing_of_instance(found):
        return _checked(found, spec, attribute)
    if _takes(found, 0):
        try:
            made = found()
        except Exception as error:  # whatever a user's factory raises
            raise InputError(f"agent {spec!r}: calling {attribute!r} raised {error!r}") from error
        return FunctionAgent(made, attribute) if _plain_function(made) else _checked(made, spec, attribute)
    if _plain_function(found):
        return FunctionAgent(found, attribute)
    return _checked(found, spec, attribute)


def _checked(found: Any, spec: str, attribute: str) -> Agent:
    if missing := _missing_of_instance(found):
        raise InputError(
            f"agent {spec!r}: a {type(found).__name__} without {' and '.join(missing)}; an agent has "
            "analyse(session, task) and submit(session, task), or is one function of session and task"
        )
    # A module's one instance is never used itself: each caller gets a copy that has seen nothing yet.
    fresh = copy.deepcopy(found)
    return fresh if isinstance(getattr(fresh, "name", None), str) else _Named(fresh, attribute)


def _missing_of_instance(found: Any) -> list[str]:
    methods = (
        [] if isinstance(found, type) else [m for m in ("analyse", "submit") if _takes(getattr(found, m, None), 2)]
    )
    return [f"{m}(session, task)" for m in ("analyse", "submit") if m not in methods]


def _plain_function(found: Any) -> bool:
    return len(_missing_of_instance(found)) == 2 and _takes(found, 2)


def _takes(function: Any, count: int) -> bool:
    """Whether `function` can be called with `count` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True
