"""The streaming passes: their sums err by no more roundings than the guard counts on, and they read nothing beyond."""

import subprocess
import sys
from math import fsum

import numpy as np
import pytest

from veristate.numerics import draw_signs
from veristate.numerics.kernels import ACROSS_ROUNDINGS, ALONG_ROUNDINGS, Pass, native, passes

U = 2.0**-24


@pytest.fixture(params=["numba", "C"])
def kernel(request, monkeypatch):
    """Each kernel in turn."""
    if request.param == "numba":
        monkeypatch.setattr(passes, "native", None)
    elif native.native is None:
        pytest.skip("the C kernel was not built here, or this processor has no AVX-512")
    return request.param


def gamma(roundings):
    """What that many float32 roundings can do to a sum of terms, relative to their absolute sum; with float64's."""
    return roundings * U / (1 - roundings * U) + 2.0**-40


def normal(rng, rows, length):
    """Ordinary values."""
    return rng.normal(size=(rows, length))


def one_sign(rng, rows, length):
    """Positive values with long significands, whose roundings don't cancel."""
    return rng.uniform(1, 2, (rows, length))


def huge_and_small(rng, rows, length):
    """Huge values that cancel, by turns with small ones."""
    values = rng.normal(size=(rows, length))
    values[:, ::2] = 1e12 * (-1.0) ** np.arange(values[:, ::2].shape[1])
    return values


def lost(rng, rows, length):
    """After a first value in every lane, only ones just too small to change it: each is lost."""
    values = np.full((rows, length), U * (1 - 2.0**-20))
    values[:, :16] = 1.0
    values[1::8] = U * (1 - 2.0**-20)
    return values


def subnormal(rng, rows, length):
    """Values whose sums are subnormal."""
    return rng.normal(size=(rows, length)) * 2.0**-140


# Steps of 13: every remainder by the 16 lanes.
SHAPES = [(1 + 7 * length % 41, length) for length in range(1, 301, 13)]
SHAPES += [(rows, length) for rows in (1, 7, 8, 9, 33) for length in (1, 15, 16, 17, 127, 128, 129, 300)]
SHAPES += [(9, 2000), (3, 4097)]
FAMILIES = (normal, one_sign, huge_and_small, lost, subnormal)


def assert_close(found, terms, roundings):
    """Every sum found is within its roundings of the exact sum of the terms along the last axis."""
    exact = np.array([fsum(row) for row in terms.reshape(-1, terms.shape[-1])]).reshape(terms.shape[:-1])
    size = np.array([fsum(row) for row in np.abs(terms).reshape(-1, terms.shape[-1])]).reshape(exact.shape)
    assert (np.abs(found - exact) <= gamma(roundings) * size + 2.0**-148).all()


def assert_across(found, A, signs, block):
    """The sums over blocks of rows, of each draw."""
    for draw, sums in zip(signs, found, strict=True):
        for number, start in enumerate(range(0, len(A), block)):
            terms = (draw[:, None] * A)[start : start + block].astype(np.float64).T
            # A conversion to float32 is counted for what carries it.
            assert_close(sums[number], terms, ACROSS_ROUNDINGS if found.dtype == np.float32 else ACROSS_ROUNDINGS - 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_sums_err_by_the_roundings_that_are_counted(family, kernel):
    """Sums along rows and across blocks, plain, absolute and signed, against exact ones, for every length and mask."""
    found = Pass()
    for rows, length in SHAPES:
        rng = np.random.default_rng([rows, length])
        A, block = family(rng, rows, length).astype(np.float32), int(rng.integers(1, rows + 3))
        signs = draw_signs(rows, b"s", draws=int(rng.integers(1, 4)))
        found.sums(A, block, signs)
        wide = A.astype(np.float64)
        assert_close(found.along, wide, ALONG_ROUNDINGS - 2)
        assert_close(found.along_abs, np.abs(wide), ALONG_ROUNDINGS - 2)
        assert_across(found.across, A, signs, block)
        assert_across(found.across_abs[None], np.abs(A), np.ones((1, rows)), block)


@pytest.mark.parametrize("family", FAMILIES)
def test_weighted_sums_err_by_the_roundings_that_are_counted(family, kernel):
    """Sums of a row times float64 weights, which the pass takes in float32, against exact ones; across as without."""
    found = Pass()
    for rows, length in SHAPES:
        rng = np.random.default_rng([rows, length])
        A, block = family(rng, rows, length).astype(np.float32), int(rng.integers(1, rows + 3))
        signs = draw_signs(rows, b"s", draws=int(rng.integers(1, 4)))
        high = family(rng, 2, length).astype(np.float32)
        high[1] = np.abs(high[1])
        # Weights of 48 bits: the parts' products are exact in float64, and the low part is what float32 leaves away.
        low = high.astype(np.float64) * rng.uniform(-1, 1, high.shape).astype(np.float16) * U
        found.dots(A, block, signs, (high + low).astype(np.float32))
        for sums, values, part in ((found.along, A, 0), (found.along_abs, np.abs(A), 1)):
            terms = np.concatenate([values * high[part].astype(np.float64), values * low[part]], axis=1)
            assert_close(sums, terms, ALONG_ROUNDINGS)
        assert_across(found.across, A, signs, block)
        assert_across(found.across_abs[None], np.abs(A), np.ones((1, rows)), block)


def test_memory_of_a_larger_call_leaves_nothing_in_a_smaller_one(kernel):
    """A pass that has run on a larger matrix gives a smaller one's sums as a new pass does, bit for bit."""
    rng = np.random.default_rng(1)
    used, large, small = Pass(), *(rng.normal(size=shape).astype(np.float32) for shape in ((90, 77), (21, 40)))
    weights = rng.normal(size=(2, 77)).astype(np.float32)
    used.sums(large, 8, draw_signs(90, b"s", 3))
    used.dots(large, 8, draw_signs(90, b"s", 3), weights)
    for name, arguments in (("sums", ()), ("dots", (np.ascontiguousarray(weights[:, :40]),))):
        new = Pass()
        for one in (used, new):
            getattr(one, name)(small, 16, draw_signs(21, b"t", 2), *arguments)
        for kind in ("along", "along_abs", "across", "across_abs"):
            assert np.array_equal(getattr(used, kind), getattr(new, kind))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_reaches_its_own_sums_and_no_other(value, kernel):
    """A NaN or an infinity shows in its row and its block's column, and all other sums stay numbers."""
    A = np.ones((21, 37), dtype=np.float32)
    A[17, 30] = value
    found = Pass()
    found.sums(A, 8, draw_signs(21, b"s", 2))
    assert np.argwhere(~np.isfinite(found.along)).tolist() == [[17]]
    assert np.argwhere(~np.isfinite(found.across)).tolist() == [[0, 2, 30], [1, 2, 30]]
    found.dots(A, 8, draw_signs(21, b"s", 1), np.ones((2, 37), dtype=np.float32))
    assert np.argwhere(~np.isfinite(found.along_abs)).tolist() == [[17]]
    assert np.argwhere(~np.isfinite(found.across_abs)).tolist() == [[2, 30]]


# Arrays that end where a page ends, with a page after it that nothing may touch. "beyond" touches it.
FENCED = """
import ctypes, mmap, sys
import numpy as np
from veristate.numerics.kernels.native import native

page, kept, libc = mmap.PAGESIZE, [], ctypes.CDLL(None)


def fenced(a):
    size = -(-a.nbytes // page) * page
    kept.append(mmap.mmap(-1, size + page))
    memory = np.frombuffer(kept[-1], dtype=np.uint8)
    assert libc.mprotect(ctypes.c_void_p(memory.ctypes.data + size), page, 0) == 0
    if sys.argv[1] == "beyond":
        memory[size]
    out = memory[size - a.nbytes : size].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


for rows, length, block in ((1, 1, 1), (7, 15, 3), (8, 16, 8), (9, 17, 32), (33, 130, 32), (13, 300, 5), (5, 4500, 4)):
    blocks = -(-rows // block)
    A, weights = fenced(np.ones((rows, length), np.float32)), fenced(np.ones((2, length), np.float32))
    for draws in (1, 3):
        signs = fenced(np.ones((draws, rows), np.float32))
        along = fenced(np.zeros(rows)), fenced(np.zeros(rows))
        across = fenced(np.zeros((draws, blocks, length))), fenced(np.zeros((blocks, length)))
        native.sums(A, block, signs, (*along, *across))
        assert (along[0] == length).all() and across[0].sum() == draws * rows * length
        narrow = tuple(fenced(a.astype(np.float32)) for a in across)
        native.dots(A, block, signs, weights, along, narrow)
        assert (along[1] == length).all() and narrow[0].sum() == draws * rows * length
"""


def test_the_c_kernel_touches_nothing_beyond_its_arrays():
    """Arrays before a forbidden page are read and written without touching it; touching it ends the process."""
    if native.native is None:
        pytest.skip("the C kernel was not built here, or this processor has no AVX-512")
    inside, beyond = (subprocess.run([sys.executable, "-c", FENCED, mode], check=False) for mode in ("in", "beyond"))
    assert inside.returncode == 0
    assert beyond.returncode < 0
