"""Sums of rows named by an index, compiled: in the order of the index, in the rows' own format or in FP64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels.compiled import compiled
from veristate.numerics.probes.rounding import LOST_LENGTH, Floats

Indices = NDArray[np.integer[Any]]


@compiled()
def _ordered(rows: NDArray[Any], index: Indices, out: NDArray[Any]) -> None:
    for i in range(index.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = 0
        for d in range(index.shape[1]):
            q = index[i, d]
            if q >= 0:
                for k in range(out.shape[1]):
                    x = rows[q, k]
                    out[i, k] += x if x > 0 or x != x else np.float32(0)


@compiled()
def _segments(rows: NDArray[Any], members: Indices, starts: Indices, out: NDArray[Any]) -> None:
    for i in range(starts.shape[0] - 1):
        for k in range(out.shape[1]):
            out[i, k] = 0
        for a in range(starts[i], starts[i + 1]):
            q = members[a]
            for k in range(out.shape[1]):
                x = rows[q, k]
                out[i, k] += x if x > 0 or x != x else np.float32(0)


@compiled(reorder=True)
def _masked(
    squares: Floats,
    rows: NDArray[Any],
    radius: Floats,
    lows: NDArray[Any],
    members: Indices,
    starts: Indices,
    extra: Floats,
    out: Floats,
) -> None:
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for a in range(starts[i], starts[i + 1]):
            q = members[a]
            low = lows[q]
            part = 0.0
            for k in range(squares.shape[1]):
                if not rows[q, k] < low:
                    part += squares[i, k]
            total += (np.sqrt(part) + extra[i]) * radius[q]
        out[i] = total


@compiled(reorder=True)
def _passed(
    q: Floats, values: NDArray[Any], radius: Floats, per_row: Floats, per_column: Floats, slope: float, charged: Floats
) -> None:
    for i in range(q.shape[0]):
        total = 0.0
        for k in range(q.shape[1]):
            x = values[i, k]
            each = min(radius[i], per_row[0, i] * per_column[k] + per_row[1, i])
            if not x > each:
                if x < -each:
                    q[i, k] *= slope
                else:
                    total += abs(q[i, k]) * each
                    q[i, k] = 0.0
        charged[i] = total


@compiled(reorder=True)
def _widened(rows: NDArray[Any], first: int, slope: float, out: Floats, squares: Floats) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(out.shape[1]):
            x = np.float64(rows[first + i, k])
            total += x * x
            out[i, k] = x if x > 0 or x != x else slope * x
        squares[first + i] = total


@compiled()
def _gathered(values: Floats, index: Indices, out: Floats) -> None:
    for i in range(index.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
        for d in range(index.shape[1]):
            q = index[i, d]
            if q >= 0:
                for j in range(out.shape[1]):
                    out[i, j] += values[q, j]


@compiled()
def _exact(rows: Floats, members: Indices, starts: Indices, out: Floats, lost: Floats) -> None:
    for i in range(starts.shape[0] - 1):
        for k in range(out.shape[1]):
            out[i, k] = 0.0
            lost[i, k] = 0.0
        for a in range(starts[i], starts[i + 1]):
            q = members[a]
            if q >= 0:
                for k in range(out.shape[1]):
                    x = rows[q, k] if not rows[q, k] <= 0 else 0.0
                    s = out[i, k]
                    t = s + x
                    z = t - s
                    lost[i, k] += abs((s - (t - z)) + (x - z))
                    out[i, k] = t


@compiled(reorder=True)
def _squares(rows: NDArray[Any], out: Floats) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for k in range(rows.shape[1]):
            x = np.float64(rows[i, k])
            total += x * x
        out[i] = total


def squared_norms(rows: NDArray[Any]) -> Floats:
    """The sums of squares of the rows [n], added in FP64 in any order. Dtypes: float32 or float64."""
    out = np.empty(len(rows))
    _squares(rows, out)
    return out


def pass_stable(
    q: Floats,
    values: NDArray[Any],
    radius: Floats,
    slope: float,
    each: tuple[Floats, Floats, Floats] | None,
) -> tuple[Floats, Floats]:
    """(q behind an activation, in its own memory; what its unstable elements are charged with [R]).

    Maths: an element whose |value| exceeds what it may be off by passes q, or slope q where it is negative; any other
    passes nothing and is charged |q| times that. It may be off by `radius` of its row, or `each` = (a, c, b) by a_i b_k
    + c_i, whichever is less. Roundings are the caller's to charge: at most N on any way.
    """
    rows, columns = q.shape
    if each is None:
        per_row, per_column = np.stack([np.zeros(rows), np.full(rows, np.inf)]), np.zeros(columns)
    else:
        per_row, per_column = np.stack(each[:2]), each[2]
    charged = np.empty(rows)
    _passed(q, values, radius, per_row, per_column, slope, charged)
    return q, charged


def widened(rows: NDArray[Any], first: int, slope: float, out: Floats, squares: Floats) -> None:
    """Fills `out` [r, N] with max(x, slope x) of the rows from `first` on, and their `squares` with the sums of x^2, in
    any order: one pass that converts, rectifies and measures.
    """
    _widened(rows, first, slope, out, squares)


def gathered(values: Floats, index: Indices) -> Floats:
    """Sums over d of values[index[:, d]], where -1 adds nothing. Shapes: [Q] or [Q, m], [R, D] to [R] or [R, m]."""
    wide = values if values.ndim == 2 else values[:, None]
    out = np.empty((len(index), wide.shape[1]))
    _gathered(wide, index, out)
    return out.reshape(len(index), *values.shape[1:])


def widened_sums(rows: Floats, members: Indices, starts: Indices) -> tuple[Floats, Floats]:
    """(FP64 sums of max(rows[members[a]], 0) over starts[s] <= a < starts[s + 1]; a bound of what rounding took from
    them). Maths: what each addition loses is itself a float (Knuth's two-sum): no loss anywhere is an exact sum.
    """
    out, lost = np.empty((len(starts) - 1, rows.shape[1])), np.empty((len(starts) - 1, rows.shape[1]))
    _exact(rows, members, starts, out, lost)
    return out, lost * (1 + 2.0**-40)


def exact_sums(rows: Floats, index: Indices) -> tuple[Floats, Floats]:
    """The same over d of rows[index[:, d]], where -1 adds nothing."""
    return widened_sums(rows, index.reshape(-1), np.arange(len(index) + 1) * index.shape[1])


def rectified_sums(rows: NDArray[Any], index: Indices, out: NDArray[Any]) -> NDArray[Any]:
    """`out` [R, N] with sum_d max(rows[index[:, d]], 0) added in the order of d, each sum rounded to `out`'s format; -1
    is no row. NaN is kept. Equal, bit for bit, to a scatter sum that meets the rows in that order.
    """
    _ordered(rows, index, out)
    return out


def rectified_segments(rows: NDArray[Any], members: Indices, starts: Indices, out: NDArray[Any]) -> NDArray[Any]:
    """`out` [S, N] with the sum of max(rows[members[a]], 0) over starts[s] <= a < starts[s + 1], in that order."""
    _segments(rows, members, starts, out)
    return out


def masked_reach(
    J: Floats, rows: NDArray[Any], radius: Floats, members: Indices, starts: Indices, extra: Floats
) -> Floats:
    """For each segment the sum over its members q of (|J masked where rows[q] may be positive| + extra) radius[q].

    Maths: where rows[q, k] <= -radius[q] neither the computed nor the exact value is positive, so a ReLU passes no
    error. Roundings are the caller's to charge: at most N + the segment's length on any way.
    Shapes: J [S, N], rows [Q, N], radius [Q], members [A], starts [S + 1], extra [S] to [S].
    """
    out = np.empty(len(starts) - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        lows = np.nextafter((-radius).astype(rows.dtype), rows.dtype.type(-np.inf))
        _masked(J * J, rows, radius, lows, members, starts, extra + LOST_LENGTH, out)
    return out
