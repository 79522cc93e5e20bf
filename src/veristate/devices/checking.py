"""Checking captured calls against the checker's own weights, and telling which units a flag belongs to."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import Verdict, decimal_string
from veristate.devices.declared import declared_arithmetic
from veristate.devices.findings import CallFinding
from veristate.devices.granularity import Granularity
from veristate.devices.predictors import Predictor
from veristate.devices.settings import full_float32_products
from veristate.devices.switches import ProductSettings
from veristate.devices.watch import linear_layers
from veristate.numerics import (
    Bias,
    Elements,
    Guard,
    LinearArithmetic,
    LinearCheck,
    Operands,
    Weights,
    round_to_bf16,
    unexplained_columns,
    wrong_elements,
)

ArrayDtype = Literal["float32", "bfloat16", "float64"]
# Flagged rows, and the rows of one block, are kept as evidence up to this many; the finding still names them all.
EVIDENCE_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A call's saved values at its site. bfloat16 arrays are held in float32, which they fit exactly."""

    member: int
    batch: int
    layer: str
    ordinal: int
    X: NDArray[Any]
    Y: NDArray[Any]
    storage: ArrayDtype


class Checker:
    """Checks captures of one predictor's calls. Weights come from the checker's own copy, never from the capture."""

    def __init__(self, predictor: Predictor, *, settings: ProductSettings, granularity: Granularity) -> None:
        """`settings` are those of the process that made the calls."""
        self._predictor = predictor
        self._settings = settings
        self._block, self._draws = granularity.block, granularity.draws
        self._weights: dict[tuple[int, str, ArrayDtype], Weights] = {}
        # A device proven wrong once is not trusted with what sums can't see: from then on every element is looked at.
        self._proven = False
        # Torch's product is the faster one, and in float32 only where no switch of this process narrows it.
        self._full_float32 = full_float32_products()
        self._guard = Guard(product=float32_product) if self._full_float32 else Guard()

    def check(self, capture: Capture, seed: bytes) -> CallFinding:
        """The finding of one call; `seed` must have been drawn after the capture existed."""
        weights = self._represented_weights(capture)
        reason = self._unknown_path(capture, weights.W)
        arithmetic = reason or self._arithmetic(capture, weights.biased)
        if isinstance(arithmetic, str):
            return replace(self._finding(capture, weights, Verdict.INAPPLICABLE, seed), reason=arithmetic)
        X = round_to_bf16(capture.X) if capture.storage == "bfloat16" else capture.X
        call = Operands.of(X, weights, None, capture.Y)
        check = self._guard.check(call, arithmetic, block=self._block, seed=seed, draws=self._draws)
        if self._proven or check.verdict() is Verdict.FLAG:
            self._proven = True
            check = replace(check, elements=_with_all_wrong(check.elements, self._wrong(call, arithmetic)))
        verdict = check.verdict()
        if verdict is Verdict.PASS and not len(check.elements.rows):
            return self._finding(capture, weights, verdict, seed, check)
        return self._attributed(capture, call, arithmetic, check, seed)

    def _wrong(self, call: Operands, arithmetic: LinearArithmetic) -> Elements:
        narrow = self._full_float32 and call.X.dtype == call.weights.W.dtype == np.float32
        return wrong_elements(call, arithmetic, float32_product) if narrow else wrong_elements(call, arithmetic)

    def _attributed(
        self, capture: Capture, call: Operands, arithmetic: LinearArithmetic, check: LinearCheck, seed: bytes
    ) -> CallFinding:
        """The finding of a call that did not pass, or was suspected: its rows' units, and every unit of a block with a
        column that the flagged units' rows don't explain. A cell that could not be judged marks its units too.
        """
        M = len(capture.X)
        owners = self._predictor.rows(capture.batch, M)
        doubtful = located_rows(check) | check.rows.inapplicable
        explained = np.zeros(M, dtype=bool) if owners is None else np.isin(owners, owners[doubtful])
        left = unexplained_columns(call, arithmetic, check, explained) | check.columns.inapplicable.any(axis=0)
        touched = self._rows_of_blocks(np.asarray(left.any(axis=1)), M)
        suspected = np.zeros(M, dtype=bool)
        suspected[check.elements.rows[~check.elements.proven]] = True
        verdict = check.verdict()
        finding = self._finding(capture, call.weights, verdict, seed, check)
        everyone = tuple(self._predictor.batches[capture.batch])
        units = everyone if owners is None and verdict is not Verdict.PASS else _owned(owners, doubtful | touched)
        inapplicable = "healthy arithmetic may overflow, or an operand is not finite"
        return replace(
            finding,
            reason=inapplicable if verdict is Verdict.INAPPLICABLE else "",
            unexplained=int(left.sum()),
            units=units,
            suspects=everyone if owners is None and suspected.any() else _owned(owners, suspected),
            arithmetic=arithmetic.describe(),
            evidence=self._evidence(located_rows(check) | suspected, np.asarray(left.any(axis=1))),
        )

    def _evidence(self, flagged: NDArray[np.bool_], blocks: NDArray[np.bool_]) -> tuple[int, ...]:
        """The rows to keep: flagged ones, and the whole of the first block whose columns they don't explain."""
        first = np.zeros_like(blocks)
        first[np.flatnonzero(blocks)[:1]] = True
        block = np.flatnonzero(self._rows_of_blocks(first, len(flagged)))[:EVIDENCE_ROWS]
        return tuple(map(int, np.union1d(np.flatnonzero(flagged)[:EVIDENCE_ROWS], block)))

    def _rows_of_blocks(self, blocks: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
        """[rows], those that lie in the marked blocks."""
        step = min(self._block or rows, rows)
        return np.asarray(np.repeat(blocks, step)[:rows])

    def _represented_weights(self, capture: Capture) -> Weights:
        """W and b of the layer as they are multiplied: rounded to bf16 where the output is."""
        key = (capture.member, capture.layer, capture.storage)
        if key not in self._weights:
            layer = linear_layers(self._predictor.models[capture.member])[capture.layer]
            W, b = _array(layer.weight), None if layer.bias is None else _array(layer.bias)
            if capture.storage == "bfloat16":
                W, b = round_to_bf16(W), None if b is None else round_to_bf16(b)
            self._weights[key] = Weights.of(W, b)
        return self._weights[key]

    def _unknown_path(self, capture: Capture, W: NDArray[Any]) -> str:
        """Why no declared arithmetic fits this call, or nothing."""
        if capture.X.shape[1:] != W.shape[1:] or capture.Y.shape != (len(capture.X), len(W)):
            return f"shapes {capture.X.shape}, {capture.Y.shape} don't fit the weights {W.shape}"
        if not len(capture.X):
            return "no rows: nothing to check"
        if capture.storage not in get_args(ArrayDtype):
            return f"no arithmetic is declared for outputs in {capture.storage}"
        return ""

    def _arithmetic(self, capture: Capture, bias: bool) -> LinearArithmetic | str:
        """What a healthy call had under the switches, or why that is not known. Where a bias is added to a bfloat16
        output can't be seen: a separate rounding is charged.
        """
        kind: Bias = "none" if not bias else "separate" if capture.storage == "bfloat16" else "fused"
        terms = capture.X.shape[1]
        found = declared_arithmetic(self._settings, capture.storage, bias=kind, terms=terms)
        if isinstance(found, LinearArithmetic) and found.operands.largest < np.finfo(capture.X.dtype).max:
            largest = float(np.abs(capture.X).max(initial=0.0))
            if capture.storage == "float32" and np.isfinite(largest) and not found.operands_fit(largest):
                return f"an operand of {largest:.3g} may become infinite when it is read in {found.operands.name}"
        return found

    def _finding(
        self,
        capture: Capture,
        weights: Weights,
        verdict: Verdict,
        seed: bytes,
        check: LinearCheck | None = None,
    ) -> CallFinding:
        """What is known before rows are given to units: a call that did not pass marks all of its batch."""
        positions = self._predictor.batches[capture.batch]
        return CallFinding(
            member=capture.member,
            batch=capture.batch,
            layer=capture.layer,
            ordinal=capture.ordinal,
            shape=(len(capture.X), weights.W.shape[1], len(weights.W)),
            verdict=verdict,
            reason="",
            rows=() if check is None else tuple(map(int, np.flatnonzero(located_rows(check)))),
            columns=0 if check is None else int(check.columns.flag.any(axis=0).sum()),
            unexplained=0,
            units=() if verdict is Verdict.PASS or not len(capture.X) else tuple(positions),
            suspects=(),
            worst="" if check is None else _decimal(check.worst),
            seed=seed.hex(),
            arithmetic={},
            evidence=(),
        )


def located_rows(check: LinearCheck) -> NDArray[np.bool_]:
    """[M], the rows in which a fault is proven: by the row's sum, or by one of its elements."""
    rows = check.rows.flag.copy()
    rows[check.elements.rows[check.elements.proven]] = True
    return rows


def _with_all_wrong(found: Elements, wrong: Elements) -> Elements:
    """The elements proven wrong, and those that a screen found and nobody proves."""
    open_ones = ~found.proven
    joined = {
        name: np.concatenate([getattr(found, name)[open_ones], getattr(wrong, name)])
        for name in ("rows", "columns", "residual", "bound", "proven")
    }
    return Elements(**joined, examined=wrong.examined, loudest=found.loudest)


def float32_product(A: NDArray[np.float32], W: NDArray[np.float32]) -> NDArray[np.float32]:
    """A W^T by torch, for a guard: float32 where `full_float32_products` says so."""
    result = torch.empty((len(A), len(W)), dtype=torch.float32, device="cpu")
    torch.mm(torch.from_numpy(A), torch.from_numpy(W).t(), out=result)  # with `out`, no autocast narrows it
    return np.asarray(result.numpy())


def _owned(owners: NDArray[np.intp] | None, rows: NDArray[np.bool_]) -> tuple[int, ...]:
    """The units that own one of the marked rows; none where the owners are not known."""
    return () if owners is None else tuple(map(int, np.unique(owners[rows])))


def _array(parameter: torch.Tensor) -> NDArray[Any]:
    """A copy of a parameter in float32, or float64 where it is: numpy has no bfloat16, and float32 holds it exactly."""
    wanted = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    return np.array(parameter.detach().to(wanted).cpu().numpy())


def _decimal(ratio: float) -> str:
    return "inf" if np.isinf(ratio) else decimal_string(ratio)
