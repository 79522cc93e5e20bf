"""Exact-integer probes: one operand set in several layouts, every element of every result compared, no tolerance."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, digest
from veristate.devices.declared import declared_arithmetic
from veristate.devices.probe.calls import Call, Prepared, value_text
from veristate.devices.probe.formats import Layout, ProbedFormat, capped, host_values, probed_format
from veristate.devices.probe.outcome import Probe, Toggled
from veristate.devices.probe.patterns import IntArray, IntegerOperands, Pattern, draw_operands
from veristate.devices.switches import ProductSettings
from veristate.numerics import FP32


class ExactProducts:
    """Prepares exact-integer probes for the device of `settings`. The last operands serve all of their layouts."""

    def __init__(self, settings: ProductSettings) -> None:
        self._settings = settings
        self._device = torch.device(settings.device)
        self._last: tuple[tuple[object, ...], IntegerOperands, str, Toggled] | None = None

    def prepare(self, probe: Probe) -> Prepared:
        """The calls of one probe, with operands placed on the device.

        Raises: EnvironmentUnusableError when exact sums can't be demanded, RuntimeError or MemoryError.
        """
        chosen = probed_format(probe.format)
        reason = self._inexact(chosen, probe.shape[1])
        if reason:
            raise EnvironmentUnusableError(reason)
        drawn, operands_digest, toggled = self._operands(probe, chosen)
        A, B, product = drawn.A, drawn.B, drawn.product
        layout: Layout = probe.layout  # type: ignore[assignment]
        if layout == "batched":
            A, B, product = np.stack([A, -A]), np.stack([B, B]), np.stack([product, -product])
        left = placed(chosen.operand(A, 0), layout, 0, self._device)
        right = placed(chosen.operand(B, 1), layout, 1, self._device)
        calls = _called(chosen, left, right, chosen.stored(product), probe.calls)
        return Prepared(operands_digest=operands_digest, calls=calls, toggled=toggled)

    def trial(self, chosen: ProbedFormat) -> str:
        """Why this format can't be probed here, or nothing. Running out of memory is no reason."""
        reason = self._inexact(chosen, 32)
        if reason:
            return reason
        ones = np.ones((32, 32), dtype=np.int64)
        try:
            operands = [placed(chosen.operand(ones, side), chosen.layouts[0], side, self._device) for side in (0, 1)]
            chosen.multiply(*operands).cpu()
        except torch.OutOfMemoryError:
            return ""
        except (RuntimeError, ValueError) as error:
            return str(error).strip().partition("\n")[0]
        return ""

    def _inexact(self, chosen: ProbedFormat, terms: int) -> str:
        """Why a healthy product may miss the exact sum under the present switches, or nothing."""
        if chosen.dtypes[0] is torch.int8 and self._device.type == "cpu":
            # oneDNN then adds pairs of products in 16 bits, which saturate.
            if capped(self._settings) or "avx512_vnni" not in self._settings.instructions.split():
                return "without AVX512-VNNI sums of int8 products may saturate"
            return ""
        if not chosen.floating:
            return ""
        found = declared_arithmetic(self._settings, chosen.floating, bias="none", terms=terms)
        if isinstance(found, str):
            return found
        full = found.operands.precision >= max(chosen.wide or chosen.dense) and found.accumulate is FP32
        return "" if full and not found.nodes else "products or partial sums may be rounded under the present switches"

    def _operands(self, probe: Probe, chosen: ProbedFormat) -> tuple[IntegerOperands, str, Toggled]:
        if self._last is None or self._last[0] != probe.operands:
            pattern: Pattern = probe.pattern  # type: ignore[assignment]
            M, K, N = probe.shape
            drawn = draw_operands(pattern, (M, K, N), chosen.widths(pattern), stream(probe))
            self._last = (probe.operands, drawn, _digest(drawn), _toggled(drawn, chosen))
        return self._last[1:]


def stream(probe: Probe) -> np.random.Generator:
    """The random numbers of a probe's operands: the same for all its layouts, others for every other operand set."""
    words = f"{probe.kind} {probe.format} {probe.pattern} {probe.size}"
    return np.random.default_rng([probe.seed, probe.iteration, int(digest(words.encode())[:12], 16)])


def placed(values: torch.Tensor, layout: Layout, side: int, device: torch.device) -> torch.Tensor:
    """The values on the device, laid out in memory as `layout` says; the shape stays.

    strided: A between other columns, B every other column of a wider buffer. What lies between is NaN.
    """
    if layout == "transposed" or (layout == "column-major" and side == 1):
        return values.t().contiguous().to(device).t()
    if layout != "strided":
        return values.contiguous().to(device)
    rows, columns = values.shape
    buffer = torch.full((rows + 2, 2 * columns + 3), torch.nan, dtype=values.dtype)
    inside = (slice(1, rows + 1), slice(3, columns + 3) if side == 0 else slice(1, 2 * columns, 2))
    buffer[inside] = values
    return buffer.to(device)[inside]


def _called(
    chosen: ProbedFormat, left: torch.Tensor, right: torch.Tensor, expected: NDArray[np.float64], times: int
) -> Iterator[Call]:
    for _ in range(times):
        with torch.no_grad():
            observed = host_values(chosen.multiply(left, right))
        # Not (a == b) rather than a != b: a NaN equals nothing.
        wrong = np.flatnonzero(~(observed == expected))
        yield Call(observed=observed, expected=expected, wrong=wrong, text=value_text)


def _digest(drawn: IntegerOperands) -> str:
    parts: tuple[IntArray, ...] = (drawn.A, drawn.B)
    return digest(b"".join(np.ascontiguousarray(part).astype("<i8").tobytes() for part in parts))


def _toggled(drawn: IntegerOperands, chosen: ProbedFormat) -> Toggled:
    """Read from two rows of A and two columns of B, which hold every magnitude."""
    left, right = chosen.toggled(drawn.A[:2], 0), chosen.toggled(drawn.B[:, :2], 1)
    return Toggled(format=chosen.name, widths=chosen.stored_bits, left=left, right=right)
