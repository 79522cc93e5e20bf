"""Trusted recomputation of units: always whole (member, batch) groups in their original geometry, all bits kept.

A regrouped batch was seen to change one unit in 14,225, so a unit is never recomputed alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, PolicyName
from veristate.decisions import Outcome as RoundsOutcome
from veristate.decisions import Policy, Question, Recomputed, full, r1, r1m, run_rounds
from veristate.devices import Group, TrustedExecutor, require_probabilities
from veristate.devices.trusted import Certification

Mask = NDArray[np.bool_]


@dataclass(slots=True)
class GroupRecomputer:
    """Recomputes the groups that units lie in, and remembers every group it has done."""

    trusted: TrustedExecutor
    batches: tuple[range, ...]
    ids: tuple[str, ...]
    progress: Callable[[Group], None] | None = None
    done: dict[Group, NDArray[np.float32]] = field(default_factory=dict)

    def expand(self, asked: Mask) -> Mask:
        """The units [m, n] that will be computed when these are asked for."""
        whole = np.zeros_like(asked)
        for member, batch in self._groups(asked):
            positions = self.batches[batch]
            whole[member, positions.start : positions.stop] = True
        return whole

    def __call__(self, asked: Mask) -> Recomputed:
        """The recomputed values of the asked units and of all that share their groups.

        Raises: InputError naming candidates whose healthy scores are no probabilities: no rule can use them.
        """
        groups = [group for group in self._groups(asked) if group not in self.done]
        for group, scores in self.trusted.recompute(groups, self.progress).items():
            positions = self.batches[group[1]]
            require_probabilities(scores[None], self.ids[positions.start : positions.stop])
            self.done[group] = scores
        values = np.zeros(asked.shape)
        known = np.zeros(asked.shape, dtype=bool)
        for (member, batch), scores in self.done.items():
            positions = self.batches[batch]
            values[member, positions.start : positions.stop] = scores
            known[member, positions.start : positions.stop] = True
        return Recomputed(values=values, done=known & self.expand(asked))

    def everything(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """All members [m, n] as recomputed; what is not done yet is done now."""
        return self(np.ones(shape, dtype=bool)).values.astype(np.float32)

    def _groups(self, asked: Mask) -> list[Group]:
        return [
            (int(member), batch)
            for member in np.flatnonzero(asked.any(axis=1))
            for batch, positions in enumerate(self.batches)
            if asked[member, positions.start : positions.stop].any()
        ]


@dataclass(slots=True)
class MemoisedRecomputer:
    """Recomputes every unit at once, with the bits of a full run in its own geometry, when the first is asked for."""

    certify: Callable[[], Certification]
    ids: tuple[str, ...]
    certification: Certification | None = None

    def expand(self, asked: Mask) -> Mask:
        """All of them."""
        return np.ones_like(asked)

    def __call__(self, asked: Mask) -> Recomputed:
        """The values of all units. Raises: InputError naming candidates whose scores are no probabilities."""
        return Recomputed(values=self.everything(asked.shape).astype(np.float64), done=np.ones_like(asked))

    def everything(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """All members [m, n], computed once."""
        if self.certification is None:
            self.certification = self.certify()
        values = self.certification.values
        if values is None or values.shape != shape:
            raise EnvironmentUnusableError("the trusted process did not give every value it was asked for")
        require_probabilities(values, self.ids)
        return values


def policy_named(name: PolicyName, marked: Mask, epsilon: float | None) -> Policy:
    """The stages of that policy. All end in full recomputation unless the budget stops them: checks that passed bound
    no score.
    """
    if name == "r1":
        return r1(marked)
    if name == "r1m":
        assert epsilon is not None, "found before the pass"
        return r1m(marked, epsilon)
    return full()


Recomputer = GroupRecomputer | MemoisedRecomputer


def recover(
    question: Question, suspect: NDArray[np.float32], policy: Policy, recompute: Recomputer, budget: int | None
) -> RoundsOutcome:
    """The rounds of Algorithm 3 until every decision and every returned value is certified, or the budget ends."""
    return run_rounds(question, suspect, policy, recompute, budget=budget, expand=recompute.expand, certify_values=True)
