"""The check in whole numbers: exact Python integers as oracle, planted errors, and the law of a single word."""

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError, RefusedError
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, accumulator_limit, check_integers, words_needed
from veristate.numerics.probes.integers import chance


def layer(seed, rows=20, K=30, N=12, bits=16):
    """Random operands and their exact accumulators."""
    rng = np.random.default_rng(seed)
    W, X = (rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), s) for s in ((N, K), (rows, K)))
    b = rng.integers(-(2**20), 2**20, N)
    exact = [
        [sum(int(w) * int(x) for w, x in zip(W[j], X[i], strict=True)) + int(b[j]) for j in range(N)]
        for i in range(rows)
    ]
    return W, b, X, np.array(exact)


def checked(W, b, X, Y, draws=None, weights="w", entropy=os.urandom):
    """What the check says of each row."""
    limit = accumulator_limit(W, b, 2**15)
    plan = ProbePlan(delta="1e-9", rows=len(Y), draws=draws or words_needed("1e-9", len(Y), limit))
    probes = ProbeAccount(plan, entropy).draw(Export.fix({"a": [Y]}, "w"))
    return check_integers(probes, "a", W, b, X, limit, weights=weights)


@given(st.integers(0, 10**9), st.integers(0, 19), st.sampled_from(["one", "pair", "high", "beyond"]))
@settings(max_examples=15, deadline=None)
def test_right_rows_always_pass_and_wrong_ones_do_not(seed, row, planted):
    """No false alarm, and single units, cancelling pairs and high bits are found."""
    W, b, X, Y = layer(seed)
    wrong = Y.copy()
    if planted == "one":
        wrong[row, 3] += 1
    elif planted == "pair":
        wrong[row, 3] += 1
        wrong[row, 7] -= 1
    else:
        wrong[row, 3] += 2**30 if planted == "high" else 2**62
    assert checked(W, b, X, Y).all()
    assert np.flatnonzero(~checked(W, b, X, wrong)).tolist() == [row]


def test_one_word_misses_an_error_as_often_as_the_law_says():
    """An error of 2^61 passes a word when the word's lowest three bits are zero: once in eight."""
    rng = np.random.default_rng(5)
    words = rng.integers(0, 2**64, 40_000, dtype=np.uint64)
    passed = (words * np.uint64(2**61) == 0).mean()
    assert abs(passed - 2**-3) < 0.01
    assert chance(1, 2**61, 1) >= Fraction(1, 2**3)
    assert chance(3, 2**31 - 1, 2) == Fraction(3, 2**66)


def test_the_largest_accumulator_is_exact():
    """In Python's integers, beyond what 64 bits hold."""
    W, b = np.array([[2**40, -(2**40)], [1, 1]]), np.array([5, -7])
    assert accumulator_limit(W, b, 2**40) == 2**81 + 5
    least = np.array([np.iinfo(np.int64).min])
    assert accumulator_limit(least[None], least, 2) == 3 * 2**63
    with pytest.raises(InputError, match="narrower"):
        words_needed("1e-9", 1, 2**81)


def test_words_that_do_not_suffice_stale_weights_and_used_probes_are_refused():
    """Each with its reason."""
    W, b, X, Y = layer(1)
    with pytest.raises(InputError, match="stale"):
        checked(W, b, X, Y, weights="other")
    with pytest.raises(InputError, match="int64"):
        checked(W, b, X, Y.astype(float))
    limit = accumulator_limit(W, b, 2**15)
    plan = ProbePlan(delta="1e-40", rows=20, draws=2)
    probes = ProbeAccount(plan, os.urandom).draw(Export.fix({"a": [Y]}, "w"))
    with pytest.raises(InputError, match="delta"):
        check_integers(probes, "a", W, b, X, limit, weights="w")
    probes.words("a")
    with pytest.raises(RefusedError, match="used"):
        probes.take("a")
