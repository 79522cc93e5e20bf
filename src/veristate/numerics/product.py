"""Checking a matrix product that is at hand as arrays."""

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.arithmetic import LinearArithmetic, fp16_arithmetic, fp32_arithmetic, fp64_arithmetic
from veristate.numerics.checksums import BLOCK, LinearCheck
from veristate.numerics.guard import Guard
from veristate.numerics.operands import Operands, Weights

_BY_DTYPE = {
    np.dtype(np.float64): fp64_arithmetic,
    np.dtype(np.float32): fp32_arithmetic,
    np.dtype(np.float16): fp16_arithmetic,
}


def check_product(
    A: NDArray[Any],
    B: NDArray[Any],
    Y: NDArray[Any],
    bias: NDArray[Any] | None = None,
    *,
    arithmetic: LinearArithmetic | None = None,
    block: int | None = BLOCK,
    draws: int = 1,
    seed: bytes | None = None,
) -> LinearCheck:
    """The check of Y = A B + bias: `.verdict()`, `.rows`, `.columns`, and in `.elements` what was found one by one.

    `arithmetic` says how a healthy machine computed it; without one, that of Y's format with sums in float32 or wider
    and subnormals that may be flushed. `seed` repeats a check; without one it is drawn here, after Y exists.
    Shapes: A [M, K], B [K, N], Y [M, N], bias [N]. Dtypes: float16, float32, float64; for bfloat16 held in float32 give
    `bf16_arithmetic`.
    Raises: InputError when shapes or formats don't fit.
    """
    if A.ndim != 2 or B.ndim != 2:
        raise InputError(f"a product needs matrices, got {A.shape} and {B.shape}")
    if arithmetic is None:
        make = _BY_DTYPE.get(Y.dtype)
        if make is None:
            raise InputError(f"no arithmetic is known for outputs of {Y.dtype}: give one, or float16, float32, float64")
        arithmetic = make(bias=bias is not None, flush=True)
    call = Operands.of(A, Weights.of(B.T, bias), None, Y)
    return Guard().check(call, arithmetic, block=block, seed=seed or secrets.token_bytes(16), draws=draws)
