"""Sampled outputs, by how surprising a model finds them that is the recorder's own.

Whoever has the weights knows, token by token, what the sampling rule could have drawn and how often. An honest output
is a draw: its surprise has mean 0 and a deviation of at most 1 whatever the input, and no token of it is one that the
rule leaves out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

from veristate.core import InputError

OUTSIDE = 10.0  # standard deviations that a token counts which the sampling rule leaves out
_HALF = 20.0  # the difference of surprises at which the distance is half
_RESOLUTION = 0.25  # variance, beside an output's own: one of near-certain tokens has hardly any
# A token counts as outside only where a rule with limits this much wider would leave it out too: the recorder's
# probabilities are the challenger's but for how their passes were batched, which moved ratios of four-bit weights by
# up to 1.9 (docs/decisions, 31).
_WIDER, _MORE = 2.0, 1.5
_COLDEST = 0.001  # a temperature: below it one token is all there is to draw


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
        if not (
            _COLDEST <= self.temperature < math.inf and self.top_k >= 1 and 0 < self.top_p <= 1 and 0 <= self.min_p <= 1
        ):
            limits = ", ".join(f"{part.name} {getattr(self, part.name)}" for part in fields(self))
            raise InputError(f"a sampling rule of {limits} draws nothing")

    def kept(self, likely: Sequence[float]) -> int:
        """How many of the likeliest tokens the rule leaves, by their log-probabilities, descending."""
        shares = [math.exp(value - likely[0]) for value in likely[: int(self.top_k)]]
        needed = self.top_p * math.fsum(shares) if self.top_p < 1 else math.inf
        held, many = 0.0, 0
        while many < len(shares) and held < needed and shares[many] >= self.min_p and shares[many] > 0:
            held += shares[many]
            many += 1
        return many

    @property
    def wider(self) -> "Sampling":
        """The rule with wider limits: what lies beyond these was not drawn in any arithmetic."""
        return replace(self, top_k=self.top_k * _MORE, top_p=1 - (1 - self.top_p) / _WIDER, min_p=self.min_p / _WIDER)


def surprise(tokens: Sequence[Weighed], sampling: Sampling) -> float:
    """How much less likely the tokens are than those that the rule draws, in standard deviations.

    Maths: sum_t (-log q_t - H_t) / sqrt(1/4 + sum_t V_t), q the rule's probabilities, H and V mean and variance of
    -log q under q: a martingale's last value, of mean 0 for whatever the rule drew. A token outside counts OUTSIDE
    instead. `likely` must hold half as many again as top_k, where the model has so many tokens.
    """
    total, variance, outside, wider = 0.0, _RESOLUTION, 0, sampling.wider
    for token in tokens:
        if token.place is None or token.place >= wider.kept(token.likely):
            outside += 1
            continue
        weights = [value / sampling.temperature for value in token.likely[: sampling.kept(token.likely)]]
        whole = weights[0] + math.log(math.fsum(math.exp(weight - weights[0]) for weight in weights))
        drawn = [(math.exp(weight - whole), whole - weight) for weight in weights]
        entropy = math.fsum(share * surprised for share, surprised in drawn)
        variance += math.fsum(share * (surprised - entropy) ** 2 for share, surprised in drawn)
        total += whole - token.likely[token.place] / sampling.temperature - entropy
    return OUTSIDE * outside + total / math.sqrt(variance)


def surprise_distance(a: float, b: float) -> float:
    """|a - b| / (20 + |a - b|) of two surprises; 1 where one is not finite: what can't be weighed is no output."""
    apart = abs(a - b)
    return apart / (_HALF + apart) if math.isfinite(apart) else 1.0
