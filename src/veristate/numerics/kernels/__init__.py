"""The ways to compute checksums.

`fp64` is the definition. `passes` (numba, or the C of `native` where it was built) reads a call once and `judge` tells
which cells surely pass; what it can't tell goes to the definition.
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
    judge_sums,
    loud_elements,
    screen_scales,
    unsure_elements,
)
from veristate.numerics.kernels.passes import ACROSS_ROUNDINGS, ALONG_ROUNDINGS, Pass, add_by_destination
from veristate.numerics.kernels.weights import row_norms, weight_sizes, weight_sums

__all__ = [
    "ACROSS_ROUNDINGS",
    "ALONG_ROUNDINGS",
    "Pass",
    "Sums",
    "add_by_destination",
    "all_element_sums",
    "batched_pass",
    "column_sums",
    "element_sums",
    "judge_columns",
    "judge_rows",
    "judge_sums",
    "loud_elements",
    "row_norms",
    "row_sums",
    "scatter_elements",
    "screen_scales",
    "unsure_elements",
    "weight_sizes",
    "weight_sums",
]
