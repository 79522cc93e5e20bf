"""The streaming pass of the guard: one read of a matrix gives the sums of its rows and of its blocks of rows.

The C kernel runs where it was built and the processor has AVX-512; numba's, in FP64, everywhere else. Neither gives the
definition's bits, and both err by less than the guard allows (`ROUNDINGS`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels.compiled import compiled
from veristate.numerics.kernels.judge import judge_sums
from veristate.numerics.kernels.native import native as native  # the one place that tells which kernel is used

# The eight signs of every byte: bit 1 is -1.
_SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
# The float32 roundings that any term of a sum may go through on its way into FP64, in whichever kernel: along a row, a
# weight rounded, a fused product and 8 additions; across a block, three levels of pairs and a conversion back.
ALONG_ROUNDINGS, ACROSS_ROUNDINGS = 10, 4


class Pass:
    """The sums of one matrix A [rows, length], in memory that the next call of the same size uses again.

    Shapes: along, along_abs [rows]; across [draws, blocks, length]; across_abs [blocks, length]. Dtypes: float64, of
    `dots` the sums across in float32. `signs` are [draws, rows].
    """

    def __init__(self) -> None:
        self._memory: dict[Any, NDArray[Any]] = {}

    def sums(self, A: NDArray[np.float32], block: int, signs: NDArray[np.float32]) -> None:
        """Plain and absolute sums along, signed and absolute sums across blocks of rows."""
        self._allocate(A, block, len(signs), np.float64)
        out = (self.along, self.along_abs, self.across, self.across_abs)
        if native is not None:
            native.sums(A, block, signs, out)
        else:
            _sums(A, block, signs, *out)

    def dots(
        self, A: NDArray[np.float32], block: int, signs: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> None:
        """sum_k A_ik weights_0k and sum_k |A_ik| weights_1k along; across as `sums`."""
        self._allocate(A, block, len(signs), np.float32)
        along, across = (self.along, self.along_abs), (self.across, self.across_abs)
        if native is not None:
            native.dots(A, block, signs, weights, along, across)
        else:
            wide = np.empty(self.across.shape), np.empty(self.across_abs.shape)
            _dots(A, block, signs, weights, *along, *wide)
            for narrow, sums in zip(across, wide, strict=True):
                narrow[:] = sums

    def _allocate(self, A: NDArray[np.float32], block: int, draws: int, dtype: type) -> None:
        rows, length = A.shape
        blocks = -(-rows // block)
        self.along, self.along_abs = self._array("along", np.float64, rows), self._array("along_abs", np.float64, rows)
        self.across = self._array("across", dtype, draws, blocks, length)
        self.across_abs = self._array("across_abs", dtype, blocks, length)

    def _array(self, name: str, dtype: type, *shape: int) -> NDArray[Any]:
        size = math.prod(shape)
        memory = self._memory.get((name, dtype))
        if memory is None or memory.size < size:
            memory = self._memory[name, dtype] = np.empty(size, dtype=dtype)
        return memory[:size].reshape(shape)


@compiled(reorder=True)
def _sums(A: Any, block: int, signs: Any, along: Any, along_abs: Any, across: Any, across_abs: Any) -> None:
    across[:] = 0.0
    across_abs[:] = 0.0
    for b in range(across_abs.shape[0]):
        start, stop = b * block, min((b + 1) * block, A.shape[0])
        tail = stop - (stop - start) % 8
        for i in range(start, tail, 8):
            _sum_eight(A[i : i + 8], signs[0, i : i + 8], along[i:], along_abs[i:], across[0, b], across_abs[b])
        for i in range(tail, stop):
            _sum_one(A[i], signs[0, i], along[i:], along_abs[i:], across[0, b], across_abs[b])
        for d in range(1, signs.shape[0]):
            _signed(A, start, stop, signs[d], across[d, b])


@compiled(reorder=True)
def _dots(
    A: Any, block: int, signs: Any, weights: Any, along: Any, along_abs: Any, across: Any, across_abs: Any
) -> None:
    across[:] = 0.0
    across_abs[:] = 0.0
    for b in range(across_abs.shape[0]):
        start, stop = b * block, min((b + 1) * block, A.shape[0])
        tail = stop - (stop - start) % 8
        for i in range(start, tail, 8):
            _dot_eight(
                A[i : i + 8], weights[0], weights[1], signs[0, i : i + 8],
                along[i:], along_abs[i:], across[0, b], across_abs[b],
            )  # fmt: skip
        for i in range(tail, stop):
            _dot_one(A[i], weights[0], weights[1], signs[0, i], along[i:], along_abs[i:], across[0, b], across_abs[b])
        for d in range(1, signs.shape[0]):
            _signed(A, start, stop, signs[d], across[d, b])


# Eight rows at once, so that a block's sums are read and written once for eight of them.
@compiled(reorder=True)
def _sum_eight(A: Any, t: Any, along: Any, along_abs: Any, signed: Any, absolute: Any) -> None:
    p0, p1, p2, p3, p4, p5, p6, p7 = A[0], A[1], A[2], A[3], A[4], A[5], A[6], A[7]
    t0, t1, t2, t3 = np.float64(t[0]), np.float64(t[1]), np.float64(t[2]), np.float64(t[3])
    t4, t5, t6, t7 = np.float64(t[4]), np.float64(t[5]), np.float64(t[6]), np.float64(t[7])
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    a0, a1, a2, a3, a4, a5, a6, a7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(absolute)):
        y0, y1, y2, y3 = np.float64(p0[j]), np.float64(p1[j]), np.float64(p2[j]), np.float64(p3[j])
        y4, y5, y6, y7 = np.float64(p4[j]), np.float64(p5[j]), np.float64(p6[j]), np.float64(p7[j])
        m0, m1, m2, m3, m4, m5, m6, m7 = abs(y0), abs(y1), abs(y2), abs(y3), abs(y4), abs(y5), abs(y6), abs(y7)
        s0, s1, s2, s3, s4, s5, s6, s7 = s0 + y0, s1 + y1, s2 + y2, s3 + y3, s4 + y4, s5 + y5, s6 + y6, s7 + y7
        a0, a1, a2, a3, a4, a5, a6, a7 = a0 + m0, a1 + m1, a2 + m2, a3 + m3, a4 + m4, a5 + m5, a6 + m6, a7 + m7
        absolute[j] += ((m0 + m1) + (m2 + m3)) + ((m4 + m5) + (m6 + m7))
        signed[j] += ((t0 * y0 + t1 * y1) + (t2 * y2 + t3 * y3)) + ((t4 * y4 + t5 * y5) + (t6 * y6 + t7 * y7))
    along[0], along[1], along[2], along[3] = s0, s1, s2, s3
    along[4], along[5], along[6], along[7] = s4, s5, s6, s7
    along_abs[0], along_abs[1], along_abs[2], along_abs[3] = a0, a1, a2, a3
    along_abs[4], along_abs[5], along_abs[6], along_abs[7] = a4, a5, a6, a7


@compiled(reorder=True)
def _sum_one(row: Any, t: Any, along: Any, along_abs: Any, signed: Any, absolute: Any) -> None:
    s, a, t0 = 0.0, 0.0, np.float64(t)
    for j in range(len(absolute)):
        y = np.float64(row[j])
        s += y
        a += abs(y)
        absolute[j] += abs(y)
        signed[j] += t0 * y
    along[0], along_abs[0] = s, a


@compiled(reorder=True)
def _dot_eight(A: Any, plain: Any, sizes: Any, t: Any, along: Any, along_abs: Any, signed: Any, absolute: Any) -> None:
    p0, p1, p2, p3, p4, p5, p6, p7 = A[0], A[1], A[2], A[3], A[4], A[5], A[6], A[7]
    t0, t1, t2, t3 = np.float64(t[0]), np.float64(t[1]), np.float64(t[2]), np.float64(t[3])
    t4, t5, t6, t7 = np.float64(t[4]), np.float64(t[5]), np.float64(t[6]), np.float64(t[7])
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    a0, a1, a2, a3, a4, a5, a6, a7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(absolute)):
        w, v = np.float64(plain[k]), np.float64(sizes[k])
        x0, x1, x2, x3 = np.float64(p0[k]), np.float64(p1[k]), np.float64(p2[k]), np.float64(p3[k])
        x4, x5, x6, x7 = np.float64(p4[k]), np.float64(p5[k]), np.float64(p6[k]), np.float64(p7[k])
        m0, m1, m2, m3, m4, m5, m6, m7 = abs(x0), abs(x1), abs(x2), abs(x3), abs(x4), abs(x5), abs(x6), abs(x7)
        s0, s1, s2, s3 = s0 + x0 * w, s1 + x1 * w, s2 + x2 * w, s3 + x3 * w
        s4, s5, s6, s7 = s4 + x4 * w, s5 + x5 * w, s6 + x6 * w, s7 + x7 * w
        a0, a1, a2, a3 = a0 + m0 * v, a1 + m1 * v, a2 + m2 * v, a3 + m3 * v
        a4, a5, a6, a7 = a4 + m4 * v, a5 + m5 * v, a6 + m6 * v, a7 + m7 * v
        absolute[k] += ((m0 + m1) + (m2 + m3)) + ((m4 + m5) + (m6 + m7))
        signed[k] += ((t0 * x0 + t1 * x1) + (t2 * x2 + t3 * x3)) + ((t4 * x4 + t5 * x5) + (t6 * x6 + t7 * x7))
    along[0], along[1], along[2], along[3] = s0, s1, s2, s3
    along[4], along[5], along[6], along[7] = s4, s5, s6, s7
    along_abs[0], along_abs[1], along_abs[2], along_abs[3] = a0, a1, a2, a3
    along_abs[4], along_abs[5], along_abs[6], along_abs[7] = a4, a5, a6, a7


@compiled(reorder=True)
def _dot_one(row: Any, plain: Any, sizes: Any, t: Any, along: Any, along_abs: Any, signed: Any, absolute: Any) -> None:
    s, a, t0 = 0.0, 0.0, np.float64(t)
    for k in range(len(absolute)):
        x = np.float64(row[k])
        s += x * plain[k]
        a += abs(x) * sizes[k]
        absolute[k] += abs(x)
        signed[k] += t0 * x
    along[0], along_abs[0] = s, a


@compiled(reorder=True)
def _signed(A: Any, start: int, stop: int, signs: Any, total: Any) -> None:
    """Another draw's sums of a block, whose rows are still in the processor's cache."""
    tail = stop - (stop - start) % 4
    for i in range(start, tail, 4):
        t0, t1 = np.float64(signs[i]), np.float64(signs[i + 1])
        t2, t3 = np.float64(signs[i + 2]), np.float64(signs[i + 3])
        p, q, r, s = A[i], A[i + 1], A[i + 2], A[i + 3]
        for j in range(len(total)):
            total[j] += (t0 * p[j] + t1 * q[j]) + (t2 * r[j] + t3 * s[j])
    for i in range(tail, stop):
        t = np.float64(signs[i])
        for j in range(len(total)):
            total[j] += t * A[i, j]


def expanded_signs(stream: bytes, count: int) -> NDArray[np.float32]:
    """[count] signs of a stream of bits, the highest of each byte first: a bit of 1 is -1."""
    if native is not None:
        return native.signs(stream, count)
    return np.asarray(_SIGNS[np.frombuffer(stream, dtype=np.uint8)].reshape(-1)[:count])


def add_by_destination(
    A: NDArray[np.float32],
    index: NDArray[np.int64],
    block: int,
    signs: NDArray[np.float32],
    across: NDArray[np.float64],
    across_abs: NDArray[np.float64],
) -> None:
    """Adds row i of A, times its destination's sign, and its absolute values, to the sums of the destination's block:
    neighbours in one block in pairs, two levels deep, before they go into float64.

    Shapes: A [n, F], index [n] of destinations, signs [destinations], across and across_abs [blocks, F or more, a
    multiple of 16].
    """
    if native is not None:
        native.scatter(A, index, block, signs, (across, across_abs))
    else:
        _scatter(A, index, block, signs, across, across_abs)


def sums_pass(
    observed: NDArray[np.float64],
    stored: NDArray[np.float64],
    expected: NDArray[np.float64],
    products: NDArray[np.float64],
    limits: NDArray[np.float64],
    lost: float,
) -> tuple[bool, float]:
    """What `judge_sums` says. Shapes: observed, stored [blocks, F]; expected, products as in `add_by_destination`."""
    if native is not None:
        return native.judge_sums(observed, stored, expected, products, limits, lost)
    return judge_sums(observed, stored, expected, products, limits, lost)


@compiled(reorder=True)
def _scatter(A: Any, index: Any, block: int, signs: Any, across: Any, across_abs: Any) -> None:
    for i in range(len(index)):
        row, sign = A[i], np.float64(signs[index[i]])
        signed, absolute = across[index[i] // block], across_abs[index[i] // block]
        for j in range(A.shape[1]):
            a = np.float64(row[j])
            signed[j] += sign * a
            absolute[j] += abs(a)
