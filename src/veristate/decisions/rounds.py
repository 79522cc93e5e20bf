"""Algorithm 3's rounds: recompute, rank the whole candidate set again, and stop when every rule is certified."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from veristate.core import Decision, EnvironmentUnusableError, InputError
from veristate.decisions.admissible import Certified, Unresolved
from veristate.decisions.policies import Stage
from veristate.decisions.question import Current, Question
from veristate.decisions.table import Floats, Mask, require_mask

Stopped = Literal["certified", "budget", "plan ended"]
_OPEN = Stage(reason="unresolved", choose=Current.open_units)
_VALUES = Stage(reason="values", choose=lambda current: ~current.fixed & current.certified)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recomputed:
    """What the trusted executor gave: `values` [m, n], of which those in `done` [m, n] are recomputed bits.

    `done` may hold more than was asked, such as whole batches; all of it is kept. Other values are not read.
    """

    values: Floats
    done: Mask


Recompute = Callable[[Mask], Recomputed]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One round: why it was, the units asked for, the units done, and how many candidates each rule left open then."""

    reason: str
    asked: Mask
    done: Mask
    unresolved: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """How the rounds ended. `units_spent` counts every unit recomputed, those that nobody asked for included.

    `stopped` says why: what was asked for is certified; the next round would have passed the budget; or the policy
    ended and the caller wanted no more. Where values were asked for too, decisions can be certified at any of them.
    """

    current: Current
    rounds: tuple[Round, ...]
    units_spent: int
    stopped: Stopped

    @property
    def results(self) -> tuple[Certified | Unresolved, ...]:
        """For each rule its certificate, or what is left open."""
        return self.current.results

    @property
    def certified(self) -> bool:
        """Whether every rule is certified."""
        return self.current.certified

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The certified decisions, one per rule; none at all unless every rule is certified."""
        found = tuple(result.decision for result in self.results if isinstance(result, Certified))
        return found if self.certified else ()

    @property
    def values_fixed(self) -> bool:
        """Whether every score is recomputed, so that the values are certified and not the decisions alone."""
        return bool(self.current.fixed.all())


def run_rounds(
    question: Question,
    members: ArrayLike,
    plan: Iterable[Stage],
    recompute: Recompute,
    *,
    fixed: ArrayLike | None = None,
    budget: int | None = None,
    expand: Callable[[Mask], Mask] = lambda asked: asked,
    go_on: bool = True,
    certify_values: bool = False,
) -> Outcome:
    """The outcome of recomputing stage after stage of `plan`, then what is still open, until every rule is certified.

    `members` [m, n] are the suspect values, except that those in `fixed` are recomputed already. `expand` says which
    units `recompute` will do when asked for some, so that the budget (in units) is judged before a round is begun.
    With `go_on` false the rounds end with the plan. With `certify_values` they go on until every value is recomputed
    as well, for who is to be shown the values: the open ones first, so that a budget still buys the decisions.

    Maths: a decision certified here is that of the reference scores, if recomputed bits are the reference's and the
    enclosures hold it. Every round after the plan settles at least one candidate, so without a budget there are at
    most n of them.
    Raises: InputError for shapes that don't fit; EnvironmentUnusableError when `recompute` leaves out what was asked or
    gives other bits for a fixed unit; UndecidedError when a recomputed value lies outside its enclosure.
    Source: BioAgent-DF Algorithm 3 and Proposition 1.
    Differs: units are fixed one member value at a time, so a planned round may fix no whole score; n rounds suffice
    for a plan of whole candidates.
    """
    if budget is not None and budget < 0:
        raise InputError(f"the budget is {budget} units; give 0 or more, or None for no limit")
    current, rounds, spent = Current.of(question, members, fixed), [], 0
    stopped: Stopped = "plan ended"
    for stage in _stages(plan, go_on, certify_values):
        if _finished(current, certify_values):
            break
        chosen = require_mask(stage.choose(current), current.fixed.shape, f"the units of stage {stage.reason!r}")
        asked = chosen & ~current.fixed
        if not asked.any():
            continue
        if budget is not None and spent + int((asked | expand(asked)).sum()) > budget:
            stopped = "budget"
            break
        given = recompute(asked.copy())
        current, done = _with_recomputed(current, asked, given)
        spent += int(done.sum())
        rounds.append(Round(reason=stage.reason, asked=asked, done=done, unresolved=_open_counts(current)))
    return Outcome(
        current=current,
        rounds=tuple(rounds),
        units_spent=spent,
        stopped="certified" if _finished(current, certify_values) else stopped,
    )


def _finished(current: Current, certify_values: bool) -> bool:
    """Whether the decisions, and if wanted the values, are certified."""
    return current.certified and (not certify_values or bool(current.fixed.all()))


def _stages(plan: Iterable[Stage], go_on: bool, certify_values: bool) -> Iterator[Stage]:
    """The planned stages, then, if wanted, the open units again and again (each such round leaves fewer)."""
    yield from plan
    while go_on:
        yield _OPEN
        if certify_values:
            yield _VALUES


def _with_recomputed(current: Current, asked: Mask, given: Recomputed) -> tuple[Current, Mask]:
    """The standing with the new bits put in, and which units were done. What was fixed stays as it is."""
    shape = current.fixed.shape
    done = require_mask(given.done, shape, "what was recomputed")
    values = np.asarray(given.values, dtype=np.float64)
    if values.shape != shape:
        raise InputError(f"recomputed values have shape {values.shape}, not {shape}")
    missing = asked & ~done
    if missing.any():
        raise EnvironmentUnusableError(
            f"the trusted executor left out {int(missing.sum())} of {int(asked.sum())} units it was asked for, "
            f"{_unit(current, missing)} among them"
        )
    again = done & current.fixed
    differs = again & (
        np.where(again, values, 0.0).view(np.uint64) != np.where(again, current.members, 0.0).view(np.uint64)
    )
    if differs.any():
        raise EnvironmentUnusableError(
            f"the trusted executor gave other bits for {int(differs.sum())} units it had recomputed before, "
            f"{_unit(current, differs)} among them; qualify it again"
        )
    new = done & ~current.fixed
    members = np.where(new, values, current.members)
    return Current.of(current.question, members, current.fixed | done), done


def _unit(current: Current, mask: Mask) -> str:
    """The first unit of the mask in words."""
    member, candidate = np.argwhere(mask)[0]
    return f"candidate {current.question.ids[candidate]!r} of member {member}"


def _open_counts(current: Current) -> tuple[int, ...]:
    """For each rule how many candidates must still be settled."""
    return tuple(len(result.indices) if isinstance(result, Unresolved) else 0 for result in current.results)
