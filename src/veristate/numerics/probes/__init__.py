"""Probes: bounds on what a suspect device exported, with a stated failure probability, and what they mean for a score.

Pure numpy: arrays in, bounds out. Secret bytes are passed in. The definitions, in this order: a plan fixes delta, T and
the number of draws; an export is fixed; an account draws probes for it; rows are checked; radii are carried on.
"""

from veristate.numerics.probes.chain import (
    Dense,
    Layer,
    Pool,
    Pull,
    Seen,
    Standing,
    chain_values,
    forward,
    pull_back,
    reach,
    sigmoid_interval,
    softmax_interval,
)
from veristate.numerics.probes.classes import equal_rows, row_hashes
from veristate.numerics.probes.draws import Export, ProbeAccount, ProbePlan, Probes
from veristate.numerics.probes.integers import accumulator_limit, check_integers, words_needed
from veristate.numerics.probes.quantile import chi2_cdf_upper, chi2_quantile_lower
from veristate.numerics.probes.rounded import (
    nearest,
    products_exact,
    rounded,
    rounded_layer,
    rounded_sigmoid,
    rounded_sums,
    settled,
)
from veristate.numerics.probes.rounding import gamma_upper, raised
from veristate.numerics.probes.rows import RowErrors, RowMap, Term, check_rows, projected
from veristate.numerics.probes.spectral import row_norms_upper, spectral_norm_upper
from veristate.numerics.probes.sums import (
    gathered,
    masked_reach,
    pass_stable,
    rectified_segments,
    rectified_sums,
)

__all__ = [
    "Dense",
    "Export",
    "Layer",
    "Pool",
    "ProbeAccount",
    "ProbePlan",
    "Probes",
    "Pull",
    "RowErrors",
    "RowMap",
    "Seen",
    "Standing",
    "Term",
    "accumulator_limit",
    "chain_values",
    "check_integers",
    "check_rows",
    "chi2_cdf_upper",
    "chi2_quantile_lower",
    "equal_rows",
    "forward",
    "gamma_upper",
    "gathered",
    "masked_reach",
    "nearest",
    "pass_stable",
    "products_exact",
    "projected",
    "pull_back",
    "raised",
    "reach",
    "rectified_segments",
    "rectified_sums",
    "rounded",
    "rounded_layer",
    "rounded_sigmoid",
    "rounded_sums",
    "row_hashes",
    "row_norms_upper",
    "settled",
    "sigmoid_interval",
    "softmax_interval",
    "spectral_norm_upper",
    "words_needed",
]
