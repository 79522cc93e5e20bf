"""Sampled outputs, by how surprising a model finds them that is the recorder's own.

Whoever has the weights knows, token by token, what the sampling rule could have drawn and how often. An honest output
is a draw: its surprise has mean 0 and deviation 1 whatever the input, and it holds no token that the rule leaves out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from veristate.core import InputError

OUTSIDE = 10.0  # standard deviations that a token counts which the sampling rule leaves out
_HALF = 20.0  # the difference of surprises at which the distance is half
_SLACK = 0.01  # of the rule's limits: last bits of a probability must not put a token outside
_RESOLUTION = 0.25  # variance of a token: a text of near-certain tokens has hardly any of its own


class Weighed(Protocol):
    """One token of an output, weighed by the model before any sampling rule."""

    @property
    def likely(self) -> Sequence[float]:
        """The log-probabilities of the likeliest tokens there, descending."""
        ...

    @property
    def place(self) -> int | None:
        """Which of them the token is; None where it is none of these."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A sampling rule, in the order in which llama.cpp applies it: the `top_k` likeliest tokens, of these the fewest
    that hold `top_p`, of these the ones at least `min_p` as likely as the first, then the temperature.
    """

    temperature: float
    top_k: float = 40
    top_p: float = 0.95
    min_p: float = 0.05

    def __post_init__(self) -> None:
        """Raises: InputError for a rule that leaves nothing to draw."""
        if not (0 < self.temperature < math.inf and self.top_k >= 1 and 0 < self.top_p <= 1 and 0 <= self.min_p <= 1):
            limits = ", ".join(f"{part.name} {getattr(self, part.name)}" for part in fields(self))
            raise InputError(f"a sampling rule of {limits} draws nothing")

    def kept(self, likely: Sequence[float]) -> list[float]:
        """The log-probabilities with which the rule draws the first of the likeliest tokens, as many as it leaves."""
        first = likely[: int(self.top_k)]
        shares = _normalised([math.exp(value - first[0]) for value in first])
        held, many = 0.0, 0
        while many < len(shares) and held < self.top_p * (1 + _SLACK) and shares[many] >= self._least(shares[0]):
            held += shares[many]
            many += 1
        drawn = _normalised([share ** (1 / self.temperature) for share in shares[:many]])
        return [math.log(share) if share > 0 else -math.inf for share in drawn]

    def _least(self, first: float) -> float:
        return self.min_p * (1 - _SLACK) * first


def surprise(tokens: Sequence[Weighed], sampling: Sampling) -> float:
    """How much less likely the tokens are than those that the rule draws, in standard deviations.

    Maths: sum_t (-log q_t - H_t) / sqrt(sum_t V_t), q the rule's probabilities, H and V mean and variance of -log q
    under q: a martingale's last value, of mean 0 for whatever the rule drew. A token outside counts OUTSIDE instead.
    """
    total, variance, outside = 0.0, _RESOLUTION, 0
    for token in tokens:
        drawn = sampling.kept(token.likely)
        if token.place is None or token.place >= len(drawn):
            outside += 1
            continue
        shares = [math.exp(value) for value in drawn]
        entropy = -sum(share * value for share, value in zip(shares, drawn, strict=True) if share)
        variance += sum(share * (value + entropy) ** 2 for share, value in zip(shares, drawn, strict=True) if share)
        total += -drawn[token.place] - entropy
    return OUTSIDE * outside + total / math.sqrt(variance)


def surprise_distance(a: float, b: float) -> float:
    """|a - b| / (20 + |a - b|) of two surprises; 1 where one is not finite: what can't be weighed is no output."""
    apart = abs(a - b)
    return apart / (_HALF + apart) if math.isfinite(apart) else 1.0


def _normalised(shares: Sequence[float]) -> list[float]:
    total = math.fsum(shares)
    return [share / total for share in shares]
