"""Recovery: which values bring the reference's endpoint back, in which order they are found, and at what cost."""

from veristate.audit.recovery.bidirectional import Prefixes, scan_prefixes, strict_partial_recovery
from veristate.audit.recovery.blocks import Blocks, Pair
from veristate.audit.recovery.budgets import (
    Curve,
    Judgement,
    Step,
    area,
    doubling_budgets,
    judge,
    recovery_curve,
)
from veristate.audit.recovery.costs import Cost, decision_cost, effective_blocks, state_cost
from veristate.audit.recovery.exposures import Exposure, exposure
from veristate.audit.recovery.magnitudes import mean_displacement, one_score_per_row
from veristate.audit.recovery.minimal import Minimal, minimal_sets, reduce_set
from veristate.audit.recovery.priorities import (
    RANDOM_ORDERS,
    Priority,
    boundary_margin,
    co_occurrence,
    decision_sensitivity,
    difference_energy,
    joint_gain,
    output_displacement,
    random_orders,
    relative_displacement,
    sensitivity,
)
from veristate.audit.recovery.recombination import constructed_states, new_endpoints, recombine
from veristate.audit.recovery.replays import ArrayEndpoint, Replays, RowReplays, WholeReplays, replays
from veristate.audit.recovery.rows import AtLeast, RowEndpoint, TopK
from veristate.audit.recovery.subsets import MOST_EXACT

__all__ = [
    "MOST_EXACT",
    "RANDOM_ORDERS",
    "ArrayEndpoint",
    "AtLeast",
    "Blocks",
    "Cost",
    "Curve",
    "Exposure",
    "Judgement",
    "Minimal",
    "Pair",
    "Prefixes",
    "Priority",
    "Replays",
    "RowEndpoint",
    "RowReplays",
    "Step",
    "TopK",
    "WholeReplays",
    "area",
    "boundary_margin",
    "co_occurrence",
    "constructed_states",
    "decision_cost",
    "decision_sensitivity",
    "difference_energy",
    "doubling_budgets",
    "effective_blocks",
    "exposure",
    "joint_gain",
    "judge",
    "mean_displacement",
    "minimal_sets",
    "new_endpoints",
    "one_score_per_row",
    "output_displacement",
    "random_orders",
    "recombine",
    "recovery_curve",
    "reduce_set",
    "relative_displacement",
    "replays",
    "scan_prefixes",
    "sensitivity",
    "state_cost",
    "strict_partial_recovery",
]
