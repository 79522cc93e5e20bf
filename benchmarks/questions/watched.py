"""Many challenges of one recorder, whose evidence multiplies: how soon it accuses, and whether also the honest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from veristate.attest.challenge import Wealth

ALPHA, CHALLENGES, RECORDERS, FABRICATORS = 0.01, 150, 400, 100
# A score of one more challenge of an honest recorder (False) or of one who fabricates everything (True).
Score = Callable[[bool], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """`needed`: the challenges of each fabricator until accused, None if never. `accused`: of the honest."""

    needed: tuple[int | None, ...]
    accused: int

    @property
    def middle(self) -> float:
        """The median of the challenges needed, one more than there were for who was never accused."""
        return float(np.median([number or CHALLENGES + 1 for number in self.needed]))

    @property
    def found(self) -> int:
        """How many fabricators were accused."""
        return sum(number is not None for number in self.needed)


def watch(recorder: Callable[[], tuple[Sequence[float], Score]], rng: np.random.Generator) -> Watched:
    """`recorder` gives the honest reference scores a recorder is judged by and what its challenges score."""

    def until(fabricates: bool) -> int | None:
        reference, score = recorder()
        wealth = Wealth(reference)
        for number in range(1, CHALLENGES + 1):
            wealth.add(score(fabricates), 1 - rng.random())
            if wealth.accuses(ALPHA):
                return number
        return None

    return Watched(
        needed=tuple(until(True) for _ in range(FABRICATORS)),
        accused=sum(until(False) is not None for _ in range(RECORDERS)),
    )
