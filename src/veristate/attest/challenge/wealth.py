"""Evidence over many challenges: a test martingale that may be watched at any time.

Under honesty each new score is exchangeable with the calibration's and all earlier ones, so its smoothed rank p_t is
uniform and independent of the earlier ranks. Betting eps p^(eps-1) on each, averaged over eps, is then a martingale
that starts at 1: P(it ever reaches 1/alpha) <= alpha (Ville). The reference must grow: against one that stays fixed the
ranks are not independent.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from veristate.core import InputError

BETS = (0.05, 0.1, 0.2, 0.4, 0.7)


class Wealth:
    """The e-value so far against one recorder, or against a challenger's own environment when fed with canaries."""

    def __init__(self, reference: Iterable[float], bets: Sequence[float] = BETS) -> None:
        """`reference`: scores of honest executions. Raises: InputError without any, or for a bet outside (0, 1)."""
        self._reference = sorted(reference)
        if not self._reference or any(math.isnan(score) for score in self._reference):
            raise InputError("a wealth needs at least one honest score to compare with, each of them a number")
        if not bets or not all(0 < bet < 1 for bet in bets):
            raise InputError(f"bets {bets}: each must lie within (0, 1)")
        self._bets = tuple(bets)
        self._logs = [0.0] * len(self._bets)
        self.most = 1.0

    def add(self, score: float, tie: float) -> float:
        """The e-value with one more score. `tie` in (0, 1] breaks ties: uniform, and not the recorder's to choose.

        Maths: p = (#{r > s} + tie (1 + #{r = s})) / (n + 1). Raises: InputError for a tie outside (0, 1] or a NaN.
        """
        if not 0 < tie <= 1 or math.isnan(score):
            raise InputError(f"a score {score} with tie {tie}: a number, and a tie within (0, 1], are needed")
        low, high = bisect_left(self._reference, score), bisect_right(self._reference, score)
        n = len(self._reference)
        p = (n - high + tie * (1 + high - low)) / (n + 1)
        for place, bet in enumerate(self._bets):
            self._logs[place] += math.log(bet) + (bet - 1) * math.log(p)
        insort(self._reference, score)
        self.most = max(self.most, self.value)
        return self.value

    @property
    def value(self) -> float:
        """The e-value now."""
        return math.fsum(math.exp(min(log, 700.0)) for log in self._logs) / len(self._logs)

    def accuses(self, alpha: float) -> bool:
        """Whether it ever reached 1/alpha."""
        return self.most >= 1 / alpha
