"""The product kernel: one call passes only what the two-step guard passes, for any format, threads and alignment."""

import subprocess
import sys

import numpy as np
import pytest

from veristate.numerics import (
    Guard,
    Operands,
    Stored,
    Weights,
    bf16_arithmetic,
    check_linear,
    draw_signs,
    fp16_arithmetic,
    fp32_arithmetic,
    guard,
    storage_bits,
)
from veristate.numerics.kernels import fp64, native, passes, products, weights

from . import honest

SHAPES = [(1, 1, 1), (7, 3, 5), (32, 16, 32), (33, 17, 33), (130, 65, 40), (65, 130, 31), (300, 300, 65), (64, 200, 1)]
STORED = {
    "bf16": (bf16_arithmetic(bias=True), honest.B16),
    "fp16": (fp16_arithmetic(bias=True, flush=False), honest.F16),
}

needs_c = pytest.mark.skipif(native.native is None, reason="the C kernel was not built here, or there is no AVX-512")


def honest_call(shape, seed, form=honest.F32):
    """X, W, b and an honest Y in the given format, as float32 arrays."""
    X, W, b = honest.operands("normal", shape, seed, narrowed=form != honest.F32)
    if form == honest.F16:
        X, W, b = (a.astype(np.float16).astype(np.float32) for a in (X, W, b))
    Y = honest.narrow(X.astype(np.float64) @ W.T.astype(np.float64) + b, form).astype(np.float32)
    return X, W, b, Y


def stored_call(X, W, b, Y, representation):
    """The call with X and Y as the bits they are stored in."""
    held = np.float16 if representation == "fp16" else np.float32
    X, Y = (Stored(bits=storage_bits(a.astype(held), representation), representation=representation) for a in (X, Y))
    return Operands.of(X, Weights.of(W, b), None, Y)


def without_c(monkeypatch, check):
    """What `check` gives when there is no C kernel."""
    with monkeypatch.context() as patched:
        patched.setattr(passes, "native", None)
        return check()


@needs_c
@pytest.mark.parametrize("shape", SHAPES[2:])
@pytest.mark.parametrize("draws", [1, 3])
def test_its_shares_are_those_of_the_two_step_guard(shape, draws, monkeypatch):
    """One call finds the largest shares that passes, product and comparison find, but for the product's roundings."""
    X, W, b, Y = honest_call(shape, 1)
    arithmetic, call = fp32_arithmetic(bias=True, flush=False), Operands.of(X, Weights.of(W, b), None, Y)
    one = Guard().check(call, arithmetic, seed=b"s", draws=draws)
    monkeypatch.setattr(guard, "usable", lambda: False)
    two = Guard().check(call, arithmetic, seed=b"s", draws=draws)
    assert one.undecided == two.undecided == 0
    assert one.worst == pytest.approx(two.worst, rel=0.3, abs=0.05)
    assert one.elements.loudest == pytest.approx(two.elements.loudest, rel=0.3, abs=0.1)


@pytest.mark.parametrize("representation", STORED)
@pytest.mark.parametrize("shape", SHAPES)
def test_stored_bits_are_checked_as_the_values_they_stand_for(representation, shape):
    """Operands given as 16-bit values have the check that the same values have in float32, faulty or not."""
    arithmetic, form = STORED[representation]
    X, W, b, Y = honest_call(shape, 2, form)
    for wrong in (False, True):
        if wrong:
            Y[-1, -1] = 512.0
        stored, wide = stored_call(X, W, b, Y, representation), Operands.of(X, Weights.of(W, b), None, Y)
        assert np.array_equal(stored.of_rows(np.array([0])).X, X[:1])
        ours, theirs = (Guard().check(call, arithmetic, seed=b"s", draws=2) for call in (stored, wide))
        assert (ours.worst, ours.elements.loudest, ours.undecided) == (
            theirs.worst,
            theirs.elements.loudest,
            theirs.undecided,
        )
        for mine, other in ((ours.rows, theirs.rows), (ours.columns, theirs.columns)):
            assert np.array_equal(mine.flag, other.flag)
        assert (ours.elements.rows.tolist(), ours.elements.columns.tolist()) == (
            theirs.elements.rows.tolist(),
            theirs.elements.columns.tolist(),
        )
        assert ours.verdict() == ("FLAG" if wrong else "PASS")


@needs_c
def test_a_healthy_call_in_stored_bits_is_never_widened():
    """Where every cell surely passes, no float32 copy of a bfloat16 operand is made."""
    X, W, b, Y = honest_call((64, 80, 48), 3, honest.B16)
    call = stored_call(X, W, b, Y, "bf16")
    assert Guard(screen=None).check(call, bf16_arithmetic(bias=True), seed=b"s").undecided == 0
    assert not call._wide


@needs_c
@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("draws", [1, 2])
def test_nothing_found_depends_on_the_number_of_threads(wrong, draws, monkeypatch):
    """Any number of threads gives the same check, bit for bit, and suspects named in the same rows."""
    monkeypatch.setattr(products, "THREADED", 0)
    X, W, b, Y = honest_call((1000, 40, 30), 4, honest.B16)
    if wrong:
        Y[[3, 500, 999], [2, 7, 29]] *= 1.5
    call, arithmetic = Operands.of(X, Weights.of(W, b), None, Y), bf16_arithmetic(bias=True)
    serial, *others = (
        Guard(threads=threads).check(call, arithmetic, seed=b"s", draws=draws) for threads in (1, 2, 3, 7, 64)
    )
    assert wrong == bool(serial.elements.proven.any())
    for check in others:
        assert (check.worst, check.elements.loudest) == (serial.worst, serial.elements.loudest)
        assert np.array_equal(check.rows.flag, serial.rows.flag)
        assert np.array_equal(check.columns.flag, serial.columns.flag)
        assert np.array_equal(check.elements.rows, serial.elements.rows)
        assert np.array_equal(check.elements.columns, serial.elements.columns)


@needs_c
def test_what_a_later_thread_suspects_is_found_in_its_own_block(monkeypatch):
    """A wrong element in a cell above the screen and below its bound is found, by whichever thread reads its block."""
    monkeypatch.setattr(products, "THREADED", 0)
    X, W, b, Y = honest_call((320, 64, 16), 5)
    Y[200, 3] += 400 * 2.0**-24 * np.abs(X[200]) @ np.abs(W[3])
    call = Operands.of(X, Weights.of(W, b), None, Y)
    for threads in (1, 2, 5):
        check = Guard(threads=threads).check(call, fp32_arithmetic(bias=True, flush=False), seed=b"s")
        assert check.undecided == 0
        assert (check.elements.rows.tolist(), check.elements.columns.tolist()) == ([200], [3])


@needs_c
def test_small_calls_start_no_thread(monkeypatch):
    """Below the size where threads pay, a guard that may use many uses none."""
    monkeypatch.setattr(products, "ThreadPoolExecutor", None)
    X, W, b, Y = honest_call((64, 80, 48), 6)
    call = Operands.of(X, Weights.of(W, b), None, Y)
    assert Guard(threads=8).check(call, fp32_arithmetic(bias=True, flush=False), seed=b"s").verdict() == "PASS"


@needs_c
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-41])
@pytest.mark.parametrize("where", ["X", "Y", "b", "W"])
def test_strange_values_have_the_definitions_flags(where, value):
    """What is not finite, overflows or is subnormal is never passed by mistake: the flags are the definition's."""
    X, W, b, Y = honest_call((70, 33, 40), 7)
    {"X": X, "Y": Y, "b": b, "W": W}[where].flat[5] = value
    call, arithmetic = Operands.of(X, Weights.of(W, b), None, Y), fp32_arithmetic(bias=True, flush=False)
    fast, slow = Guard().check(call, arithmetic, seed=b"s"), check_linear(call, arithmetic, seed=b"s")
    assert np.array_equal(fast.rows.flag, slow.rows.flag)
    assert np.array_equal(fast.columns.flag, slow.columns.flag)
    assert np.array_equal(fast.columns.inapplicable, slow.columns.inapplicable)


@needs_c
@pytest.mark.parametrize("shape", [(1, 1), (3, 15), (16, 16), (40, 33), (7, 300)])
def test_what_it_reads_of_the_weights_is_the_definitions(shape):
    """Sums of W in the definition's bits, its exact extremes, and its norms, also of zeros and what is not finite."""
    for value in (None, 0.0, np.nan, np.inf, 1e-41):
        W = np.random.default_rng(8).normal(size=shape).astype(np.float32)
        if value is not None:
            W.flat[W.size // 2] = value
        columns, sizes, norms = weights.read_weights(W)
        wanted = np.empty((2, shape[1]))
        weights.weight_sums(W, wanted)
        assert np.array_equal(columns, wanted, equal_nan=True)
        assert sizes == weights.weight_sizes(W)
        assert np.allclose(norms, np.sqrt((W.astype(np.float64) ** 2).sum(axis=1)), rtol=1e-12, equal_nan=True)


@needs_c
def test_signs_are_the_same_with_and_without_c(monkeypatch):
    """The record of a seed repeats its signs on any machine."""
    for length, draws in ((1, 1), (7, 3), (8, 1), (16, 2), (33, 5), (1000, 3)):
        ours = draw_signs(length, b"seed", draws)
        assert np.array_equal(ours, without_c(monkeypatch, lambda n=length, d=draws: draw_signs(n, b"seed", d)))


@needs_c
def test_sums_by_destination_are_judged_the_same_with_and_without_c(monkeypatch):
    """C's comparison passes and rates what the other one does: within limits, beyond, not finite, and nothing."""
    rng = np.random.default_rng(9)
    for blocks, length in ((1, 1), (3, 17), (5, 64)):
        wide = -(-length // 16) * 16
        products_, stored = rng.uniform(1, 2, (blocks, wide)), rng.uniform(0, 1, (blocks, length))
        expected = rng.normal(size=(blocks, wide))
        limits = np.stack([rng.uniform(0.1, 0.2, blocks), np.full(blocks, -1e-3)], axis=1)
        for change in (0.0, 1e-3, 1.0, np.nan, np.inf):
            observed = np.ascontiguousarray(expected[:, :length]) + 1e-4
            observed[-1, -1] += change
            arguments = (observed, stored, expected, products_, limits, 0.01)
            ours = passes.sums_pass(*arguments)
            theirs = without_c(monkeypatch, lambda a=arguments: passes.sums_pass(*a))
            assert ours[0] == theirs[0] == (change < 0.05)
            assert not ours[0] or ours[1] == pytest.approx(theirs[1], rel=1e-12)


FENCED = """
import ctypes, mmap
import numpy as np
from veristate.numerics import Guard, Operands, Stored, Weights, bf16_arithmetic, fp32_arithmetic, storage_bits

page, kept, libc = mmap.PAGESIZE, [], ctypes.CDLL(None)


def fenced(a):
    size = -(-a.nbytes // page) * page
    kept.append(mmap.mmap(-1, size + page))
    memory = np.frombuffer(kept[-1], dtype=np.uint8)
    assert libc.mprotect(ctypes.c_void_p(memory.ctypes.data + size), page, 0) == 0
    out = memory[size - a.nbytes : size].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


for M, K, N in ((1, 1, 1), (7, 15, 3), (40, 33, 40), (65, 300, 31)):
    X, W = (np.ones(shape, np.float32) for shape in ((M, K), (N, K)))
    weights = Weights.of(fenced(W))
    call = Operands.of(fenced(X), weights, None, fenced(X @ W.T))
    assert Guard().check(call, fp32_arithmetic(bias=False, flush=False), seed=b"s", draws=2).verdict() == "PASS"
    X, Y = (fenced(storage_bits(np.ones(shape, np.float32), "bf16")) for shape in ((M, K), (M, N)))
    X, Y = (Stored(bits=bits, representation="bf16") for bits in (X, Y))
    Guard().check(Operands.of(X, weights, None, Y), bf16_arithmetic(bias=False), seed=b"s")
"""


@needs_c
def test_it_reads_nothing_beyond_its_operands():
    """Operands before a forbidden page are read without touching it."""
    assert subprocess.run([sys.executable, "-c", FENCED], check=False).returncode == 0


LAZY = """
import sys
import numpy as np
from veristate.numerics import Guard, Operands, Weights, check_linear, check_scatter_sum, fp32_arithmetic
from veristate.numerics.kernels import native

arithmetic = fp32_arithmetic(bias=False, flush=False)
X, W = np.ones((40, 32), np.float32), np.ones((7, 32), np.float32)
call = Operands.of(X, Weights.of(W), None, X @ W.T)
assert "numba" not in sys.modules
assert Guard().check(call, arithmetic, seed=b"s").verdict() == "PASS"
sums = np.array([[14] * 32, [13] * 32, [13] * 32], np.float32)
assert check_scatter_sum(X, np.arange(40) % 3, None, sums, arithmetic, seed=b"s").sure
assert native.native is None or "numba" not in sys.modules
assert check_linear(call, arithmetic).verdict() == "PASS"
assert "numba" in sys.modules
"""


def test_numba_is_loaded_by_the_first_kernel_that_needs_it():
    """Importing the package loads no numba; healthy checks in C need none; the definition does, and gets it."""
    assert subprocess.run([sys.executable, "-c", LAZY], check=False).returncode == 0


def test_a_compiled_function_calls_another_and_keeps_its_name():
    """Kernels that call kernels compile together, and keep their docstrings."""
    assert fp64.scatter_elements.__name__ == "scatter_elements"
    assert "places" in fp64.scatter_elements.__doc__
    A, signs = np.ones((9, 3), dtype=np.float32), np.ones((1, 9), dtype=np.float32)
    out = np.empty(9), np.empty(9), np.empty((1, 1, 3)), np.empty((1, 3))
    passes._sums(A, 9, signs, *out)
    assert out[0].tolist() == [3.0] * 9
    assert out[2].ravel().tolist() == [9.0] * 3
