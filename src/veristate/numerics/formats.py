"""Number formats: how far rounding to one can move a value, where it underflows and where it ends."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A binary floating-point format: `precision` significand bits (the hidden one counted), `exponent_min` of the
    smallest normal number, `largest` finite value.
    """

    name: str
    precision: int
    exponent_min: int
    largest: float

    @property
    def u(self) -> float:
        """Unit roundoff of rounding to nearest: 2^-precision. For bf16 that is 2^-8."""
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.exponent_min

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number of all."""
        return 2.0 ** (self.exponent_min - self.precision + 1)

    def eta(self, *, flush: bool) -> float:
        """The absolute error that underflow can add to one rounding: half the smallest subnormal, or the smallest
        normal number where subnormals are flushed to zero.
        """
        return self.smallest_normal if flush else self.smallest_subnormal / 2 or self.smallest_subnormal


FP64 = Format(name="fp64", precision=53, exponent_min=-1022, largest=float(np.finfo(np.float64).max))
FP32 = Format(name="fp32", precision=24, exponent_min=-126, largest=float(np.finfo(np.float32).max))
TF32 = Format(name="tf32", precision=11, exponent_min=-126, largest=(2.0 - 2.0**-10) * 2.0**127)
BF16 = Format(name="bf16", precision=8, exponent_min=-126, largest=(2.0 - 2.0**-7) * 2.0**127)
FP16 = Format(name="fp16", precision=11, exponent_min=-14, largest=65504.0)

_BY_NAME = {f.name: f for f in (FP64, FP32, TF32, BF16, FP16)}


def format_named(name: str) -> Format:
    """The format of that name. Raises: InputError when there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise InputError(f"no number format {name!r}; known: {', '.join(_BY_NAME)}") from None


def round_to_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """`values` rounded to bfloat16, ties to even, held in float32. NaN stays NaN; what is too large becomes infinite.

    Shapes: any, kept. Dtypes: float32 to float32.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    # The carry of a NaN's low bits could walk into the sign; a NaN is kept as one.
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32).reshape(np.shape(values)))
