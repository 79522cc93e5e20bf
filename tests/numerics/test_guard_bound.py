"""What the guard lets pass without the definition is within the exact bound of A.3, whatever the order of its sums."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.numerics import Cells, Guard, Operands, Weights, bf16_arithmetic, draw_signs, fp32_arithmetic
from veristate.numerics import guard as guard_module
from veristate.numerics.kernels import passes

from . import honest
from .thresholds import columns_near, rows_near


def exact_bound(arithmetic, products, stored, bias, *, terms, elements, largest):
    """Beta of A.3 as a Fraction, written out: what an honest result's residual never exceeds."""
    u = 2 * Fraction(2) ** -arithmetic.accumulate.precision
    growth = (1 + u) ** (terms + 3)
    flush = arithmetic.flush
    eta = Fraction(2) ** (-126 if flush else -150)
    absolute = growth * ((2 * terms + 2) * eta + (2 * terms * Fraction(2) ** -126 * largest if flush else 0))
    total = (growth - 1) * products + elements * absolute
    stored_eta = Fraction(2) ** (-126 if flush else arithmetic.storage.exponent_min - arithmetic.storage.precision)
    total += elements * 2 * stored_eta
    if arithmetic.storage.precision < 24:
        s = Fraction(2) ** -arithmetic.storage.precision
        s = s / (1 - s)
        total += s * stored
        if arithmetic.bias == "separate":
            total += s * ((1 + 2 * s) * stored + bias)
    return total


def shuffled_product(rng):
    """A product in float32 that adds in an order of its own, another in every call."""

    def product(A, W):
        total = np.zeros((len(A), len(W)), dtype=np.float32)
        for k in rng.permutation(A.shape[1]):
            total = total + A[:, k, None] * W[None, :, k]
        return total

    return product


def all_flagged(call, arithmetic, *places):
    """Cells in place of the definition's, all of them flagged: what passes was let pass by the guard alone."""
    size = len(places[-1])
    every = np.ones(size, dtype=bool)
    return Cells(flag=every, inapplicable=~every, residual=np.ones(size), bound=np.ones(size))


def exact_cells(call, arithmetic, signs, block):
    """For rows and then blocks of columns, whether a cell's exact residual is within its exact bound."""
    X, W, b, Y = call.X, call.weights.W, call.weights.b, call.Y
    errors, stored = honest.exact_errors(X, W, b, Y), honest.integers(np.abs(Y)) << honest.BITS
    products = honest.exact(np.abs(X), np.abs(W), np.abs(b))
    bias = np.broadcast_to(honest.integers(np.abs(b)) << honest.BITS, Y.shape)
    largest = Fraction(float(max(np.abs(X).max(), np.abs(W).max())))

    def within(rows, columns, signs):
        sums = (honest.as_fraction(int(a[rows, columns].sum())) for a in (products, stored, bias))
        size = errors[rows, columns].size
        bound = exact_bound(arithmetic, *sums, terms=X.shape[1], elements=size, largest=largest)
        return honest.as_fraction(abs(int((signs[:, None] * errors[rows, columns]).sum()))) <= bound

    M, N = Y.shape
    every, ones = slice(None), np.ones(1, dtype=object)
    rows = [within(slice(i, i + 1), every, ones) for i in range(M)]
    blocks = [slice(start, min(start + block, M)) for start in range(0, M, block)]
    columns = [[within(rows, slice(j, j + 1), signs[rows].astype(object)) for j in range(N)] for rows in blocks]
    return np.array(rows), np.array(columns)


@settings(deadline=None, max_examples=150)
@given(
    number=st.integers(0, 2**32),
    shape=st.tuples(st.integers(1, 12), st.integers(2, 60), st.integers(1, 12)),
    family=st.sampled_from(list(honest.FAMILIES)),
    narrowed=st.booleans(),
    biased=st.booleans(),
    by_rows=st.booleans(),
    use_numba=st.booleans(),
)
def test_what_the_guard_lets_pass_is_within_the_exact_bound(
    number, shape, family, narrowed, biased, by_rows, use_numba
):
    """A cell passed without the definition has an exact residual within the exact bound, for every order of sums."""
    rng = np.random.default_rng(number)
    X, W, b = honest.operands(family, shape, number % 1000, narrowed=narrowed)
    form = honest.B16 if narrowed else honest.F32
    weights = Weights.of(W, b if biased else None)
    Y = honest.narrow(X.astype(np.float64) @ W.T.astype(np.float64) + weights.b, form)
    arithmetic = bf16_arithmetic(bias=biased) if narrowed else fp32_arithmetic(bias=biased, flush=False)
    options = {"block": int(rng.integers(1, shape[0] + 1)), "seed": b"s"}
    signs = draw_signs(shape[0], b"s").astype(int).ravel()
    call = Operands.of(X, weights, None, Y.astype(np.float32))
    near = rows_near(call, arithmetic, form, rng, **options)
    if not by_rows:
        near = columns_near(call, arithmetic, form, rng, signs.astype(float), **options)
    calls = list(near)
    call = calls[rng.integers(len(calls))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(guard_module, "row_cells", all_flagged)
        patched.setattr(guard_module, "column_cells", all_flagged)
        if use_numba:
            patched.setattr(passes, "native", None)
        fast = Guard(product=shuffled_product(rng), screen=None).check(call, arithmetic, **options)
    if not isinstance(fast.rows, Cells):  # the definition's own: no fast path
        rows, columns = exact_cells(call, arithmetic, signs, options["block"])
        assert (fast.rows.flag | rows).all()
        assert (fast.columns.flag[0] | columns).all()
