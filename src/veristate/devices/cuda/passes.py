"""The passes over one call, launched where its operands are: sums of X and Y, block products, judgement.

Nothing is read back, so a pass never waits for the device. Beside two matrix products a call costs four launches and
one small sum; X and Y are read once each.
"""

from dataclasses import dataclass
from types import ModuleType

import torch

from veristate.core import EnvironmentUnusableError
from veristate.devices.cuda.coefficients import BLOCK
from veristate.devices.cuda.verdicts import CellBits
from veristate.devices.cuda.weights import CudaWeights

# Columns that one program adds, and how many at a time: one warp's lanes, each with the block's rows in registers.
TILE, STEP = 256, 32
# Rows or columns that one program judges, and tiles it loads at a time.
CELLS, TILES = 128, 16
# Said outright, since the default is changing in Triton: the bounds hold with fused multiply-adds and without.
OPTIONS = {"enable_fp_fusion": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSums:
    """Sums over a matrix's tiles of 32 rows and `TILE` columns.

    Shapes: by_row [2, tiles, M], sums then absolute sums of every row within a tile; signed [draws, blocks, columns]
    and absolute [blocks, columns], sums of every column within a block of rows. Dtypes: float64.
    """

    by_row: torch.Tensor
    signed: torch.Tensor
    absolute: torch.Tensor


def load_kernels(device: torch.device) -> ModuleType:
    """The kernels, for tensors on `device`. Raises: EnvironmentUnusableError where they can't run."""
    try:
        from veristate.devices.cuda import kernels
    except ImportError as error:
        raise EnvironmentUnusableError(
            f"the CUDA guard needs Triton ({error}): install a CUDA build of torch, which brings it, or triton itself"
        ) from error
    if device.type != "cuda" and not kernels.INTERPRETED:
        raise EnvironmentUnusableError(
            f"the CUDA guard was given tensors on {device}: move them to a CUDA device, or, for tests, set "
            "TRITON_INTERPRET=1 before Triton is first imported"
        )
    return kernels


def sum_tiles(
    values: torch.Tensor, signs: torch.Tensor, weights: tuple[torch.Tensor, torch.Tensor] | None = None
) -> TileSums:
    """The tile sums of `values`. With `weights`, a row's terms are multiplied by the first, their absolute values by
    the second.

    Shapes: values [M, columns], its rows any distance apart; signs [draws, M]; weights [columns] each.
    Dtypes: values float32, bfloat16 or float16, signs any, weights float64.
    """
    rows, columns = values.shape
    if values.stride(1) != 1 and columns > 1:
        values = values.contiguous()
    tiles, blocks = -(-columns // TILE), -(-rows // BLOCK)
    sums = TileSums(
        by_row=torch.empty(2, tiles, rows, dtype=torch.float64, device=values.device),
        signed=torch.empty(len(signs), blocks, columns, dtype=torch.float64, device=values.device),
        absolute=torch.empty(blocks, columns, dtype=torch.float64, device=values.device),
    )
    if rows and columns:
        vectors = weights or (sums.absolute, sums.absolute)  # not read when there are none
        load_kernels(values.device).sum_tiles[(blocks * tiles,)](
            values,
            values.stride(0),
            signs,
            *vectors,
            sums.by_row,
            sums.signed,
            sums.absolute,
            rows,
            columns,
            WEIGHTED=weights is not None,
            DRAWS=len(signs),
            TILE=TILE,
            STEP=STEP,
            num_warps=1,
            **OPTIONS,
        )
    return sums


def block_products(sums: TileSums, weights: CudaWeights) -> tuple[torch.Tensor, torch.Tensor]:
    """(sum_I t_i x_i) . w_j under every draw, and sum_I |x_i| . |w_j|. Shapes: [draws, blocks, N], [blocks, N].

    `sums` are those of X. The products are rounded in the weights' format, whatever autocast says.
    """
    draws, blocks, terms = sums.signed.shape
    with torch.autocast(device_type=sums.signed.device.type, enabled=False):
        expected = sums.signed.reshape(draws * blocks, terms).to(weights.W.dtype) @ weights.W.T
        products = sums.absolute.to(weights.W.dtype) @ weights.W_absolute.T
    return expected.reshape(draws, blocks, len(weights.W)), products


def judge(
    outputs: TileSums,
    inputs: TileSums,
    signs: torch.Tensor,
    weights: CudaWeights,
    coefficients: torch.Tensor,
    bits: CellBits,
    count: torch.Tensor,
) -> None:
    """Writes the undecided cells of a call to `bits` and their number to `count`.

    `outputs` and `inputs` are the sums of Y and X. Shapes: signs [draws, M]; coefficients [2, 5], rows' then columns';
    count []. Dtypes: coefficients float64, count int64.
    """
    kernels = load_kernels(signs.device)
    draws, blocks, N = outputs.signed.shape
    M = signs.shape[1]
    row_programs, column_programs = -(-M // CELLS), blocks * -(-N // CELLS)
    partial = torch.empty(row_programs + column_programs, dtype=torch.int32, device=signs.device)
    kernels.judge_rows[(row_programs,)](
        outputs.by_row,
        outputs.by_row.shape[1],
        inputs.by_row,
        inputs.by_row.shape[1],
        weights.bias_sums,
        coefficients[0],
        bits.rows,
        partial,
        M,
        N,
        CELLS=CELLS,
        TILES=TILES,
        **OPTIONS,
    )
    expected, products = block_products(inputs, weights)
    kernels.judge_columns[(column_programs,)](
        outputs.signed,
        outputs.absolute,
        expected,
        products,
        signs,
        weights.bias,
        coefficients[1],
        bits.columns,
        partial[row_programs:],
        M,
        N,
        DRAWS=draws,
        CELLS=CELLS,
        **OPTIONS,
    )
    torch.sum(partial, dim=0, dtype=torch.int64, out=count)
