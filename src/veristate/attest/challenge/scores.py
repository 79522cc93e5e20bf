"""The evidence of one challenge: how far the committed output lies from the reruns, as a multiple of their spread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

from veristate.core import InputError, Record, decimal_string


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(Record):
    """What the spread of few reruns is shrunk towards: a `prior` spread that weighs as much as `weight` reruns.

    `floor` is the smallest spread there is: outputs that repeat themselves exactly have none, and any distance would be
    infinitely far. Numbers are decimal strings.
    """

    FORMAT: ClassVar[str] = "veristate.spread/1"
    prior: str
    weight: str = "2"
    floor: str = "0.001"

    def __post_init__(self) -> None:
        """Raises: InputError for a spread or a weight below what makes sense."""
        if not 0 < float(self.floor) <= float(self.prior) < math.inf or not 0 <= float(self.weight) < math.inf:
            raise InputError(f"a prior spread of {self.prior}, floor {self.floor}, weight {self.weight} can't be used")

    @classmethod
    def of(cls, prior: float, *, weight: float = 2.0, floor: float = 1e-3) -> "Spread":
        """From numbers; a prior below the floor is the floor."""
        return cls(prior=decimal_string(max(prior, floor)), weight=decimal_string(weight), floor=decimal_string(floor))

    def shrunk(self, observed: float, reruns: int) -> float:
        """The geometric mean of the observed spread, weighing its reruns, and the prior one, weighing `weight`."""
        weight, prior, floor = float(self.weight), float(self.prior), float(self.floor)
        total = reruns * math.log(max(observed, floor)) + weight * math.log(max(prior, floor))
        return math.exp(total / (reruns + weight))


@dataclass(slots=True)
class Evidence:
    """Distances as they come in, one rerun at a time.

    Maths: S_j = median_i d(y0, y_i) / shrunk(median_{i<l} d(y_i, y_l), j), i, l <= j. Source: Threshold Choice 6.4.
    Differs: the spread is shrunk, and a calibrated path takes the place of the unpublished constant kappa.
    """

    spread: Spread
    to_commitment: list[float] = field(default_factory=list)
    among: list[float] = field(default_factory=list)

    def add(self, to_commitment: float, to_earlier: Sequence[float]) -> float | None:
        """S_j with one more rerun; None while there are fewer than two, which have no spread.

        Raises: InputError for a distance that is no number from 0 to 1, or not one for each earlier rerun.
        """
        given = (to_commitment, *to_earlier)
        if len(to_earlier) != len(self.to_commitment) or not all(0 <= d <= 1 for d in given):
            raise InputError(
                f"rerun {len(self.to_commitment) + 1} needs {len(self.to_commitment) + 1} distances in [0, 1]"
            )
        self.to_commitment.append(to_commitment)
        self.among.extend(to_earlier)
        reruns = len(self.to_commitment)
        if reruns < 2:
            return None
        return median(self.to_commitment) / self.spread.shrunk(median(self.among), reruns)


Distances = Sequence[Sequence[float]]


def path_of(distances: Distances, spread: Spread, *, offset: float = 0.0) -> list[float]:
    """S_2 .. S_K of an execution with K+1 outputs, of which the first plays the commitment.

    `offset` is added to the commitment's distances, up to 1: a fabrication that lies so much farther.
    Shapes: distances [K+1, K+1], symmetric. Raises: InputError as `Evidence.add`.
    """
    evidence = Evidence(spread)
    found = (
        evidence.add(min(1.0, distances[0][j] + offset), [distances[j][i] for i in range(1, j)])
        for j in range(1, len(distances))
    )
    return [score for score in found if score is not None]
