"""The compiled kernels, where the package was built with a C compiler and the processor has AVX-512."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIBRARY = Path(__file__).with_name("_passes.so")
VERSION = 4  # of the structures below, as passes.c has it

# More suspect cells than that are for the passes that list them all.
MOST_SUSPECTS = 256
NONE = np.zeros((0, 3), dtype=np.int64)

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
AnyBits = NDArray[Any]

_POINTER, _SIZE, _DOUBLE = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
NARROW = 3  # both kinds of sums across
# How the values of X and Y are stored: float32, or the 16 bits of a narrower format.
FORMATS = {"fp32": 0, "bf16": 1, "fp16": 2}


class _Pass(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("matrix", "zeros", "signs", "weights", "weights_abs")),
        *((name, _SIZE) for name in ("stride", "sign_stride", "rows", "length", "block", "draws", "format")),
        *((name, _POINTER) for name in ("along", "along_abs", "across", "across_abs")),
        ("narrow", _SIZE),
        ("scratch", _POINTER),
    )


class _Scatter(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("matrix", "signs", "zeros", "index")),
        *((name, _SIZE) for name in ("stride", "rows", "length", "block")),
        *((name, _POINTER) for name in ("across", "across_abs")),
    )


class _Product(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("X", "Y", "zeros", "signs", "narrow_columns", "W", "b", "norms")),
        *((name, _SIZE) for name in ("format", "X_stride", "Y_stride", "sign_stride", "M", "K", "N", "block", "draws")),
        ("runs", _POINTER),
        ("run_count", _SIZE),
        *((name, _DOUBLE) for name in ("bias", "bias_abs")),
        *((name, _DOUBLE * n) for name, n in (("row_limits", 3), ("limits", 4), ("screen", 3))),
        *((name, _DOUBLE) for name in ("screen_slope", "largest")),
        ("memory", _POINTER),
        ("suspect", _POINTER),
        ("room", _SIZE),
        *((name, ctypes.c_int64) for name in ("undecided", "suspects")),
        *((name, _DOUBLE) for name in ("worst", "loudest")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What a product is checked with: W [N, K], b and norms [N], narrow_columns [2, K], runs [n, 2] of W's columns,
    sum b, sum |b| and the largest of |W|.
    """

    W: Floats
    b: Sums
    norms: Sums
    narrow_columns: Floats
    runs: NDArray[np.int64]
    bias: Sums
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The factors and rests of the comparisons in `judge.py`: of rows (3), of cells (4), and the screen's (3), whose
    rest grows by `screen_slope` times the largest operand.
    """

    rows: tuple[float, ...]
    cells: tuple[float, ...]
    screen: tuple[float, ...]
    screen_slope: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A product whose every cell surely passes: the largest residual over its limit and over its screen, and the cells
    [n, 3] (draw, block, column) above the screen.
    """

    worst: float
    loudest: float
    suspects: NDArray[np.int64]


@dataclass(slots=True)
class Room:
    """What a product works in: one for each thread."""

    memory: Sums = field(default_factory=lambda: np.empty(0))
    suspects: NDArray[np.int64] = field(default_factory=lambda: np.empty((MOST_SUSPECTS, 3), dtype=np.int64))


@dataclass(slots=True)
class Plan:
    """A call of the product kernel with all but X, Y and signs filled in, and the arrays that it points to."""

    layer: Layer
    call: Any = field(default_factory=_Product)
    zeros: Floats = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


class Native:
    """The library's functions, called on arrays: those named A may be columns of a wider one, all others are in one
    piece.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._pass = _function(library.veristate_pass, ctypes.POINTER(_Pass))
        self._scatter = _function(library.veristate_scatter, ctypes.POINTER(_Scatter))
        self._product = _function(library.veristate_product, ctypes.POINTER(_Product))
        self._judge_sums = _function(
            library.veristate_judge_sums, *[_POINTER] * 4, _SIZE, _SIZE, _POINTER, _DOUBLE, ctypes.POINTER(_DOUBLE)
        )
        self._judge_sums.restype = ctypes.c_int
        self._weights = _function(library.veristate_weights, _POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _POINTER)
        self._signs = _function(library.veristate_signs, ctypes.c_char_p, _SIZE, _POINTER)
        self._product_memory = _function(library.veristate_product_memory, ctypes.POINTER(_Product))
        self._product_memory.restype = _SIZE
        self._zeros = np.zeros(4096, dtype=np.float32)

    def sums(self, A: Floats, block: int, signs: Floats, out: tuple[Sums, Sums, Sums, Sums]) -> None:
        """The sums of A [rows, length]: along, along_abs [rows], across [draws, blocks, length], across_abs."""
        self._sums(A, block, signs, (0, 0), out, narrow=False)

    def dots(
        self,
        A: Floats,
        block: int,
        signs: Floats,
        weights: Floats,
        along: tuple[Sums, Sums],
        out: tuple[Floats, Floats],
    ) -> None:
        """The same with weighted sums along, weights [2, length], and sums across rounded to float32."""
        first = _at(weights)
        self._sums(A, block, signs, (first, first + 4 * A.shape[1]), (*along, *out), narrow=True)

    def _sums(
        self, A: Floats, block: int, signs: Floats, weights: tuple[int, int], out: Sequence[Any], *, narrow: bool
    ) -> None:
        (rows, length), draws = A.shape, len(signs)
        scratch = np.empty((draws + 1) * (length + 15) // 16 * 24 + 24 * (draws + 1))
        pointers = (_at(A), self._nothing(length), _at(signs), *weights)
        sizes = (A.strides[0] // 4, rows, rows, length, block, draws, 0)
        self._pass(_Pass(*pointers, *sizes, *map(_at, out), NARROW if narrow else 0, _at(scratch)))

    def scatter(self, A: Floats, index: NDArray[np.int64], block: int, signs: Floats, out: tuple[Sums, Sums]) -> None:
        """Adds A's rows into the sums [blocks, whole vectors] of the blocks that `index` names, with signs [places]."""
        rows, length = A.shape
        pointers = (_at(A), _at(signs), self._nothing(length), _at(index))
        self._scatter(_Scatter(*pointers, A.strides[0] // 4, rows, length, block, *map(_at, out)))

    def judge_sums(
        self, observed: Sums, stored: Sums, expected: Sums, products: Sums, limits: Sums, lost: float
    ) -> tuple[bool, float]:
        """As the function of `judge.py`; expected and products have rows of whole vectors, of which the first count."""
        worst, pointers = _DOUBLE(), map(_at, (observed, stored, expected, products))
        fine = self._judge_sums(*pointers, *observed.shape, _at(limits), lost, worst)
        return bool(fine), worst.value

    def plan(self, layer: Layer, limits: Limits, form: str, block: int) -> "Plan":
        """What is the same for every call with these weights."""
        N, K = layer.W.shape
        plan = Plan(layer=layer)
        call, plan.zeros = plan.call, np.zeros(max(K, N), dtype=np.float32)
        for name in ("W", "b", "norms", "narrow_columns", "runs"):
            setattr(call, name, _at(getattr(layer, name)))
        call.zeros, call.format, call.K, call.N, call.block = _at(plan.zeros), FORMATS[form], K, N, block
        call.run_count, call.largest, (call.bias, call.bias_abs) = len(layer.runs), layer.largest, layer.bias
        call.row_limits, call.limits, call.screen = limits.rows, limits.cells, limits.screen
        call.screen_slope = limits.screen_slope
        return plan

    def product(self, plan: "Plan", X: AnyBits, Y: AnyBits, signs: Floats, room: "Room") -> "Passed | None":
        """What the comparison says of Y = X W^T + b when every cell surely passes and few are suspect; None otherwise.

        `signs` [draws, M] may be columns of a wider array; `room` is used again from one call to the next.
        """
        call, size = _Product.from_buffer_copy(plan.call), X.itemsize
        call.X, call.Y, call.signs, call.M, call.draws = _at(X), _at(Y), _at(signs), len(X), len(signs)
        call.X_stride, call.Y_stride, call.sign_stride = (
            X.strides[0] // size,
            Y.strides[0] // size,
            signs.strides[0] // 4,
        )
        needed = self._product_memory(call)
        if len(room.memory) < needed:
            room.memory = np.empty(needed)
        call.memory, call.suspect, call.room = _at(room.memory), _at(room.suspects), len(room.suspects)
        self._product(call)
        if call.undecided or call.suspects > call.room:
            return None
        suspects = room.suspects[: call.suspects].copy() if call.suspects else NONE
        return Passed(worst=call.worst, loudest=call.loudest, suspects=suspects)

    def weights(self, W: Floats, columns: Sums, norms: Sums) -> tuple[float, float]:
        """Fills sums [2, K] and norms [N] of W [N, K]; its smallest absolute value above zero and largest finite."""
        sizes = np.empty(2)
        self._weights(_at(W), *W.shape, _at(columns), _at(sizes), _at(norms))
        return float(sizes[0]), float(sizes[1])

    def signs(self, stream: bytes, count: int) -> Floats:
        """[count] signs of a stream of bits."""
        signs = np.empty(count, dtype=np.float32)
        self._signs(stream, count, _at(signs))
        return signs

    def _nothing(self, length: int) -> int:
        """A row of zeros, for what is missing from the last group."""
        if len(self._zeros) < length:
            self._zeros = np.zeros(length, dtype=np.float32)
        return _at(self._zeros)


def _function(function: Any, *arguments: Any) -> Any:
    function.argtypes, function.restype = list(arguments), None
    return function


def _at(a: NDArray[Any]) -> int:
    return int(a.__array_interface__["data"][0])


def _load() -> Native | None:
    if os.environ.get("VERISTATE_NATIVE", "1") == "0" or not LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        return Native(library) if library.veristate_usable(VERSION) else None
    except (OSError, AttributeError):  # built for another platform, or by an older version of this package
        return None


native = _load()
