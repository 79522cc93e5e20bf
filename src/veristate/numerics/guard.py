"""The fast check: a streaming pass decides the cells that surely pass, the definition all others.

For a cell, let R be the exact residual. A healthy cell obeys |R| <= beta = (G-1) P + c S + n a, P = sum |x||w| + |b|,
S = sum |Y| (`LinearArithmetic.bound_upper`), and the definition, which rounds outward, flags none with |R| <= beta. The
pass gives an estimate of |R| that errs by at most gamma_k P + gamma_l S + v, with k and l the float32 roundings on its
way and v what underflow adds. So estimate <= (G-1 - gamma_k) P_lower + (c - gamma_l) S + n a - v proves a pass, for any
lower bound of P: for columns a part of its terms will do, since all are positive. What is not proven, NaN and infinity
among it, goes to the definition, so the flags are the definition's. Source: the site's "streaming verification with
conservative fallback". Differs: the guard proves passes only; a flag is always the definition's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.checksums import (
    BLOCK,
    Cells,
    Elements,
    LinearCheck,
    Marks,
    Signs,
    check_linear,
    column_cells,
    layout,
    refuse_denied_bias,
    row_cells,
    signs_of,
    worst_ratio,
)
from veristate.numerics.kernels import (
    ACROSS_ROUNDINGS,
    ALONG_ROUNDINGS,
    Limits,
    Pass,
    Passed,
    Plan,
    ProductPass,
    batched_pass,
    judge_columns,
    judge_rows,
    planned,
    screen_scales,
    usable,
)
from veristate.numerics.operands import Operands, Weights
from veristate.numerics.screen import Screen, escalated

Floats = NDArray[Any]
Indices = NDArray[np.intp]
# A W^T in float32, in any order of summation but in no narrower format. Shapes: [m, K], [N, K] to [m, N].
Product = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]

U32 = 2.0**-24
# What the float64 part of a pass and of a comparison may add, relative to P and S, when 2^16 values or fewer are added.
SLACK = 2.0**-36
# Above this G - 1 a bound says nothing, and what is negligible here no longer is.
LARGEST_GROWTH = 2.0**16
# A level that no residual reaches: nothing is screened.
BEYOND = 1e300
# The largest absolute error of one float32 operation that underflows, flushed or not.
TINY = 2.0**-125


@dataclass(slots=True)
class Guard:
    """A fast checker with its working memory: one for each thread that calls it. Without a `screen` it raises no
    suspicions. It may use `threads` threads of its own where a call is large enough; they change no result.
    """

    screen: Screen | None = field(default_factory=Screen)
    product: Product = np.inner
    threads: int = 1
    _whole: ProductPass = field(default_factory=ProductPass)
    _X: Pass = field(default_factory=Pass)
    _Y: Pass = field(default_factory=Pass)

    @np.errstate(all="ignore")
    def check(
        self,
        call: Operands,
        arithmetic: LinearArithmetic,
        *,
        block: int | None = BLOCK,
        seed: bytes | None = None,
        draws: int = 1,
    ) -> LinearCheck:
        """The check with the flags that `check_linear` gives, and with what the screen found among the elements.

        Raises: InputError as `check_linear` does.
        """
        step, blocks = layout(call, block, draws)
        if not within_reach(call, arithmetic):
            check = check_linear(call, arithmetic, block=block, seed=seed, draws=draws)
            return self._with_elements(call, arithmetic, check, np.argwhere(check.columns.flag), 0.0)
        refuse_denied_bias(call, arithmetic)
        M, _, N = call.shape
        signs = signs_of(M, seed, draws)
        sure = self._surely(call, arithmetic, signs, step, block is not None)
        if sure is not None:
            check = _passing_check(M, N, blocks, (sure.worst, sure.loudest), step, seed, draws)
            return self._with_elements(call, arithmetic, check, sure.suspects, sure.loudest)
        self._X.dots(call.X, step, signs, call.weights.narrow_columns)
        self._Y.sums(call.Y, step, signs)
        rows, worst_row = self._undecided_rows(call, arithmetic)
        cells, suspects, worst_cell, loudest = self._undecided_cells(call, arithmetic, signs, step, block is not None)
        if not len(rows) + len(cells) + len(suspects):
            return _passing_check(M, N, blocks, (max(worst_row, worst_cell), loudest), step, seed, draws)
        row_marks, worst = _marked((M,), (rows,), [row_cells(call, arithmetic, rows)] if len(rows) else [])
        drawn = [(d, cells[cells[:, 0] == d, 1:].T) for d in range(draws)] if len(cells) else []
        found = [column_cells(call, arithmetic, signs[d], step, *places) for d, places in drawn]
        column_marks, worst_column = _marked((draws, blocks, N), tuple(cells.T), found)
        check = LinearCheck(
            rows=row_marks,
            columns=column_marks,
            worst=max(worst, worst_row, worst_column, worst_cell),
            block=step,
            seed=seed,
            undecided=len(rows) + len(cells),
        )
        if len(cells):
            suspects = np.concatenate([suspects, np.argwhere(column_marks.flag)])
        return self._with_elements(call, arithmetic, check, suspects, loudest)

    @np.errstate(all="ignore")
    def check_batch(
        self, X: Floats, W: Floats, Y: Floats, arithmetic: LinearArithmetic, *, seed: bytes, draws: int = 1
    ) -> dict[int, LinearCheck]:
        """The checks of those products Y[b] = X[b] W[b]^T that do not surely pass in blocks; all others pass.

        Shapes: X [B, M, K], W [B, N, K], Y [B, M, N]. Dtypes: float32 goes the fast way.
        """
        B, M, K = X.shape
        passed: NDArray[np.bool_] = np.zeros(B, dtype=bool)
        if X.dtype == W.dtype == Y.dtype == np.float32 and Y.size and K and _wide_enough(arithmetic, K):
            growth = arithmetic.growth_minus_one_upper(K) - SLACK
            stored = arithmetic.bound_upper(0.0, 1.0, 0.0, terms=K, elements=0.0, largest_operand=0.0) - SLACK
            limits = np.array([growth, stored, arithmetic.absolute_upper(K, 0.0) * (1 - SLACK)])
            drawn = np.empty((draws, B), dtype=bool)
            for signs, fine in zip(signs_of(M, seed, draws), drawn, strict=True):
                batched_pass(X, W, Y, signs, BLOCK, limits, fine)
            passed = np.asarray(drawn.all(axis=0))
        left = np.flatnonzero(~passed)
        return {
            int(b): self.check(Operands.of(X[b], W[b], None, Y[b]), arithmetic, seed=seed, draws=draws) for b in left
        }

    def _with_elements(
        self, call: Operands, arithmetic: LinearArithmetic, check: LinearCheck, cells: Indices, loudest: float
    ) -> LinearCheck:
        """The check and what its suspect and its flagged cells [n, 3] hold."""
        if not len(cells):
            return check
        if self.screen is None:
            return replace(check, elements=Elements.none(loudest))
        # Only the rows of those blocks are read again, and widened where they are stored in a narrow format.
        own, blocks = np.unique(cells[:, 1], return_inverse=True)
        rows = (own[:, None] * check.block + np.arange(min(check.block, call.shape[0]))).ravel()
        rows = rows[rows < call.shape[0]]
        near = np.stack([blocks, cells[:, 2]], axis=1)
        found = escalated(call.of_rows(rows), arithmetic, self.screen, near, check.block, loudest)
        return replace(check, elements=replace(found, rows=rows[found.rows]))

    def _surely(
        self, call: Operands, arithmetic: LinearArithmetic, signs: Signs, step: int, screened: bool
    ) -> Passed | None:
        """What one call of the C kernel says when every cell surely passes; None otherwise, and without that kernel."""
        narrow = call.narrow
        if narrow is None or not usable():
            return None
        X, Y, form = narrow
        plan = self._planned(call.weights, arithmetic, form, step, screened)
        return self._whole.passed(plan, X, Y, signs, self.threads)

    def _planned(self, weights: Weights, arithmetic: LinearArithmetic, form: str, step: int, screened: bool) -> Plan:
        """What is the same for every such call."""
        key = (id(arithmetic), id(self.screen), form, step, screened)
        kept = weights.plans.get(key)
        if kept is not None:
            plan: Plan = kept[0]
            return plan
        layer, K = weights.layer, weights.W.shape[1]
        factors, (rest, slope) = self._screening(arithmetic, K, screened), _screen_rest(arithmetic, K)
        limits = Limits(
            rows=_row_limits(weights, arithmetic),
            cells=_cell_limits(weights, arithmetic, step, int(layer.runs[:, 1].sum())),
            screen=(*factors, rest) if np.isfinite(factors[0]) else (0.0, 0.0, BEYOND),
            screen_slope=slope,
        )
        plan = planned(layer, limits, form, step)
        weights.plans[key] = (plan, arithmetic, self.screen)  # which keeps what the key names alive
        return plan

    def _screening(self, arithmetic: LinearArithmetic, terms: int, screened: bool) -> tuple[float, float]:
        """The screen's factors, infinite where nothing is screened."""
        if self.screen is None or not screened:
            return np.inf, np.inf
        return self.screen.factors(arithmetic, terms)

    def _undecided_rows(self, call: Operands, arithmetic: LinearArithmetic) -> tuple[Indices, float]:
        M, weights = call.shape[0], call.weights
        limits = np.array(_row_limits(weights, arithmetic))
        out = np.empty(M, dtype=np.intp)
        count, worst = judge_rows(
            self._Y.along, self._Y.along_abs, self._X.along, self._X.along_abs, weights.bias, limits, out
        )
        return out[:count], worst

    def _undecided_cells(
        self, call: Operands, arithmetic: LinearArithmetic, signs: Signs, step: int, screened: bool
    ) -> tuple[Indices, Indices, float, float]:
        """Undecided and suspect cells, each [n, 3] as (draw, block, column), and the largest shares of the rest."""
        (M, K, _), weights = call.shape, call.weights
        sums, sums_abs = self._X.across, self._X.across_abs
        draws, blocks, N = self._Y.across.shape
        expected = self.product(sums.reshape(draws * blocks, K), weights.W).reshape(draws, blocks, N)
        starts = np.arange(0, M, step)
        rows = np.full(blocks, float(step))
        rows[-1] = M - starts[-1]
        scales = np.empty((2, blocks))
        screen_scales(self._Y.along_abs, self._X.along_abs, sums_abs, step, scales)
        factors = self._screening(arithmetic, K, screened)
        rest, slope = _screen_rest(arithmetic, K)
        largest = max(weights.largest, float(sums_abs.max())) if slope else 0.0
        screen = np.array([*factors, rest + slope * largest])
        for again in (False, True):
            columns, sample = weights.sample(self._X.across_abs.sum(axis=0) if again else None)
            low = self.product(np.ascontiguousarray(sums_abs[:, columns]), sample)
            limits = np.array(_cell_limits(weights, arithmetic, step, len(columns)))
            out, suspects = (np.empty((draws * blocks * N, 3), dtype=np.intp) for _ in range(2))
            count, suspicious, worst, loudest = judge_columns(
                self._Y.across, self._Y.across_abs, expected, low, weights.b, np.add.reduceat(signs, starts, axis=1),
                rows, limits, screen, scales, weights.norms, out, suspects,
            )  # fmt: skip
            if not count:
                break
        # An infinite factor times nothing is NaN, which looks suspect to the comparison.
        screening = np.isfinite(factors[0])
        return out[:count], suspects[: suspicious if screening else 0], worst, loudest


def within_reach(call: Operands, arithmetic: LinearArithmetic) -> bool:
    """Whether float32 passes can decide anything here: all else goes to the definition at once."""
    M, K, N = call.shape
    if not M * K * N or call.narrow is None or not call.weights.fast:
        return False
    return _wide_enough(arithmetic, K)


@lru_cache(maxsize=1024)
def _wide_enough(arithmetic: LinearArithmetic, terms: int) -> bool:
    """Whether the arithmetic's bound leaves room for the guard's own roundings."""
    growth = arithmetic.growth_minus_one_upper(terms)
    inside = gamma(terms + ACROSS_ROUNDINGS + 3) < growth < LARGEST_GROWTH
    return inside and arithmetic.accumulate.precision <= 24


def gamma(roundings: int) -> float:
    """K u / (1 - k u) for k float32 roundings, rounded up; infinite where k u reaches 1."""
    return roundings * U32 / (1 - roundings * U32) * (1 + SLACK) if roundings * U32 < 1 else np.inf


@lru_cache(maxsize=1024)
def limits_of(
    arithmetic: LinearArithmetic, terms: int, *, added: int, expected: int, lower: int, observed: int
) -> tuple[float, float, float]:
    """The factors of P_lower and of S, and the part of each element, all rounded so that a limit comes out small.

    `added` is how many values the float64 part adds up; `expected`, `lower` and `observed` are the float32 roundings of
    the expected sum, of P_lower and of the observed.
    """
    slack = SLACK * max(1.0, added * 2.0**-16)
    growth = arithmetic.growth_minus_one_upper(terms)
    stored = arithmetic.bound_upper(0.0, 1.0, 0.0, terms=terms, elements=0.0, largest_operand=0.0)
    products = (growth - gamma(expected)) * (1 - gamma(lower)) - slack
    known = 1 - gamma(observed)  # S itself was added up in float32
    sums = stored - gamma(observed)
    sums = (sums * known if sums > 0 else sums / known) - slack
    return products, sums, arithmetic.absolute_upper(terms, 0.0) * (1 - SLACK)


def _row_limits(weights: Weights, arithmetic: LinearArithmetic) -> tuple[float, float, float]:
    """The factors of P and S of a row, and a rest."""
    N, K = weights.W.shape
    roundings = {"expected": ALONG_ROUNDINGS, "lower": ALONG_ROUNDINGS, "observed": ALONG_ROUNDINGS}
    products, stored, element = limits_of(arithmetic, K, added=N + K, **roundings)
    return products, stored, element * N - TINY * (K * (2 + weights.widest) + N)


def _cell_limits(
    weights: Weights, arithmetic: LinearArithmetic, step: int, sampled: int
) -> tuple[float, float, float, float]:
    """The factors of P_lower and S of a cell, a rest for each of its rows, and a rest; P_lower has `sampled` terms."""
    K = weights.W.shape[1]
    roundings = {"expected": K + ACROSS_ROUNDINGS + 3, "lower": sampled + ACROSS_ROUNDINGS + 3}
    factors = limits_of(arithmetic, K, added=step, observed=ACROSS_ROUNDINGS, **roundings)
    return *factors, -TINY * (K * (2 + weights.largest) + step)


@lru_cache(maxsize=1024)
def _screen_rest(arithmetic: LinearArithmetic, terms: int) -> tuple[float, float]:
    """What one element's absolute errors add to its screen, and how that grows with the largest operand."""
    rest = arithmetic.absolute_upper(terms, 0.0)
    return rest, arithmetic.absolute_upper(terms, 1.0) - rest


@lru_cache(maxsize=256)
def _passing(shape: tuple[int, ...]) -> Marks:
    """Marks that pass everywhere; read-only, and no memory of their own."""
    nothing = np.broadcast_to(np.False_, shape)
    return Marks(flag=nothing, inapplicable=nothing)


def _passing_check(
    M: int, N: int, blocks: int, shares: tuple[float, float], step: int, seed: bytes | None, draws: int
) -> LinearCheck:
    """The check of a call whose every cell surely passes."""
    worst, loudest = shares
    return LinearCheck(
        rows=_passing((M,)),
        columns=_passing((draws, blocks, N)),
        worst=worst,
        block=step,
        seed=seed,
        undecided=0,
        elements=Elements.none(loudest),
    )


def _marked(shape: tuple[int, ...], index: tuple[Indices, ...], found: list[Cells]) -> tuple[Marks, float]:
    """Marks of `shape` that pass everywhere but at `index`, where the definition found cells; and their worst ratio."""
    if not found:
        return _passing(shape), 0.0
    flag, inapplicable = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    flag[index] = np.concatenate([cells.flag for cells in found])
    inapplicable[index] = np.concatenate([cells.inapplicable for cells in found])
    return Marks(flag=flag, inapplicable=inapplicable), max(worst_ratio(cells) for cells in found)
