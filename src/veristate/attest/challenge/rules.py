"""The threshold rules that the path test is compared with: each judges a challenge of exactly k reruns.

Source: Threshold Choice 4.3, 6.2 (fixed threshold), 6.4 (matched constant, per-execution threshold). Differs: the
paper's kappa is not published; the ratio rule with kappa matched to zero honest rejections is an approximation of it.
"""

from collections.abc import Sequence
from statistics import median

from veristate.attest.challenge.scores import Distances


def median_distance(distances: Distances, k: int) -> float:
    """The median distance of the commitment (row 0) to its first k reruns: accepted while it is at most tau."""
    return median(distances[0][1 : k + 1])


def spread_ratio(distances: Distances, k: int, *, floor: float) -> float:
    """That median over the reruns' own median distance, at least `floor`: accepted while it is at most kappa."""
    among = [distances[j][i] for j in range(2, k + 1) for i in range(1, j)]
    return median_distance(distances, k) / max(median(among), floor)


def matched(honest: Sequence[float]) -> float:
    """The smallest constant that rejects none of these honest values: their maximum.

    Its true rate of false rejections is not zero: for exchangeable values it is 1 / (n + 1) on average.
    """
    return max(honest)
