"""The ways to compute checksums.

`fp64` is the definition. `products` tells in one call of the C of `native`, where it was built, whether every cell of a
product surely passes. Otherwise `passes` (numba, or C) reads a call once and `judge` tells which cells surely pass;
what it can't tell goes to the definition.
`batched` does the same for many small products. `weights` is what a layer's weights give to both.
"""

from veristate.numerics.kernels.batched import batched_pass
from veristate.numerics.kernels.fp64 import (
    Sums,
    all_element_sums,
    column_sums,
    element_sums,
    row_sums,
    scatter_elements,
)
from veristate.numerics.kernels.judge import (
    judge_columns,
    judge_rows,
    loud_elements,
    screen_scales,
    unsure_elements,
)
from veristate.numerics.kernels.native import Layer, Limits, Passed, Plan
from veristate.numerics.kernels.passes import (
    ACROSS_ROUNDINGS,
    ALONG_ROUNDINGS,
    Pass,
    add_by_destination,
    expanded_signs,
    sums_pass,
)
from veristate.numerics.kernels.products import ProductPass, planned, usable
from veristate.numerics.kernels.weights import read_weights

__all__ = [
    "ACROSS_ROUNDINGS",
    "ALONG_ROUNDINGS",
    "Layer",
    "Limits",
    "Pass",
    "Passed",
    "Plan",
    "ProductPass",
    "Sums",
    "add_by_destination",
    "all_element_sums",
    "batched_pass",
    "column_sums",
    "element_sums",
    "expanded_signs",
    "judge_columns",
    "judge_rows",
    "loud_elements",
    "planned",
    "read_weights",
    "row_sums",
    "scatter_elements",
    "screen_scales",
    "sums_pass",
    "unsure_elements",
    "usable",
]
