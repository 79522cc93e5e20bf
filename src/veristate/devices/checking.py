"""Checking captured calls against the checker's own weights, and telling which units a flag belongs to."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from veristate.core import Verdict, decimal_string
from veristate.devices.findings import CallFinding
from veristate.devices.predictors import Predictor
from veristate.devices.watch import linear_layers
from veristate.numerics import (
    LinearArithmetic,
    LinearCheck,
    Operands,
    bf16_arithmetic,
    check_linear,
    fp32_arithmetic,
    fp64_arithmetic,
    round_to_bf16,
    unexplained_columns,
)

ArrayDtype = Literal["float32", "bfloat16", "float64"]
# Flagged rows, and the rows of one block, are kept as evidence up to this many; the finding still names them all.
EVIDENCE_ROWS = 64
FULL_PRODUCTS = "float32_matmul_precision=highest"


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

    def __init__(self, predictor: Predictor, *, flush: bool, full_products: bool, block: int | None) -> None:
        self._predictor = predictor
        self._flush = flush
        self._full_products = full_products
        self._block = block
        self._weights: dict[tuple[int, str, ArrayDtype], tuple[NDArray[Any], NDArray[Any] | None]] = {}

    def check(self, capture: Capture, seed: bytes) -> CallFinding:
        """The finding of one call; `seed` must have been drawn after the capture existed."""
        W, b = self._represented_weights(capture)
        reason = self._unknown_path(capture, W)
        if reason:
            return replace(self._finding(capture, W, Verdict.INAPPLICABLE, seed), reason=reason)
        arithmetic = self._arithmetic(capture, b is not None)
        X = round_to_bf16(capture.X) if capture.storage == "bfloat16" else capture.X
        call = Operands.of(X, W, b, capture.Y)
        check = check_linear(call, arithmetic, block=self._block, seed=seed)
        verdict = check.verdict()
        if verdict is Verdict.PASS:
            return self._finding(capture, W, verdict, seed, check)
        return self._attributed(capture, call, arithmetic, check, seed)

    def _attributed(
        self, capture: Capture, call: Operands, arithmetic: LinearArithmetic, check: LinearCheck, seed: bytes
    ) -> CallFinding:
        """The finding of a call that did not pass: its rows' units, and every unit of a block with a column that the
        flagged units' rows don't explain. A cell that could not be judged marks its units too.
        """
        M = len(capture.X)
        owners = self._predictor.rows(capture.batch, M)
        doubtful = (check.rows.flag | check.rows.inapplicable).any(axis=1)
        explained = np.zeros(M, dtype=bool) if owners is None else np.isin(owners, owners[doubtful])
        left = unexplained_columns(call, arithmetic, check, explained) | check.columns.inapplicable
        touched = self._rows_of_blocks(np.asarray(left.any(axis=1)), M)
        verdict = check.verdict()
        finding = self._finding(capture, call.W, verdict, seed, check)
        units = finding.units if owners is None else tuple(map(int, np.unique(owners[doubtful | touched])))
        return replace(
            finding,
            reason="" if verdict is Verdict.FLAG else "healthy arithmetic may overflow, or an operand is not finite",
            unexplained=int(left.sum()),
            units=units,
            arithmetic=arithmetic.describe(),
            evidence=self._evidence(check.flagged_rows, np.asarray(left.any(axis=1))),
        )

    def _evidence(self, flagged: NDArray[np.bool_], blocks: NDArray[np.bool_]) -> tuple[int, ...]:
        """The rows to keep: flagged ones, and the whole of the first block whose columns they don't explain."""
        first = np.zeros_like(blocks)
        first[np.flatnonzero(blocks)[:1]] = True
        block = np.flatnonzero(self._rows_of_blocks(first, len(flagged)))[:EVIDENCE_ROWS]
        return tuple(map(int, np.union1d(np.flatnonzero(flagged)[:EVIDENCE_ROWS], block)))

    def _rows_of_blocks(self, blocks: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
        """[rows], those that lie in the marked blocks."""
        step = self._block or max(rows, 1)
        return np.asarray(np.repeat(blocks, step)[:rows])

    def _represented_weights(self, capture: Capture) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """W and b of the layer as they are multiplied: rounded to bf16 where the output is."""
        key = (capture.member, capture.layer, capture.storage)
        if key not in self._weights:
            layer = linear_layers(self._predictor.models[capture.member])[capture.layer]
            # float64 holds every narrower format; numpy has no bfloat16 to read a model that is kept in it.
            W = layer.weight.detach().double().cpu().numpy()
            b = None if layer.bias is None else layer.bias.detach().double().cpu().numpy()
            if capture.storage == "bfloat16":
                W, b = _rounded(W), None if b is None else _rounded(b)
            self._weights[key] = (W, b)
        return self._weights[key]

    def _unknown_path(self, capture: Capture, W: NDArray[Any]) -> str:
        """Why no declared arithmetic fits this call, or nothing."""
        if capture.X.shape[1:] != W.shape[1:] or capture.Y.shape != (len(capture.X), len(W)):
            return f"shapes {capture.X.shape}, {capture.Y.shape} don't fit the weights {W.shape}"
        if not len(capture.X):
            return "no rows: nothing to check"
        if capture.storage not in get_args(ArrayDtype):
            return f"no arithmetic is declared for outputs in {capture.storage}"
        if capture.storage == "float32" and not self._full_products:
            return f"float32 products may be computed in a narrower format (needs {FULL_PRODUCTS})"
        return ""

    def _arithmetic(self, capture: Capture, bias: bool) -> LinearArithmetic:
        if capture.storage == "bfloat16":
            return bf16_arithmetic(bias=bias)
        make = fp32_arithmetic if capture.storage == "float32" else fp64_arithmetic
        return make(bias=bias, flush=self._flush)

    def _finding(
        self,
        capture: Capture,
        W: NDArray[Any],
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
            shape=(len(capture.X), W.shape[1], len(W)),
            verdict=verdict,
            reason="",
            rows=() if check is None else tuple(map(int, np.flatnonzero(check.flagged_rows))),
            columns=0 if check is None else int(check.columns.flag.sum()),
            unexplained=0,
            units=() if verdict is Verdict.PASS or not len(capture.X) else tuple(positions),
            worst=_worst(check),
            seed=seed.hex(),
            arithmetic={},
            evidence=(),
        )


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return round_to_bf16(values.astype(np.float32)).astype(np.float64)


def _worst(check: LinearCheck | None) -> str:
    """The largest residual over its bound; "inf" when an output is not finite."""
    if check is None:
        return ""
    worst = 0.0
    for cells in (check.rows, check.columns):
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(cells.flag & ~np.isfinite(cells.residual), np.inf, cells.residual / cells.bound)
        worst = max(worst, float(np.nanmax(ratio, initial=0.0)))
    return "inf" if np.isinf(worst) else decimal_string(worst)
