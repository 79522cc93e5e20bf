"""How far two outputs of one stage lie apart, from 0 (the same) to 1, by the kind of their nondeterminism.

An output is the bytes of an artifact. Every metric is symmetric, gives 0 for equal bytes, and gives 1 for what can't be
read as the policy says: an honest rerun could not have produced it.
"""

from veristate.attest.challenge.metrics.catalogue import Embed, Metric, Weigh, metric_named
from veristate.attest.challenge.metrics.likelihood import Sampling, Weighed, surprise, surprise_distance
from veristate.attest.challenge.metrics.lists import ranking_distance, set_distance
from veristate.attest.challenge.metrics.numbers import numeric_distance
from veristate.attest.challenge.metrics.structures import structured_distance
from veristate.attest.challenge.metrics.texts import cosine_distance, token_distance

__all__ = [
    "Embed",
    "Metric",
    "Sampling",
    "Weigh",
    "Weighed",
    "cosine_distance",
    "metric_named",
    "numeric_distance",
    "ranking_distance",
    "set_distance",
    "structured_distance",
    "surprise",
    "surprise_distance",
    "token_distance",
]
