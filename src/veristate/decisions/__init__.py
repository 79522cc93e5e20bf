"""Decisions: rules over scores, margins, admissible sets, certificates and the rounds that reach them.

Pure values: arrays in, decisions out. What recomputes a score is passed in.
"""

from veristate.decisions.admissible import Box, Certified, Unresolved, certify, nearest_gap_certificate
from veristate.decisions.calibration import calibrated, ensemble_interval, ensemble_mean
from veristate.decisions.policies import (
    Policy,
    Stage,
    disagreement_choice,
    epsilon_from_residuals,
    full,
    near_boundary,
    r1,
    r1_then,
    r1m,
    random_choice,
)
from veristate.decisions.question import Current, Question, score_box
from veristate.decisions.rounds import Outcome, Recompute, Recomputed, Round, run_rounds
from veristate.decisions.rules import decide, distance, margins, validate_rule
from veristate.decisions.scale import (
    IntervalEnd,
    ThresholdCertificate,
    TopKCertificate,
    certify_threshold,
    certify_threshold_between,
    certify_top_k,
    certify_top_k_between,
)
from veristate.decisions.table import PROBABILITY, ScoreRange, equal_inputs

__all__ = [
    "PROBABILITY",
    "Box",
    "Certified",
    "Current",
    "IntervalEnd",
    "Outcome",
    "Policy",
    "Question",
    "Recompute",
    "Recomputed",
    "Round",
    "ScoreRange",
    "Stage",
    "ThresholdCertificate",
    "TopKCertificate",
    "Unresolved",
    "calibrated",
    "certify",
    "certify_threshold",
    "certify_threshold_between",
    "certify_top_k",
    "certify_top_k_between",
    "decide",
    "disagreement_choice",
    "distance",
    "ensemble_interval",
    "ensemble_mean",
    "epsilon_from_residuals",
    "equal_inputs",
    "full",
    "margins",
    "near_boundary",
    "nearest_gap_certificate",
    "r1",
    "r1_then",
    "r1m",
    "random_choice",
    "run_rounds",
    "score_box",
    "validate_rule",
]
