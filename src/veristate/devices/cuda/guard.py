"""The guard on a CUDA device: which calls of a forward pass provably pass, and which the definition must judge."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError
from veristate.devices.cuda.coefficients import BLOCK, Coefficients
from veristate.devices.cuda.passes import judge, load_kernels, sum_tiles
from veristate.devices.cuda.verdicts import CellBits, Counts, Undecided
from veristate.devices.cuda.weights import READ, CudaWeights
from veristate.devices.settings import full_float32_products

Signs = torch.Tensor | NDArray[Any]


class CudaGuard:
    """Checks calls Y = X W^T + b as they are made and answers once for all of them.

    It only ever says "provably passes": every cell that is not clear is left to the float64 definition, so that flags
    are the definition's alone. It runs on the device it watches, so what it passes is *self-checked*.
    Raises: EnvironmentUnusableError where its kernels can't run.
    """

    def __init__(self, device: torch.device | str, *, calls: int = 512) -> None:
        """`calls` is how many calls there is room for before more is taken."""
        wanted = torch.device(device)
        load_kernels(wanted)
        if wanted.type == "cuda" and not torch.cuda.is_available():
            raise EnvironmentUnusableError(f"the CUDA guard was asked for on {wanted}: torch sees no CUDA device here")
        # Named in full, since tensors name theirs so.
        self._device = torch.empty(0, device=wanted).device
        self._counts = Counts(self._device, calls)
        self._bits: list[CellBits] = []
        self._uploaded: dict[Coefficients, torch.Tensor] = {}

    def check(
        self, X: torch.Tensor, Y: torch.Tensor, weights: CudaWeights, coefficients: Coefficients, signs: Signs
    ) -> int:
        """The number of this call since the last answer. Nothing is waited for, and X and Y are not kept.

        X and Y are given as they were multiplied and stored (under autocast: X rounded to bfloat16). `signs` are drawn
        after Y exists, one row of +1 and -1 a draw.
        Shapes: X [M, K], Y [M, N], signs [M] or [draws, M]. Dtypes: X and Y any of `READ`, signs any.
        Raises: InputError when they don't fit; EnvironmentUnusableError when float32 products may be narrower.
        """
        X, Y = X.detach(), Y.detach()
        self._require_fit(X, Y, weights, coefficients)
        # A device of many is made the current one for the launches; a processor is left as it is.
        with torch.inference_mode(), torch.cuda.device(Y.get_device()):
            drawn = _drawn(signs, len(Y), self._device)
            bits = CellBits.empty(*Y.shape, draws=len(drawn), blocks=-(-len(Y) // BLOCK), device=self._device)
            self._bits.append(bits)
            count = self._counts.slot()
            if Y.numel():
                inputs = sum_tiles(X, drawn, (weights.row_sum, weights.row_absolute))
                judge(sum_tiles(Y, drawn), inputs, drawn, weights, self._upload(coefficients), bits, count)
        return len(self._bits) - 1

    def undecided(self) -> list[Undecided]:
        """The calls since the last answer that the definition must judge, in order: one read from the device.

        Empty when all of them provably pass, and when there were none.
        """
        calls, self._bits = self._bits, []
        return [
            Undecided(call=call, count=None if count < 0 else count, bits=bits)
            for call, (count, bits) in enumerate(zip(self._counts.read(), calls, strict=True))
            if count
        ]

    def _require_fit(self, X: torch.Tensor, Y: torch.Tensor, weights: CudaWeights, coefficients: Coefficients) -> None:
        N, K = weights.W.shape
        if X.ndim != 2 or X.shape[1] != K or Y.shape != (len(X), N):
            raise InputError(f"Y = X W^T + b needs [M, {K}] and [M, {N}]; got {X.shape} and {Y.shape}")
        if X.dtype not in READ or Y.dtype not in READ:
            raise InputError(f"the guard reads {READ}, not {X.dtype} and {Y.dtype}")
        if coefficients.products != weights.products:
            raise InputError(f"coefficients of {coefficients.products} products, weights for {weights.products} ones")
        if not X.device == Y.device == weights.W.device == self._device:
            raise InputError(f"X, Y and W lie on {X.device}, {Y.device}, {weights.W.device}, not on {self._device}")
        if weights.products == "float32" and not full_float32_products():
            raise EnvironmentUnusableError(
                'float32 products may be computed in a narrower format: torch.set_float32_matmul_precision("highest")'
            )

    def _upload(self, coefficients: Coefficients) -> torch.Tensor:
        """The coefficients on the device, sent once. As arguments of a kernel they would be rounded to float32."""
        if coefficients not in self._uploaded:
            numbers = (coefficients.rows.numbers(), coefficients.columns.numbers())
            self._uploaded[coefficients] = torch.tensor(numbers, dtype=torch.float64).to(
                self._device, non_blocking=True
            )
        return self._uploaded[coefficients]


def _drawn(signs: Signs, rows: int, device: torch.device) -> torch.Tensor:
    """The signs as [draws, rows] on the device. Raises: InputError when they don't fit, or are seen not to be signs."""
    if isinstance(signs, np.ndarray) or signs.device.type == "cpu":
        given = np.asarray(signs)
        if not np.all(np.abs(given) == 1):
            raise InputError("signs are +1 and -1: every bound of the guard rests on it")
        signs = torch.from_numpy(given.astype(np.int8))
    drawn = signs[None] if signs.ndim == 1 else signs
    if drawn.ndim != 2 or drawn.shape[1] != rows or not len(drawn):
        raise InputError(f"signs [{rows}] or [draws, {rows}] are needed; got {tuple(signs.shape)}")
    return drawn.contiguous().to(device, non_blocking=True)
