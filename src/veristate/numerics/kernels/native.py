"""The compiled streaming pass, where the package was built with a C compiler and the processor has AVX-512."""

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIBRARY = Path(__file__).with_name("_passes.so")

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_ssize_t


class _Pass(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("matrix", "signs", "weights", "weights_abs", "zeros")),
        *((name, _SIZE) for name in ("stride", "rows", "length", "block", "draws")),
        *((name, _POINTER) for name in ("along", "along_abs", "across", "across_abs", "narrow", "narrow_abs")),
    )


class _Scatter(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("matrix", "signs", "index")),
        *((name, _SIZE) for name in ("stride", "rows", "length", "block")),
        *((name, _POINTER) for name in ("across", "across_abs")),
    )


class Native:
    """The library's functions, called on arrays: those named A may be columns of a wider one, all others are in one
    piece.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._pass, self._scatter = library.veristate_pass, library.veristate_scatter
        self._pass.argtypes, self._pass.restype = [ctypes.POINTER(_Pass)], None
        self._scatter.argtypes, self._scatter.restype = [ctypes.POINTER(_Scatter)], None
        self._zeros = np.zeros(4096, dtype=np.float32)

    def sums(self, A: Floats, block: int, signs: Floats, out: tuple[Sums, Sums, Sums, Sums]) -> None:
        """The sums of A [rows, length]: along, along_abs [rows], across [draws, blocks, length], across_abs."""
        rows, length = A.shape
        sizes = (A.strides[0] // 4, rows, length, block, len(signs))
        self._pass(_Pass(_at(A), _at(signs), 0, 0, self._nothing(length), *sizes, *map(_at, out), 0, 0))

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
        rows, length = A.shape
        scratch = np.empty((len(signs) + 1, length))
        first = _at(weights)
        sizes = (A.strides[0] // 4, rows, length, block, len(signs))
        across = (_at(scratch), _at(scratch) + 8 * length * len(signs))
        pointers = (_at(A), _at(signs), first, first + 4 * length, self._nothing(length))
        self._pass(_Pass(*pointers, *sizes, *map(_at, along), *across, *map(_at, out)))

    def scatter(self, A: Floats, index: NDArray[np.int64], block: int, signs: Floats, out: tuple[Sums, Sums]) -> None:
        """Adds A's rows into the sums [blocks, length] of the blocks that `index` names, with the signs [places]."""
        rows, length = A.shape
        self._scatter(_Scatter(_at(A), _at(signs), _at(index), A.strides[0] // 4, rows, length, block, *map(_at, out)))

    def _nothing(self, length: int) -> int:
        """A row of zeros, for what is missing from the last group."""
        if len(self._zeros) < length:
            self._zeros = np.zeros(length, dtype=np.float32)
        return _at(self._zeros)


def _at(a: NDArray[Any]) -> int:
    return int(a.__array_interface__["data"][0])


def _load() -> Native | None:
    if os.environ.get("VERISTATE_NATIVE", "1") == "0" or not LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        return Native(library) if library.veristate_usable() else None
    except (OSError, AttributeError):  # built for another platform, or by an older version of this package
        return None


native = _load()
