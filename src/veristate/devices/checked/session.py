"""Checking one operation after it ran: which arithmetic it had, which check fits, what was found."""

import secrets
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import Verdict
from veristate.devices.checked.arrays import PreparedWeights, array_of, operand_of
from veristate.devices.checked.operations import Lookup, NotCoveredError, Product, ScatterSum, watched
from veristate.devices.checked.outcome import NAMED, Checks, Finding
from veristate.devices.checking import float32_product, located_rows
from veristate.devices.declared import declared_arithmetic
from veristate.devices.settings import full_float32_products
from veristate.devices.switches import ProductSettings, float32_matmul_precision
from veristate.numerics import (
    Guard,
    LinearArithmetic,
    LinearCheck,
    Memory,
    Operands,
    Screen,
    Stored,
    Weights,
    check_scatter_sum,
    format_named,
)

Values = NDArray[Any] | Stored

# Columns in one cache line of float32.
RUN = 16
_FORMATS = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"}


class Session:
    """The checks of one watched piece of work, operation by operation."""

    def __init__(self, checks: Checks, weights: PreparedWeights, screen: Screen) -> None:
        self._checks = checks
        self._weights = weights
        self._memory = Memory()
        # Torch's product is the faster one, and in float32 only where no switch of this process narrows it.
        self._guard = Guard(
            screen=screen,
            product=float32_product if full_float32_products() else np.inner,
            threads=torch.get_num_threads(),
        )
        self._precision = float32_matmul_precision()
        self._settings: dict[str, ProductSettings] = {}
        self._arithmetics: dict[tuple[str, torch.dtype, str, int], LinearArithmetic | str] = {}

    def check(self, layer: str, name: str, args: tuple[Any, ...], named: dict[str, Any], out: torch.Tensor) -> None:
        """Checks one finished operation and takes what it found into the checks."""
        number = sum(self._checks.counts.values())
        dtype = _FORMATS.get(out.dtype, str(out.dtype))
        finding = Finding(
            layer=layer, operation=name, number=number, shape=tuple(out.shape), dtype=dtype, verdict=Verdict.PASS
        )
        try:
            parts = [self._part(finding, found) for found in watched(name, args, named, out)]
        except NotCoveredError as error:
            parts = [replace(finding, verdict=Verdict.INAPPLICABLE, reason=f"{error} is not checked")]
        self._checks.record(_joined(parts, finding))

    def _part(self, finding: Finding, found: Product | Lookup | ScatterSum) -> Finding:
        if isinstance(found, Lookup):
            return _lookup(finding, found)
        if isinstance(found, ScatterSum):
            return self._scatter(finding, found)
        self._checks.watched += found.X.numel() * found.Y.shape[-1]
        return self._batch(finding, found) if found.X.dim() == 3 else self._product(finding, found)

    def _product(self, finding: Finding, found: Product) -> Finding:
        (M, K), N = found.X.shape, found.Y.shape[1]
        layer = finding.layer
        if not layer:
            name = self._weights.name(found.W)
            layer = f"backward of {name}" if name and torch._C._current_graph_task_id() != -1 else name or ""
        finding = replace(finding, layer=layer, shape=(M, K, N))
        if not M * N:
            return replace(finding, verdict=Verdict.INAPPLICABLE, reason="no outputs: nothing to check")
        arithmetic = self._arithmetic(found.Y, "fused" if found.b is not None else "none", K)
        if isinstance(arithmetic, str):
            return replace(finding, verdict=Verdict.INAPPLICABLE, reason=arithmetic)
        seed = secrets.token_bytes(16)
        X, Y = operand_of(found.X), operand_of(found.Y)
        weights, kept = self._weights.of(found.W, found.b)
        check = self._guarded(X, weights, Y, arithmetic, seed)
        if kept and check.verdict() is not Verdict.PASS:
            weights, _ = self._weights.of(found.W, found.b, fresh=True)
            check = self._guarded(X, weights, Y, arithmetic, seed)
        if check.verdict() is not Verdict.PASS and self._switched(found.Y.device.type):
            return self._product(finding, found)
        return _found(finding, check, seed)

    def _guarded(
        self, X: Values, weights: Weights, Y: Values, arithmetic: LinearArithmetic, seed: bytes
    ) -> LinearCheck:
        call = Operands.of(X, weights, None, Y)
        return self._guard.check(call, arithmetic, seed=seed, draws=self._checks.draws)

    def _batch(self, finding: Finding, found: Product) -> Finding:
        """Many products at once: those that don't surely pass are checked one by one."""
        B, M, K = found.X.shape
        N = found.Y.shape[2]
        arithmetic = self._arithmetic(found.Y, "none", K)
        if isinstance(arithmetic, str):
            return replace(finding, verdict=Verdict.INAPPLICABLE, reason=arithmetic)
        if not B * M * N:
            return replace(finding, verdict=Verdict.INAPPLICABLE, reason="no outputs: nothing to check")
        seed = secrets.token_bytes(16)
        X, W, Y = (np.ascontiguousarray(array_of(a)) for a in (found.X, found.W, found.Y))
        checks = self._guard.check_batch(X, W, Y, arithmetic, seed=seed, draws=self._checks.draws)
        if any(check.verdict() is not Verdict.PASS for check in checks.values()) and self._switched(
            found.Y.device.type
        ):
            return self._batch(finding, found)
        return _joined([_found(finding, check, seed) for check in checks.values()], finding)

    def _scatter(self, finding: Finding, found: ScatterSum) -> Finding:
        form = _FORMATS.get(found.sums.dtype)
        if form is None or not found.sums.numel():
            return replace(finding, verdict=Verdict.INAPPLICABLE, reason="no outputs in a known format")
        kind = format_named(form)
        flush = self._read(found.sums.device.type).flush
        # Every addition is stored: the format of the sums is that of the accumulation.
        arithmetic = LinearArithmetic(operands=kind, accumulate=kind, storage=kind, bias="none", flush=flush)
        seed = secrets.token_bytes(16)
        some = self._some_columns(found.sums.shape[1])
        initial = None if found.initial is None else array_of(found.initial[:, some])
        index = found.index if found.index.dim() == 1 else found.index[:, some]
        rows, places, sums = (array_of(a) for a in (found.rows[:, some], index, found.sums[:, some]))
        self._checks.scattered += 1
        check = check_scatter_sum(
            rows, places, initial, sums, arithmetic, seed=seed, draws=self._checks.draws, memory=self._memory
        )
        if check.sure:
            return replace(finding, worst=check.worst, seed=seed.hex())
        wrong = np.argwhere(check.flag) + np.array([0, some.start])
        return replace(
            finding,
            verdict=check.verdict(),
            reason="an addend is not finite, or the sum may overflow" if check.inapplicable.any() else "",
            rows=len(np.unique(wrong[:, 0])),
            columns=check.blocks,
            elements=tuple((int(i), int(j)) for i, j in wrong[:NAMED]),
            worst=check.worst,
            seed=seed.hex(),
        )

    def _some_columns(self, F: int) -> slice:
        """The columns to check, side by side, drawn now that the sums exist; cache lines are read whole."""
        runs = -(-F // RUN)
        taken = max(1, round(self._checks.sums * runs))
        first = secrets.randbelow(runs - taken + 1)
        return slice(first * RUN, min((first + taken) * RUN, F))

    def _arithmetic(self, Y: torch.Tensor, bias: str, terms: int) -> LinearArithmetic | str:
        """What a product with outputs like Y has here; a bias is fused into float32 sums, and added after others."""
        precision = float32_matmul_precision()
        if precision != self._precision:  # the switch that programs turn as they go; others are read when it matters
            self._precision = precision
            self._settings.clear()
            self._arithmetics.clear()
            self._guard.product = float32_product if full_float32_products() else np.inner
        key = (Y.device.type, Y.dtype, bias, terms)
        if key not in self._arithmetics:
            wide = Y.dtype in (torch.float32, torch.float64)
            kind: Any = bias if wide or bias == "none" else "separate"
            dtype = str(Y.dtype).removeprefix("torch.")
            self._arithmetics[key] = declared_arithmetic(self._read(Y.device.type), dtype, bias=kind, terms=terms)
        return self._arithmetics[key]

    def _read(self, device: str) -> ProductSettings:
        if device not in self._settings:
            self._settings[device] = ProductSettings.read(device)
        return self._settings[device]

    def _switched(self, device: str) -> bool:
        """Whether a switch was turned since it was read: nothing that rests on it may accuse then. All is read anew."""
        before = self._settings.pop(device, None)
        if self._read(device) == before:
            return False
        self._arithmetics.clear()
        self._guard.product = float32_product if full_float32_products() else np.inner
        return True


def _found(finding: Finding, check: LinearCheck, seed: bytes) -> Finding:
    """What one product's check says."""
    verdict, elements = check.verdict(), check.elements
    if verdict is Verdict.PASS and not len(elements.rows):
        return replace(finding, worst=check.worst, loudest=elements.loudest, seed=seed.hex())
    named = elements.proven if verdict is Verdict.FLAG else ~elements.proven
    places = zip(elements.rows[named][:NAMED], elements.columns[named][:NAMED], strict=True)
    inapplicable = verdict is Verdict.INAPPLICABLE
    return replace(
        finding,
        verdict=verdict,
        reason="healthy arithmetic may overflow, or an operand is not finite" if inapplicable else "",
        rows=int(located_rows(check).sum()) if verdict is Verdict.FLAG else 0,
        columns=int(check.columns.flag.sum()) if verdict is Verdict.FLAG else 0,
        elements=tuple((int(i), int(j)) for i, j in places),
        worst=check.worst,
        loudest=elements.loudest,
        seed=seed.hex(),
    )


def _lookup(finding: Finding, found: Lookup) -> Finding:
    """A look-up copies: its bits are the table's."""
    if not found.found.numel():
        return replace(finding, verdict=Verdict.INAPPLICABLE, reason="no rows: nothing to check")
    expected = found.table.detach().index_select(0, found.indices)
    same = (expected.contiguous().view(torch.uint8) == found.found.detach().contiguous().view(torch.uint8)).reshape(
        len(expected), -1
    )
    if bool(same.all()):
        return finding
    rows = torch.nonzero(~same.all(dim=1)).reshape(-1)
    size = expected.element_size()
    places = torch.nonzero(~same)[:NAMED]
    return replace(
        finding,
        verdict=Verdict.FLAG,
        rows=len(rows),
        elements=tuple(dict.fromkeys((int(i), int(j) // size) for i, j in places)),
        worst=float("inf"),
    )


def _joined(parts: list[Finding], whole: Finding) -> Finding:
    """The findings of one operation's parts as one: the first that matters speaks, and the largest residual."""
    if not parts:
        return whole
    order = {Verdict.FLAG: 0, Verdict.INAPPLICABLE: 1, Verdict.PASS: 2}
    first = min(parts, key=lambda part: (order[part.verdict], not part.elements))
    return replace(first, worst=max(part.worst for part in parts), loudest=max(part.loudest for part in parts))
