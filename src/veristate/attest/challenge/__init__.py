"""Challenges: a committed step is run again, and judged by how far honest reruns lie from each other.

A false accusation has a stated probability, at any stop; what is near enough to honest outputs is not found, and every
judgement says how near that is.
"""

from veristate.attest.challenge.canaries import Canary, CheckedCanary, canaries_in, check_canaries, make_canary
from veristate.attest.challenge.challenge import Finding, Judgement, Rerun, challenge
from veristate.attest.challenge.functions import rerun_of
from veristate.attest.challenge.metrics import Embed, Metric, Sampling, Weigh, Weighed, metric_named, surprise
from veristate.attest.challenge.plan import Calibration, Plan, calibrate, design, detectable_offset
from veristate.attest.challenge.rules import matched, median_distance, spread_ratio
from veristate.attest.challenge.scores import Distances, Evidence, Spread, path_of
from veristate.attest.challenge.seeds import challenge_seed, chosen, rerun_number, rerun_seeds, tie_of
from veristate.attest.challenge.steps import (
    NO_MODELS,
    Calibrated,
    MetricModels,
    Step,
    StepRerun,
    StepWeigh,
    challenge_step,
    read_step,
)
from veristate.attest.challenge.wealth import Wealth

__all__ = [
    "NO_MODELS",
    "Calibrated",
    "Calibration",
    "Canary",
    "CheckedCanary",
    "Distances",
    "Embed",
    "Evidence",
    "Finding",
    "Judgement",
    "Metric",
    "MetricModels",
    "Plan",
    "Rerun",
    "Sampling",
    "Spread",
    "Step",
    "StepRerun",
    "StepWeigh",
    "Wealth",
    "Weigh",
    "Weighed",
    "calibrate",
    "canaries_in",
    "challenge",
    "challenge_seed",
    "challenge_step",
    "check_canaries",
    "chosen",
    "design",
    "detectable_offset",
    "make_canary",
    "matched",
    "median_distance",
    "metric_named",
    "path_of",
    "read_step",
    "rerun_number",
    "rerun_of",
    "rerun_seeds",
    "spread_ratio",
    "surprise",
    "tie_of",
]
