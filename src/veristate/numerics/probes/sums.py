"""Sums of rows named by an index, compiled: in the order of the index, in the rows' own format or in FP64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels.compiled import compiled
from veristate.numerics.probes.rounding import Floats

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
        _masked(J * J, rows, radius, lows, members, starts, extra, out)
    return out
