"""Certificates at scale: Top-K and threshold over 10^8 intervals, in one pass and little memory.

The rules, the ties and the admissible sets are those of `certify`; a table of candidates isn't built.
"""

from veristate.decisions.scale.boundary import IntervalEnd
from veristate.decisions.scale.threshold import ThresholdCertificate, certify_threshold, certify_threshold_between
from veristate.decisions.scale.top_k import TopKCertificate, certify_top_k, certify_top_k_between

__all__ = [
    "IntervalEnd",
    "ThresholdCertificate",
    "TopKCertificate",
    "certify_threshold",
    "certify_threshold_between",
    "certify_top_k",
    "certify_top_k_between",
]
