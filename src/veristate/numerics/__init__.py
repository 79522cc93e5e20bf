"""Float formats, rounding bounds, checksums and their kernels: arrays in, bounds and verdicts out. Pure numpy."""

from veristate.numerics.arithmetic import LinearArithmetic, bf16_arithmetic, fp32_arithmetic, fp64_arithmetic
from veristate.numerics.arrays import array_bytes, array_from, array_ref, put_array
from veristate.numerics.checksums import (
    Cells,
    LinearCheck,
    Operands,
    check_elements,
    check_linear,
    unexplained_columns,
)
from veristate.numerics.formats import BF16, FP16, FP32, FP64, TF32, Format, format_named, round_to_bf16
from veristate.numerics.signs import draw_signs

__all__ = [
    "BF16",
    "FP16",
    "FP32",
    "FP64",
    "TF32",
    "Cells",
    "Format",
    "LinearArithmetic",
    "LinearCheck",
    "Operands",
    "array_bytes",
    "array_from",
    "array_ref",
    "bf16_arithmetic",
    "check_elements",
    "check_linear",
    "draw_signs",
    "format_named",
    "fp32_arithmetic",
    "fp64_arithmetic",
    "put_array",
    "round_to_bf16",
    "unexplained_columns",
]
