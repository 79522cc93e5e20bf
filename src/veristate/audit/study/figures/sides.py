"""One paired group side by side: what reference, candidate and restored attempts retrieved, read, cited, concluded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from veristate.audit.design import Condition, Replacement
from veristate.audit.endpoints import Component, DiffRow, Divergence, Path, first_divergence, path_diff
from veristate.audit.statistics import Attempt
from veristate.audit.study.recorded import Executed
from veristate.core import InputError

_THREE = (Condition.H1, Condition.C, Condition.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A group by its name, its attempts by condition, and the path diff of H1, C and full restoration, empty where one
    of the first two has no path. `divergence` is where C first parts from H1.
    """

    name: str
    executed: Mapping[Condition, Executed]
    attempts: Mapping[Condition, Attempt]
    rows: tuple[DiffRow, ...]
    divergence: Divergence | None

    @property
    def replacements(self) -> tuple[tuple[Condition, Replacement], ...]:
        """What each intervention replaced of the visited row."""
        return tuple((name, done.replacement) for name, done in self.executed.items() if done.replacement is not None)


def sides_of(executed: Mapping[str, Executed], name: str) -> Sides:
    """The group that tables call `name`.

    Raises: InputError for a name that no finished execution has, with names that are there.
    """
    found: dict[Condition, tuple[Executed, Attempt]] = {}
    names: dict[str, None] = {}
    for done in executed.values():
        for attempt in done.attempts:
            called = name_of(done.arm, attempt.capture, attempt.task, attempt.repeat)
            names[called] = None
            if called == name:
                found[done.condition] = (done, attempt)
    if not found:
        some = ", ".join(list(names)[:5]) or "none yet"
        raise InputError(f"no group {name!r} in this run; it has {len(names)} groups: {some}, ...")
    ordered = [condition for condition in Condition if condition in found]
    attempts = {condition: found[condition][1] for condition in ordered}
    reference, candidate, restored = (_path(attempts, condition) for condition in _THREE)
    parted = None
    if Condition.H1 in found and Condition.C in found:
        parted = first_divergence(found[Condition.H1][0].exchanges, found[Condition.C][0].exchanges)
    return Sides(
        name=name,
        executed={condition: found[condition][0] for condition in ordered},
        attempts=attempts,
        rows=() if reference is None or candidate is None else path_diff(reference, candidate, restored),
        divergence=parted,
    )


def name_of(arm: str, capture: str, task: str, repeat: str) -> str:
    """What a group is called outside its series."""
    return "/".join((arm, capture, task.replace(" ", "-"), repeat))


def item_words(component: Component, item: str) -> str:
    """An item of a path as a reader is shown it: a structured action of the claim protocol as a few words."""
    if component is not Component.ACTIONS:
        return item
    try:
        call = json.loads(item)["call"]
        return " ".join(str(part) for part in (call["action"], call.get("document"), call.get("verdict")) if part)
    except (ValueError, KeyError, TypeError, AttributeError):
        return item


def _path(attempts: Mapping[Condition, Attempt], condition: Condition) -> Path | None:
    return attempts[condition].path if condition in attempts else None
