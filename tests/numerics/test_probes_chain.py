"""Propagation: whatever the exact values within their radii, the exact score lies in its interval."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.numerics.probes import (
    Dense,
    Pool,
    Seen,
    forward,
    masked_reach,
    pull_back,
    raised,
    reach,
    rectified_segments,
    rectified_sums,
    sigmoid_interval,
    softmax_interval,
)


def small(rng, N, K, slope):
    """A dense layer with weights of few bits, so that FP64 evaluates it nearly exactly."""
    W, b = rng.integers(-8, 9, (N, K)) / 8.0, rng.integers(-8, 9, N) / 8.0
    return Dense(W=W, b=b, slope=slope)


def act(x, slope):
    """max(x, slope x)."""
    return np.maximum(x, slope * x)


def play(layers, x, rng, seen):
    """The exact chain from x, where the exact outputs of a seen layer differ from its exact map by nothing at all."""
    for layer in layers:
        x = act(x, layer.slope)
        if isinstance(layer, Pool):
            x = np.stack([x[a:b].sum(axis=0) for a, b in zip(layer.starts, layer.starts[1:], strict=False)])
            x = x / layer.divisor[:, None]
        else:
            x = x @ layer.W.T + layer.b
    return x


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]), st.booleans(), st.sampled_from([0.0, 1e-3, 0.3, 5.0]))
@settings(max_examples=150, deadline=None)
def test_no_input_within_its_radius_leaves_the_interval(seed, slope, pooled, size):
    """Random chains, radii and moves; exported layers err by exactly what their bound says."""
    rng = np.random.default_rng(seed)
    widths, n, T = rng.integers(1, 7, 4), 5, 3
    layers = [small(rng, widths[1], widths[0], float(rng.choice([1.0, slope])))]
    if pooled:
        starts = np.sort(np.concatenate([[0, n * T], rng.integers(0, n * T, n - 1)]))
        layers.append(Pool(starts=starts, divisor=rng.integers(1, 5, n).astype(float), slope=slope))
    layers += [small(rng, widths[2], widths[1], slope), small(rng, widths[3], widths[2], slope)]
    rows = n * T if pooled else n
    x = rng.standard_normal((rows, widths[0]))
    radius = rng.random(rows) * size
    moves = rng.standard_normal(x.shape)
    moves *= (radius * rng.choice([1.0, 0.3]) / np.maximum(np.linalg.norm(moves, axis=1), 1e-9))[:, None]
    error = rng.standard_normal((rows, widths[1])) * size / 4
    given_rows = play(layers[:1], x, rng, {}) + error
    seen = {0: Seen(values=given_rows, eps=np.linalg.norm(error, axis=1) * (1 + 1e-12))}
    standings = forward(layers, x, radius, seen)
    exact = play(layers, x + moves, rng, {})
    assert (np.linalg.norm(exact - standings[-1].values, axis=1) <= standings[-1].radius + 1e-12).all()
    column = int(rng.integers(widths[3]))
    pull = pull_back(layers, standings, column)
    owners = np.repeat(np.arange(n), np.diff(layers[1].starts)) if pooled else np.arange(n)
    bound = reach(pull, radius, owners, n)
    assert (np.abs(exact[:, column] - standings[-1].values[:, column]) <= bound + 1e-12).all()


def test_a_clean_chain_is_bounded_by_the_rounding_of_float64():
    """Radius zero: what is left is rounding, and it is charged."""
    rng = np.random.default_rng(0)
    layers = [small(rng, 6, 5, 1.0), small(rng, 2, 6, 0.0)]
    standings = forward(layers, rng.standard_normal((4, 5)), np.zeros(4))
    assert (standings[-1].radius > 0).all()
    assert (standings[-1].radius < 1e-12).all()


def test_what_is_not_finite_has_no_finite_reach():
    """NaN in an export reaches its own candidate and no other."""
    rng = np.random.default_rng(1)
    layers = [small(rng, 6, 5, 1.0), small(rng, 2, 6, 0.0)]
    x = rng.standard_normal((4, 5))
    values = x @ layers[0].W.T + layers[0].b
    values[2, 1] = np.nan
    eps = np.array([0.0, 0.0, np.inf, 0.0])
    standings = forward(layers, x, np.zeros(4), {0: Seen(values=values, eps=eps)})
    found = reach(pull_back(layers, standings, 0), np.zeros(4), np.arange(4), 4)
    assert np.isinf(found[2])
    assert np.isfinite(np.delete(found, 2)).all()
    lower, upper = sigmoid_interval(standings[-1].values[:, 0], found)
    assert (lower[2], upper[2]) == (0.0, 1.0)


def test_a_chain_that_ends_in_a_pool_is_refused():
    """The score is an output of a dense layer."""
    pool = Pool(starts=np.array([0, 2]), divisor=np.ones(1))
    with pytest.raises(InputError, match="dense"):
        pull_back([pool], forward([pool], np.ones((2, 3)), np.zeros(2)), 0)


@pytest.mark.parametrize("change", [{"slope": 2.0}, {"b": np.array([np.nan])}])
def test_a_layer_that_bounds_don_t_fit_is_refused(change):
    """An activation that is no contraction, and weights that are not finite."""
    with pytest.raises(InputError):
        Dense(**({"W": np.ones((1, 2)), "b": np.zeros(1)} | change))


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=60, deadline=None)
def test_the_masked_reach_holds_every_move_of_rectified_rows(seed, dtype):
    """The sum of rectified rows moves by no more than is said, however the rows move within their radii."""
    rng = np.random.default_rng(seed)
    rows, radius = rng.standard_normal((7, 4)).astype(dtype), rng.random(7) * rng.choice([0.01, 1.0])
    members, starts = rng.integers(0, 7, 12), np.array([0, 3, 3, 12])
    J = rng.standard_normal((3, 4))
    moves = rng.standard_normal((7, 4))
    moves *= (radius / np.linalg.norm(moves, axis=1))[:, None]
    exact = rows.astype(np.float64) + moves
    bound = raised(masked_reach(J, rows, radius, members, starts, np.zeros(3)), 64)
    for s in range(3):
        own = members[starts[s] : starts[s + 1]]
        moved = (np.maximum(exact[own], 0) - np.maximum(rows[own].astype(np.float64), 0)).sum(axis=0)
        assert abs(J[s] @ moved) <= bound[s] + 1e-14


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ordered_sums_are_those_of_a_loop(dtype):
    """Bit for bit, with missing rows, negative values and NaN."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((9, 5)).astype(dtype)
    rows[3, 2] = np.nan
    index = rng.integers(-1, 9, (11, 4))
    want = np.zeros((11, 5), dtype)
    for i, d in np.ndindex(index.shape):
        if index[i, d] >= 0:
            want[i] += np.maximum(rows[index[i, d]], dtype(0))
    assert rectified_sums(rows, index, np.empty((11, 5), dtype)).tobytes() == want.tobytes()
    members, starts = index[index >= 0], np.array([0, 4, 4, (index >= 0).sum()])
    want = np.zeros((3, 5), dtype)
    for s in range(3):
        for q in members[starts[s] : starts[s + 1]]:
            want[s] += np.maximum(rows[q], dtype(0))
    assert rectified_segments(rows, members, starts, np.empty((3, 5), dtype)).tobytes() == want.tobytes()


@given(st.floats(-800, 800), st.floats(0, 50))
@settings(max_examples=100, deadline=None)
def test_the_interval_of_a_sigmoid_holds_it(logit, span):
    """Against mpmath with 40 digits, at both ends."""
    lower, upper = sigmoid_interval(np.array([logit]), np.array([span]))
    with mpmath.workdps(40):
        low, high = (1 / (1 + mpmath.exp(-(mpmath.mpf(logit) + s * mpmath.mpf(span)))) for s in (-1, 1))
        assert lower[0] <= low <= high <= upper[0]
    assert 0.0 <= lower[0] <= upper[0] <= 1.0


@given(st.lists(st.floats(-60, 60), min_size=2, max_size=5), st.floats(0, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_interval_of_a_softmax_holds_it(logits, span, seed):
    """Every choice of logits within their reach, against mpmath."""
    values, chosen = np.array([logits]), seed % len(logits)
    lower, upper = softmax_interval(values, np.full_like(values, span), chosen)
    signs = np.random.default_rng(seed).choice([-1, 0, 1], len(logits))
    with mpmath.workdps(40):
        powers = [mpmath.exp(mpmath.mpf(v) + int(s) * mpmath.mpf(span)) for v, s in zip(logits, signs, strict=True)]
        assert lower[0] <= powers[chosen] / sum(powers) <= upper[0]
