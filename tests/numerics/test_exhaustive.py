"""Every element for itself: what a float32 product can't clear goes to the definition, and nothing is lost."""

import numpy as np
import pytest

from veristate.core import InputError
from veristate.numerics import (
    Operands,
    Weights,
    bf16_arithmetic,
    check_elements,
    fp16_arithmetic,
    fp32_arithmetic,
    fp64_arithmetic,
    wrong_elements,
)

from . import honest

SHAPE = (600, 70, 21)  # more rows than one product takes
ARITHMETICS = {
    "fp32": (fp32_arithmetic(bias=True, flush=False), honest.F32),
    "fp32 flushed": (fp32_arithmetic(bias=True, flush=True), honest.F32),
    "bf16": (bf16_arithmetic(bias=True), honest.B16),
    "fp16": (fp16_arithmetic(bias=True, flush=False), honest.F16),
}


def assert_same(call, arithmetic):
    """The elements are those that the definition flags, with its bounds. Returns how many."""
    every, found = check_elements(call, arithmetic), wrong_elements(call, arithmetic)
    marked = np.zeros_like(every.flag)
    marked[found.rows, found.columns] = True
    assert np.array_equal(marked, every.flag)
    assert found.proven.all()
    assert found.examined == call.Y.size
    assert np.allclose(found.bound, every.bound[found.rows, found.columns], rtol=1e-9, equal_nan=True)
    return len(found.rows)


@pytest.mark.parametrize("family", honest.FAMILIES)
@pytest.mark.parametrize("name", ARITHMETICS)
def test_the_wrong_elements_are_those_the_definition_flags(name, family):
    """Elements moved by about their own bounds are found where, and only where, the definition flags them."""
    arithmetic, form = ARITHMETICS[name]
    narrowed = form != honest.F32
    X, W, b = honest.operands(family, SHAPE, 1, narrowed=narrowed)
    rng, weights = np.random.default_rng(1), Weights.of(W, b)
    exact = X.astype(np.float64) @ W.T.astype(np.float64) + b
    limit = min(60000.0, float(np.abs(exact).max())) if name == "fp16" else np.inf
    Y = honest.narrow(np.clip(exact, -limit, limit), form).astype(np.float32)
    bound = check_elements(Operands.of(X, weights, None, Y), arithmetic).bound
    moves = bound * rng.uniform(0.5, 1.6, Y.shape) * rng.choice([-1, 0, 0, 0, 1], Y.shape)
    wrong = honest.narrow(Y + moves, form).astype(np.float32)
    count = assert_same(Operands.of(X, weights, None, wrong), arithmetic)
    assert count or family in ("subnormal products", "tiny products", "subnormal operands") or name == "fp16"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 0.0, -1e-41])
@pytest.mark.parametrize("where", ["X", "W", "b", "Y"])
@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_strange_values_have_the_definitions_flags(name, where, value):
    """NaN, infinities, overflow and subnormals, single and everywhere, in operands and outputs."""
    arithmetic = ARITHMETICS[name][0]
    for everywhere in (False, True):
        X, W, b = honest.operands("normal", (20, 33, 9), 2, narrowed=True)
        arrays = {"X": X, "W": W, "b": b, "Y": honest.bf16(X.astype(np.float64) @ W.T + b)}
        arrays[where][...] = np.where(
            everywhere | (np.arange(arrays[where].size) == 3).reshape(arrays[where].shape), value, arrays[where]
        )
        assert_same(Operands.of(arrays["X"], arrays["W"], arrays["b"], arrays["Y"]), arithmetic)


def test_float64_is_checked_by_the_definition():
    """A float64 call, for which there is no fast path, has its wrong elements found."""
    rng = np.random.default_rng(3)
    X, W = rng.normal(size=(5, 7)), rng.normal(size=(4, 7))
    Y = X @ W.T
    Y[2, 3] += 1e-9
    found = wrong_elements(Operands.of(X, W, None, Y), fp64_arithmetic(bias=False, flush=False))
    assert (found.rows.tolist(), found.columns.tolist()) == ([2], [3])


def test_a_bias_that_the_arithmetic_denies_is_refused():
    """A biased call under an arithmetic without one has no bound."""
    X, W, b = honest.operands("normal", (3, 4, 5), 4, narrowed=True)
    with pytest.raises(InputError, match="bias"):
        wrong_elements(Operands.of(X, W, b, X @ W.T), bf16_arithmetic(bias=False))
