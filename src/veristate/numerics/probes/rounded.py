"""Correct rounding from bounds: which way an exact value rounds when it is known within an interval, or exactly.

Nearly every interval lies between two midpoints; what does not is evaluated as a fraction. So a layer that is rounded
correctly has one value on every machine (contract C3).
"""

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import copysign, frexp, inf, isfinite, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.formats import FP32, Format
from veristate.numerics.probes.chain import sigmoid_interval
from veristate.numerics.probes.rounding import Floats, gamma_upper
from veristate.numerics.probes.spectral import row_norms_upper
from veristate.numerics.probes.sums import exact_sums, widened_sums

Indices = NDArray[np.integer[Any]]
_ROWS = 2048
_DIGITS = Context(prec=60)
# How many bytes of operands stand side by side for cells that are evaluated one by one.
_ROOM = 2**24


def rounded(values: NDArray[Any], form: Format) -> Floats:
    """`values` to the nearest of that format, ties to even, subnormals kept, infinite beyond its range; as float64."""
    x = np.ascontiguousarray(values, dtype=np.float64)
    shift = 53 - form.precision
    if not shift:
        return x.copy()
    bits = x.view(np.uint64)
    last = (bits >> np.uint64(shift)) & np.uint64(1)
    near = (bits + (np.uint64(2 ** (shift - 1) - 1) + last)) >> np.uint64(shift) << np.uint64(shift)
    small, size = form.smallest_subnormal, np.abs(x)
    with np.errstate(invalid="ignore"):
        out = np.where(size < form.smallest_normal, np.rint(x / small) * small, near.view(np.float64))
        out = np.where(np.abs(out) > form.largest, np.copysign(np.inf, x), out)
    return np.asarray(np.where(np.isfinite(x), out, x))


def nearest(value: Fraction, form: Format) -> float:
    """The number of that format nearest to an exact value, ties to even.

    Maths: Python divides integers with correct rounding to FP64, and midpoints of a narrower format are FP64 numbers.
    So the second rounding goes astray only from a midpoint that `value` itself is not on: then it is on one known side.
    """
    close = float(value)
    off = value - Fraction(close)
    if off and isfinite(close):
        exponent = max(frexp(close)[1] - 1, form.exponent_min)
        halves = Fraction(close) / (Fraction(2) ** (exponent - form.precision))
        if halves.denominator == 1 and halves.numerator % 2:
            close = nextafter(close, copysign(inf, off))
    return float(rounded(np.array([close]), form)[0])


def settled(approx: Floats, reach: Floats, form: Format) -> tuple[Floats, Indices]:
    """(rounded values, the cells [c, 2] that are still open) for exact values [R, N] within `reach` of `approx`."""
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = (
            rounded(np.nextafter(end, to), form) if width else rounded(end, form)
            for end, to, width in (
                (approx - reach, -np.inf, reach.any()),
                (approx + reach, np.inf, reach.any()),
            )
        )
        exact = reach == 0.0
        here = rounded(approx, form)
        open_ = ~(np.where(exact, here == here, low == high))
    return np.where(exact, here, low), np.argwhere(open_)


def products_exact(form: Format) -> bool:
    """Whether FP64 holds every product of two numbers of that format."""
    return 2 * form.precision <= 53


def rounded_layer(
    W: Floats,
    b: Floats,
    X: Floats,
    form: Format,
    *,
    add: Floats | None = None,
    seen: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, int]:
    """(X W^T + b + add with every element rounded once, correctly; how many were evaluated as fractions).

    `seen` = (values [R, N], eps [R]): what a device gave and how far each row is off at most; without it FP64 is used.
    Shapes: W [N, K], b [N], X [R, K], add [R, N] to [R, N], all of that format.
    Raises: InputError where a value is not finite in that format: the contract gives no score then; and for a format
    whose products are not exact in FP64.
    """
    if not products_exact(form):
        raise InputError(f"products of {form.name} don't fit into FP64; layers are rounded correctly up to 26 bits")
    out, fractions = np.empty((len(X), len(W))), 0
    norms, b_size = row_norms_upper(W), np.abs(b)
    for start in range(0, len(X), _ROWS):
        part = slice(start, start + _ROWS)
        x, more = X[part], 0.0 if add is None else add[part]
        spread = gamma_upper(W.shape[1] + 4) * (np.outer(row_norms_upper(x), norms) + b_size + np.abs(more)) * 2
        if seen is None:
            out[part], cells = settled(x @ W.T + b + more, spread, form)
        else:
            reach = np.broadcast_to(seen[1][part][:, None], spread.shape)
            out[part], cells = settled(seen[0][part].astype(np.float64), np.asarray(reach), form)
            cells = _evaluated(out[part], cells, (W, b, x, more), spread, form)
        for i, j in cells:
            others = [float(b[j])] if add is None else [float(b[j]), float(add[start + i, j])]
            out[start + i, j] = nearest(_dot(W[j], x[i], others), form)
        fractions += len(cells)
    _require_finite(out, form)
    return out, fractions


def rounded_sums(
    rows: Floats, index: Indices, form: Format, *, starts: Indices | None = None, divisor: Floats | None = None
) -> tuple[Floats, int]:
    """(sums of max(row, 0), divided, each rounded once and correctly; how many as fractions).

    Output row i adds rows[index[i, d]] (-1: none); with `starts`, rows[index[a]] over starts[i] <= a < starts[i + 1].
    """
    sums, lost = exact_sums(rows, index) if starts is None else widened_sums(rows, index, starts)
    if divisor is not None:
        exact = (lost == 0.0) & (np.log2(divisor) % 1 == 0)[:, None]
        sums, lost = sums / divisor[:, None], lost / divisor[:, None]
        lost = np.where(exact, 0.0, lost * 2 + np.abs(sums) * 2.0**-51)
    out, cells = settled(sums, lost, form)
    for i, j in cells:
        picked = index[i][index[i] >= 0] if starts is None else index[starts[i] : starts[i + 1]]
        total = sum((Fraction(float(max(v, 0.0))) for v in rows[picked, j]), Fraction(0))
        out[i, j] = nearest(total / (1 if divisor is None else Fraction(float(divisor[i]))), form)
    _require_finite(out, form)
    return out, len(cells)


def rounded_sigmoid(logits: Floats) -> NDArray[np.float32]:
    """1 / (1 + exp(-l)), rounded to float32 correctly. Shapes: [n]."""
    low, high = sigmoid_interval(logits, np.zeros(len(logits)))
    ends = rounded(low, FP32), rounded(high, FP32)
    out = ends[0].copy()
    for i in np.flatnonzero(ends[0] != ends[1]):
        power = _DIGITS.exp(_DIGITS.create_decimal(Decimal(-float(logits[i]))))
        value = _DIGITS.divide(Decimal(1), _DIGITS.add(Decimal(1), power))
        out[i] = nearest(Fraction(value), FP32)  # 60 digits: no sigmoid of a narrow number is nearer to a midpoint
    return out.astype(np.float32)


def _evaluated(
    out: Floats, cells: Indices, layer: tuple[Floats, Floats, Floats, Any], spread: Floats, form: Format
) -> Indices:
    """The cells that FP64 dots leave open; the others are settled in `out`. However many a device left open, no more
    memory is taken than for a product of the rows, or `_ROOM`.
    """
    if not len(cells):
        return cells
    W, b, x, more = layer
    rows, columns = cells[:, 0], cells[:, 1]
    if 16 * len(cells) > out.size:
        values = (x @ W.T)[rows, columns]
    else:
        each = max(_ROOM // (16 * W.shape[1]), 1)
        pieces = (slice(at, at + each) for at in range(0, len(cells), each))
        values = np.concatenate([np.einsum("ij,ij->i", x[rows[p]], W[columns[p]]) for p in pieces])
    values += b[columns] + (more[rows, columns] if isinstance(more, np.ndarray) else more)
    near, left = settled(values[None], spread[rows, columns][None], form)
    out[rows, columns] = near[0]
    return np.asarray(cells[left[:, 1]])


def _dot(w: Floats, x: Floats, others: Sequence[float]) -> Fraction:
    used = np.flatnonzero((w != 0) & (x != 0))
    products = (w[used] * x[used]).tolist()  # exact: see products_exact
    return sum(map(Fraction, [*products, *others]), Fraction(0))


def _require_finite(values: Floats, form: Format) -> None:
    if not np.isfinite(values).all():
        raise InputError(f"a layer's value is beyond the range of {form.name}; under C3 it has no score")
