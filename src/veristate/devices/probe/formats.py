"""The number formats that are probed: which values they hold, how they are multiplied, what storage makes of a sum."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.probe.patterns import IntArray, Pattern, Widths
from veristate.devices.switches import UNSET, ProductSettings
from veristate.numerics import round_to_bf16

Layout = Literal["contiguous", "transposed", "strided", "batched", "column-major"]
FLOAT32_EXACT = 2**24
# What an FP8 unit with 13 or 14 accumulator bits still adds exactly. Source: notes on Hopper's FP8 accumulation.
FP8_EXACT = 2**13
_DENSE: tuple[Pattern, ...] = ("positive", "signed", "balanced")
_MM_LAYOUTS: tuple[Layout, ...] = ("contiguous", "transposed", "strided", "batched")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedFormat:
    """One way to multiply. A's and B's values have `left` and `right` significand bits, their sums stay below `limit`.

    The values of B are integers times 2^-shift, so that no sum overflows in storage. A format that is not `required` is
    left out, by name, where the device or the library can't multiply it.
    """

    name: str
    dtypes: tuple[torch.dtype, torch.dtype]
    dense: tuple[int, int]
    wide: tuple[int, int] | None = None
    limit: int = FLOAT32_EXACT
    shift: int = 0
    layouts: tuple[Layout, ...] = _MM_LAYOUTS
    required: bool = False

    @property
    def floating(self) -> str:
        """The name of the format's arithmetic as a contract declares it; empty where its sums can't be declared."""
        return str(self.dtypes[0]).removeprefix("torch.") if self.dtypes[0].itemsize > 1 else ""

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that are drawn; together they set and clear every significand bit of both operands."""
        return (*_DENSE, "wide-left", "wide-right") if self.wide else _DENSE

    def widths(self, pattern: Pattern) -> Widths:
        """The significand bits and the limit of one pattern."""
        left, right = self.dense
        if self.wide is not None and pattern in ("wide-left", "wide-right"):
            left, right = self.wide if pattern == "wide-left" else self.wide[::-1]
        return Widths(left=left, right=right, limit=self.limit)

    def multiply(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A B as the device multiplies this format: `mm` or `bmm`, int8 into int32, FP8 into float32."""
        if self.dtypes[0] is torch.int8:
            return torch._int_mm(A, B)
        if self.dtypes[0].itemsize == 1:
            one = torch.ones((), device=A.device)
            return torch._scaled_mm(A, B, scale_a=one, scale_b=one, out_dtype=torch.float32)
        return torch.bmm(A, B) if A.dim() == 3 else torch.mm(A, B)

    def operand(self, values: IntArray, side: Literal[0, 1]) -> torch.Tensor:
        """The integers as a host tensor of this format, B's (`side` 1) times 2^-shift. Exact."""
        if self.dtypes[side] is torch.int8:
            return torch.from_numpy(values.astype(np.int8))
        scaled = np.ldexp(values.astype(np.float32), -self.shift * side)
        return torch.from_numpy(scaled).to(self.dtypes[side])

    @property
    def stored_bits(self) -> tuple[int, int]:
        """How many significand bits of A's and of B's values are stored: all but the leading one; eight of int8."""
        if not self.dtypes[0].is_floating_point:
            return 8, 8
        left, right = (max(self.wide),) * 2 if self.wide else self.dense
        return left - 1, right - 1

    def toggled(self, values: IntArray, side: Literal[0, 1]) -> int:
        """The stored significand bits that are set in one of the values and clear in another, as a mask."""
        width = self.stored_bits[side]
        if self.dtypes[0].is_floating_point:
            fraction = np.frexp(np.abs(values[values != 0]).astype(np.float64))[0]
            bits = np.ldexp(fraction, width + 1).astype(np.int64)
        else:
            bits = values
        ever, always = int(np.bitwise_or.reduce(bits, axis=None)), int(np.bitwise_and.reduce(bits, axis=None))
        return ever & ~always & ((1 << width) - 1)

    def stored(self, product: IntArray) -> NDArray[np.float64]:
        """What an exact product becomes in storage: times 2^-shift, rounded once where the result has fewer bits."""
        exact = np.ldexp(product.astype(np.float64), -self.shift)
        if self.dtypes[0] is torch.bfloat16:
            return round_to_bf16(exact.astype(np.float32)).astype(np.float64)
        return exact.astype(np.float16).astype(np.float64) if self.dtypes[0] is torch.float16 else exact


FORMATS = (
    ProbedFormat(name="fp32", dtypes=(torch.float32,) * 2, dense=(11, 11), wide=(24, 8), required=True),
    ProbedFormat(name="bf16", dtypes=(torch.bfloat16,) * 2, dense=(8, 8), required=True),
    ProbedFormat(name="fp16", dtypes=(torch.float16,) * 2, dense=(11, 11), shift=9),
    # Seven bits of magnitude and the sign. CUDA's library takes B column by column alone, of int8 as of FP8.
    ProbedFormat(name="int8", dtypes=(torch.int8,) * 2, dense=(7, 7), layouts=("column-major",)),
    ProbedFormat(
        name="fp8-e4m3",
        dtypes=(torch.float8_e4m3fn,) * 2,
        dense=(4, 4),
        limit=FP8_EXACT,
        layouts=("column-major",),
    ),
    # No CUDA device multiplies e5m2 by e5m2.
    ProbedFormat(
        name="fp8-e5m2",
        dtypes=(torch.float8_e5m2, torch.float8_e4m3fn),
        dense=(3, 4),
        limit=FP8_EXACT,
        layouts=("column-major",),
    ),
)
_BY_NAME = {f.name: f for f in FORMATS}


def probed_format(name: str) -> ProbedFormat:
    """The probed format of that name. Raises: InputError when there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise InputError(f"no probed number format {name!r}; known: {', '.join(_BY_NAME)}") from None


def capped(settings: ProductSettings) -> bool:
    """Whether the library on a processor was told to do without some of its instructions."""
    names = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
    return any(settings.variables.get(name, UNSET).upper() not in ("UNSET", "", "ALL", "DEFAULT") for name in names)


def host_values(Y: torch.Tensor) -> NDArray[Any]:
    """The values of a result as float64 on the host; bfloat16 is widened by its bits, not by a conversion."""
    Y = Y.detach().cpu()
    if Y.dtype is torch.bfloat16:
        bits = Y.contiguous().view(torch.int16).numpy().astype(np.uint16).astype(np.uint32) << np.uint32(16)
        return np.asarray(bits.view(np.float32).astype(np.float64))
    return Y.numpy().astype(np.float64)
