"""Float formats, rounding bounds, checksums and their kernels: arrays in, bounds and verdicts out. Pure numpy."""

from veristate.numerics.arithmetic import (
    Bias,
    LinearArithmetic,
    bf16_arithmetic,
    fp16_arithmetic,
    fp32_arithmetic,
    fp64_arithmetic,
    narrowed_arithmetic,
    segmented_arithmetic,
)
from veristate.numerics.arrays import array_bytes, array_from, array_ref, put_array
from veristate.numerics.checksums import (
    BLOCK,
    MOST_DRAWS,
    Cells,
    Elements,
    LinearCheck,
    Marks,
    check_elements,
    check_linear,
    unexplained_columns,
)
from veristate.numerics.exhaustive import wrong_elements
from veristate.numerics.formats import BF16, FP16, FP32, FP64, TF32, Format, format_named, round_to_bf16
from veristate.numerics.guard import Guard
from veristate.numerics.kernels.selection import Largest, floor_estimate, outward
from veristate.numerics.operands import Operands, Stored, Weights
from veristate.numerics.product import check_product
from veristate.numerics.scatter import Memory, ScatterCheck, check_scatter_sum
from veristate.numerics.screen import Screen
from veristate.numerics.segments import SegmentedSum
from veristate.numerics.signs import draw_signs
from veristate.numerics.storage import (
    REPRESENTATIONS,
    Representation,
    from_storage_bits,
    held_dtype,
    is_stored,
    storage_bits,
    stored,
)

__all__ = [
    "BF16",
    "BLOCK",
    "FP16",
    "FP32",
    "FP64",
    "MOST_DRAWS",
    "REPRESENTATIONS",
    "TF32",
    "Bias",
    "Cells",
    "Elements",
    "Format",
    "Guard",
    "Largest",
    "LinearArithmetic",
    "LinearCheck",
    "Marks",
    "Memory",
    "Operands",
    "Representation",
    "ScatterCheck",
    "Screen",
    "SegmentedSum",
    "Stored",
    "Weights",
    "array_bytes",
    "array_from",
    "array_ref",
    "bf16_arithmetic",
    "check_elements",
    "check_linear",
    "check_product",
    "check_scatter_sum",
    "draw_signs",
    "floor_estimate",
    "format_named",
    "fp16_arithmetic",
    "fp32_arithmetic",
    "fp64_arithmetic",
    "from_storage_bits",
    "held_dtype",
    "is_stored",
    "narrowed_arithmetic",
    "outward",
    "put_array",
    "round_to_bf16",
    "segmented_arithmetic",
    "storage_bits",
    "stored",
    "unexplained_columns",
    "wrong_elements",
]
