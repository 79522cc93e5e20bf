"""Paired discordance: how often the candidate differs from the reference, beside how often the reference repeats do."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.audit.endpoints import Path
from veristate.audit.statistics.attempts import CANDIDATE, REFERENCE, REPEAT, Group
from veristate.audit.statistics.proportions import wilson

EndpointMap = Callable[[Path], Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discordance:
    """In how many of the groups the candidate, and in how many the reference's repeat, differs from the reference.

    Maths: excess = (candidate - repeat) / groups, in [-1, 1]; None where there is no group.
    Source: BioAgent-DF F.2 (Delta_D).
    """

    groups: int
    candidate: int
    repeat: int

    @property
    def excess(self) -> float | None:
        """The paired excess discordance Delta_D, every group weighing the same."""
        return (self.candidate - self.repeat) / self.groups if self.groups else None

    @property
    def candidate_interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the candidate's share."""
        return wilson(self.candidate, self.groups)

    @property
    def repeat_interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the repeat's share."""
        return wilson(self.repeat, self.groups)


def discordances(
    groups: Sequence[Group], endpoint: EndpointMap, *, of: str, against: str = REFERENCE
) -> NDArray[np.int8]:
    """For each group 1 where the two conditions differ on the endpoint, else 0.

    Raises: InputError for a group in which one of them did not complete; take the jointly completed subset.
    """
    found = [endpoint(group.path(of)) != endpoint(group.path(against)) for group in groups]
    return np.array(found, dtype=np.int8)


def paired_excess(
    groups: Sequence[Group],
    endpoint: EndpointMap,
    *,
    candidate: str = CANDIDATE,
    reference: str = REFERENCE,
    repeat: str = REPEAT,
) -> Discordance:
    """The discordances of candidate and repeat against the reference, over one and the same set of groups.

    Raises: InputError as `discordances` does.
    Source: BioAgent-DF F.2.
    """
    return Discordance(
        groups=len(groups),
        candidate=int(discordances(groups, endpoint, of=candidate, against=reference).sum(dtype=np.int64)),
        repeat=int(discordances(groups, endpoint, of=repeat, against=reference).sum(dtype=np.int64)),
    )


def paired_values(groups: Sequence[Group], endpoint: EndpointMap) -> NDArray[np.int8]:
    """For each group the summand of Delta_D, -1, 0 or 1: what capture-balanced estimates and bootstraps are of."""
    return discordances(groups, endpoint, of=CANDIDATE) - discordances(groups, endpoint, of=REPEAT)
