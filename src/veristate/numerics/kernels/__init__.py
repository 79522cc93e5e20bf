"""The ways to compute checksums. `fp64` is the definition; a faster one stands beside it and gives the same flags."""

from veristate.numerics.kernels.fp64 import Sums, Weights, column_sums, element_sums, row_sums

__all__ = ["Sums", "Weights", "column_sums", "element_sums", "row_sums"]
