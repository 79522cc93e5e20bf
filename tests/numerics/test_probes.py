"""Probes: the quantile, the account that draws them, and the bounds on row errors, against exact arithmetic."""

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from veristate.core import InputError, RefusedError
from veristate.numerics.probes import (
    Export,
    ProbeAccount,
    ProbePlan,
    RowMap,
    Term,
    check_rows,
    chi2_cdf_upper,
    chi2_quantile_lower,
    masked_reach,
    row_norms_upper,
    spectral_norm_upper,
)
from veristate.numerics.probes.draws import SEED_BYTES

WEIGHTS = "w" * 64


def account(rows, draws=16, delta="1e-9", entropy=os.urandom):
    """An account for that many rows."""
    return ProbeAccount(ProbePlan(delta=delta, rows=rows, draws=draws), entropy)


def layer_case(seed, rows=40, inputs=25, K=12, N=9, width=3):
    """A random layer with a ReLU, a sum of up to `width` inputs, known rows and a bias; float32 values."""
    rng = np.random.default_rng(seed)
    W, x = rng.standard_normal((N, K)).astype(np.float32), rng.standard_normal((inputs, K)).astype(np.float32)
    known, b = rng.standard_normal((5, N)).astype(np.float32), rng.standard_normal(N).astype(np.float32)
    index, known_index = rng.integers(-1, inputs, (rows, width)), rng.integers(0, 5, rows)
    term = Term(W=W.astype(np.float64), inputs=x, index=index, slope=0.0)
    return RowMap(terms=(term,), bias=b.astype(np.float64), known=known, known_index=known_index)


def exact_rows(layer):
    """The layer's outputs as fractions."""
    term = layer.terms[0]
    relu = [[max(Fraction(float(v)), Fraction(0)) for v in row] for row in term.inputs]
    out = []
    for i, places in enumerate(term.index):
        total = [sum((relu[q][k] for q in places if q >= 0), Fraction(0)) for k in range(term.W.shape[1])]
        products = [sum(Fraction(float(w)) * t for w, t in zip(row, total, strict=True)) for row in term.W]
        known = layer.known[layer.known_index[i]]
        out.append(
            [p + Fraction(float(c)) + Fraction(float(b)) for p, c, b in zip(products, known, layer.bias, strict=True)]
        )
    return out


def true_errors(y, exact):
    """Euclidean distances of float rows from exact ones, rounded down a little."""
    gaps = [
        sum((Fraction(float(a)) - e) ** 2 for a, e in zip(row, want, strict=True))
        for row, want in zip(y, exact, strict=True)
    ]
    return np.array([math.sqrt(g) * (1 - 1e-12) for g in gaps])


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(-1), Fraction(3, 4)])
def test_a_probability_that_is_none_has_no_quantile(probability):
    """Zero, negative and above one half are refused."""
    with pytest.raises(InputError, match="probability"):
        chi2_quantile_lower(probability, 16)


@pytest.mark.parametrize("draws", [0, 1, 7, 258])
def test_an_odd_or_absurd_number_of_probes_is_refused(draws):
    """The closed form is for even numbers."""
    with pytest.raises(InputError, match="even number"):
        chi2_quantile_lower(Fraction(1, 100), draws)


@pytest.mark.parametrize("draws", [2, 4, 8, 12, 16, 24, 32, 64])
@pytest.mark.parametrize("probability", ["0.5", "0.01", "1e-9", "3.7e-16", "1e-40"])
def test_the_quantile_is_never_above_the_true_one_and_hardly_below(draws, probability):
    """Against mpmath with 60 digits, and against scipy where that is accurate."""
    q = chi2_quantile_lower(Fraction(probability), draws)
    with mpmath.workdps(60):
        found = mpmath.gammainc(mpmath.mpf(draws) / 2, 0, mpmath.mpf(q) / 2, regularized=True)
        assert found <= mpmath.mpf(probability)
        assert found >= mpmath.mpf(probability) * (1 - mpmath.mpf(10) ** -9)
    assert q == pytest.approx(chi2.ppf(float(probability), draws), rel=1e-9)


@given(st.fractions(0, 16), st.sampled_from([2, 8, 16]))
@settings(max_examples=60, deadline=None)
def test_the_distribution_is_bounded_from_above(q, draws):
    """The exact bound is never below mpmath's value, and close to it."""
    q = min(q, Fraction(draws))
    with mpmath.workdps(50):
        x = mpmath.mpf(q.numerator) / q.denominator / 2
        true = mpmath.gammainc(mpmath.mpf(draws) / 2, 0, x, regularized=True)
        bound = chi2_cdf_upper(q, draws)
        bound = mpmath.mpf(bound.numerator) / bound.denominator
        assert bound >= true * (1 - mpmath.mpf(10) ** -40)
        assert bound <= true * (1 + mpmath.mpf(10) ** -15)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1.0, 1e-150, 1e150, 1e-5]))
@settings(max_examples=60, deadline=None)
def test_a_spectral_norm_is_never_below_the_true_one(seed, n, k, scale):
    """Against mpmath's singular values with 40 digits."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, (n, k)) * scale if seed % 2 else rng.standard_normal((n, k)) * scale
    bound = spectral_norm_upper(A)
    with mpmath.workdps(40):
        true = max(mpmath.svd_r(mpmath.matrix(A.tolist()), compute_uv=False))
        assert true * (1 - mpmath.mpf(10) ** -35) <= bound <= true * (1 + mpmath.mpf("1e-2")) + mpmath.mpf("1e-290")


def test_a_spectral_norm_of_equal_singular_values_is_close():
    """An orthogonal matrix is the worst case for repeated squaring: one part in a thousand."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))
    assert 1.0 - 1e-12 <= spectral_norm_upper(Q) <= 1.001


def test_a_norm_of_what_is_no_matrix_is_refused():
    """NaN has no norm."""
    with pytest.raises(InputError, match="finite"):
        spectral_norm_upper([[np.nan]])


@pytest.mark.parametrize(
    ("delta", "rows", "draws"), [("0", 5, 16), ("1", 5, 16), ("x", 5, 16), ("1e-9", 0, 16), ("1e-9", 5, 3)]
)
def test_a_plan_that_promises_nothing_is_refused(delta, rows, draws):
    """Delta outside (0, 1/2], no rows, an odd number of draws."""
    with pytest.raises(InputError):
        ProbePlan(delta=delta, rows=rows, draws=draws)


def test_probes_can_not_be_drawn_before_an_export():
    """An account takes an Export and nothing else."""
    with pytest.raises(InputError, match="fixed first"):
        account(10).draw(np.zeros((3, 4)))  # type: ignore[arg-type]


def test_what_is_changed_after_the_export_is_not_what_is_checked():
    """The export holds a copy: the device's later writing reaches nothing."""
    y = np.zeros((3, 4), np.float32)
    export = Export.fix({"y": [y]}, WEIGHTS)
    y += 1
    rows, _ = account(3).draw(export).take("y")
    assert not rows.any()
    with pytest.raises(ValueError, match="read-only"):
        rows += 1


def test_probes_are_used_once():
    """A second use is refused: the first may have told them."""
    probes = account(3).draw(Export.fix({"y": [np.zeros((3, 4))]}, WEIGHTS))
    probes.take("y")
    with pytest.raises(RefusedError, match="were used"):
        probes.take("y")


def test_a_wrong_number_of_rows_is_refused():
    """More rows than were planned, in one draw or in several, a repeated one counted again."""
    export = Export.fix({"y": [np.zeros((3, 4))]}, WEIGHTS)
    with pytest.raises(RefusedError, match="can't grow"):
        account(2).draw(export)
    paid = account(5)
    paid.draw(export)
    with pytest.raises(RefusedError, match="can't grow"):
        paid.draw(export)
    assert paid.rows_left == 2


@pytest.mark.parametrize("entropy", [lambda n: b"\0" * n, lambda n: b"\0"])
def test_randomness_that_repeats_itself_or_falls_short_is_refused(entropy):
    """A source that gives the same twice gave no fresh probes."""
    paid, export = account(6, entropy=entropy), Export.fix({"y": [np.zeros((3, 4))]}, WEIGHTS)

    def twice():
        return [paid.draw(export) for _ in range(2)]

    with pytest.raises(RefusedError, match="fresh"):
        twice()


def test_two_draws_for_one_export_differ():
    """A re-execution that gives the same bytes gets fresh probes."""
    paid = account(6)
    drawn = [paid.draw(Export.fix({"y": [np.zeros((3, 4))]}, WEIGHTS)).take("y")[1] for _ in range(2)]
    assert (drawn[0] != drawn[1]).all()


def test_a_record_repeats_the_probes():
    """The journaled seed gives the very probes again, so that anybody can repeat the check."""
    export = Export.fix({"a": [np.zeros((3, 4))], "b": [np.zeros((2, 5))]}, WEIGHTS)
    paid = account(5)
    probes = paid.draw(export)
    assert paid.records[0]["export"] == export.digest
    seed = bytes.fromhex(paid.records[0]["seed"])
    again = account(5, entropy=lambda n: seed).draw(export)
    assert (again.take("b")[1] == probes.take("b")[1]).all()
    assert (again.take("a")[1].shape, len(seed)) == ((4, 16), SEED_BYTES)


def test_stale_weights_are_refused():
    """An export of other weights than those the check holds is no evidence of anything."""
    layer = layer_case(0)
    export = Export.fix({"y": [np.zeros((40, 9), np.float32)]}, "other")
    with pytest.raises(InputError, match="stale"):
        check_rows(account(40).draw(export), "y", layer, weights=WEIGHTS)


def test_a_map_of_another_shape_is_refused():
    """Rows and map must be as many."""
    export = Export.fix({"y": [np.zeros((39, 9), np.float32)]}, WEIGHTS)
    with pytest.raises(InputError, match="does not fit"):
        check_rows(account(40).draw(export), "y", layer_case(0), weights=WEIGHTS)


@given(st.integers(0, 10**6), st.sampled_from([2, 8, 16, 32]))
@settings(max_examples=15, deadline=None)
def test_every_row_error_is_below_its_bound(seed, draws):
    """Exact distances of rounded, faulty and cancelling rows, all below eps at delta = 1e-9."""
    layer = layer_case(seed)
    exact = exact_rows(layer)
    y = np.array([[float(v) for v in row] for row in exact]).astype(np.float32)
    rng = np.random.default_rng(seed)
    y[::5, 2] += np.float32(rng.standard_normal() * 10.0 ** rng.integers(-6, 3))
    y[1::5, 0] += np.float32(0.25)
    y[1::5, 1] -= np.float32(0.25)
    paid = account(len(y), draws)
    found = check_rows(paid.draw(Export.fix({"y": [y[:7], y[7:]]}, WEIGHTS)), "y", layer, weights=WEIGHTS)
    assert (true_errors(y, exact) <= found.eps).all()


def test_the_residual_is_the_exact_one_to_within_beta():
    """Each r_k as a fraction, against the beta that is charged for its rounding."""
    layer = layer_case(3)
    exact = exact_rows(layer)
    y = np.random.default_rng(3).standard_normal((40, 9)).astype(np.float32)
    export = Export.fix({"y": [y]}, WEIGHTS)
    paid = account(40, 2)
    found = check_rows(paid.draw(export), "y", layer, weights=WEIGHTS)
    seed = bytes.fromhex(paid.records[0]["seed"])
    _, G = account(40, 2, entropy=lambda n: seed).draw(export).take("y")
    for i in range(40):
        gap = [Fraction(float(a)) - b for a, b in zip(y[i], exact[i], strict=True)]
        r = [float(sum(Fraction(g) * e for g, e in zip(G[:, k].tolist(), gap, strict=True))) for k in range(2)]
        assert abs(math.hypot(*r) - found.residual[i]) <= math.sqrt(2) * found.beta[i] + 1e-15


def test_sixteen_probes_inflate_about_thirteenfold():
    """At delta = 1e-9 over 2.7 million rows the bound is 13.4 times the error in the middle."""
    layer = layer_case(1, rows=60, N=150, K=4)
    exact = exact_rows(layer)
    y = np.array([[float(v) for v in row] for row in exact]) + np.random.default_rng(1).standard_normal((60, 150))
    paid = ProbeAccount(ProbePlan(delta="1e-9", rows=2_700_000), os.urandom)
    eps = check_rows(paid.draw(Export.fix({"y": [y]}, WEIGHTS)), "y", layer, weights=WEIGHTS).eps
    assert np.median(eps / true_errors(y, exact)) == pytest.approx(13.4, rel=0.1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_an_infinite_bound_and_spoils_no_other_row(value):
    """An export and an input alike."""
    layer = layer_case(2)
    y = np.zeros((40, 9), np.float32)
    y[4, 3] = value
    found = check_rows(account(40).draw(Export.fix({"y": [y]}, WEIGHTS)), "y", layer, weights=WEIGHTS)
    assert np.isinf(found.eps[4])
    assert np.isfinite(np.delete(found.eps, 4)).all()
    inputs = layer.terms[0].inputs.copy()
    inputs[7, 0] = value
    term = Term(W=layer.terms[0].W, inputs=inputs, index=layer.terms[0].index, slope=0.0)
    spoiled = RowMap(terms=(term,), bias=layer.bias, known=layer.known, known_index=layer.known_index)
    clean = np.zeros((40, 9), np.float32)
    found = check_rows(account(40).draw(Export.fix({"y": [clean]}, WEIGHTS)), "y", spoiled, weights=WEIGHTS)
    assert np.isinf(found.eps[(term.index == 7).any(axis=1)]).all()


def test_who_knows_the_probes_beats_them():
    """Why the order matters: an error at right angles to known probes goes unseen, and fresh ones see it."""
    layer = layer_case(5, N=40)
    exact = exact_rows(layer)
    y = np.array([[float(v) for v in row] for row in exact])
    known = b"k" * SEED_BYTES
    _, G = account(40, entropy=lambda n: known).draw(Export.fix({"y": [y]}, WEIGHTS)).take("y")
    Q, _ = np.linalg.qr(np.concatenate([G, np.random.default_rng(0).standard_normal((40, 24))], axis=1))
    y += Q[:, -1] * 5.0

    def eps(source):
        return check_rows(
            account(40, entropy=source).draw(Export.fix({"y": [y]}, WEIGHTS)), "y", layer, weights=WEIGHTS
        ).eps

    assert (eps(lambda n: known) < 5.0).all()
    assert (eps(os.urandom) >= 5.0).all()


def test_other_weights_than_those_named_show_as_row_errors():
    """A device that lies about its weights is measured, not believed."""
    layer = layer_case(6)
    exact = exact_rows(layer)
    y = np.array([[float(v) for v in row] for row in exact]) * 1.01
    found = check_rows(account(40).draw(Export.fix({"y": [y]}, WEIGHTS)), "y", layer, weights=WEIGHTS)
    assert (found.eps >= true_errors(y, exact)).all()
    assert (found.eps > 1e-3).all()


def test_an_export_of_narrow_integers_is_refused():
    """Rows are float32, float64 or int64."""
    with pytest.raises(InputError, match="float64 or int64"):
        Export.fix({"y": [np.zeros((2, 2), np.int32)]}, WEIGHTS)


def test_an_export_of_whole_numbers_is_no_layer_in_real_ones():
    """int64 rows are for C4; the check says which export they are in."""
    export = Export.fix({"y": [np.zeros((40, 9), np.int64)]}, WEIGHTS)
    with pytest.raises(InputError, match=r"export 'y' is int64"):
        check_rows(account(40).draw(export), "y", layer_case(0), weights=WEIGHTS)


@pytest.mark.parametrize("size", [2.0**-538, 2.0**-600, 2.0**-1022])
def test_norms_whose_squares_underflow_are_bounded_all_the_same(size):
    """Against fractions, and for a row error of that size, whose probes' squares underflow too."""
    row = np.full((1, 100), size)
    exact = sum(Fraction(v) ** 2 for v in row[0].tolist())
    assert Fraction(float(row_norms_upper(row)[0])) ** 2 >= exact
    layer = RowMap(terms=(Term(W=np.zeros((100, 1)), inputs=np.zeros((1, 1)), index=np.zeros((1, 1), np.intp)),))
    found = check_rows(account(1).draw(Export.fix({"y": [row]}, WEIGHTS)), "y", layer, weights=WEIGHTS)
    assert Fraction(float(found.residual[0])) ** 2 >= exact
    assert Fraction(float(found.eps[0])) ** 2 >= exact


def test_a_masked_reach_counts_squares_that_underflow():
    """|J| radius with J of 2^-540, whose square is 0 in FP64, against a radius of 2^600."""
    J, radius = np.full((1, 4), 2.0**-540), np.full(1, 2.0**600)
    starts = np.array([0, 1])
    reach = masked_reach(J, np.zeros((1, 4)), radius, np.zeros(1, np.intp), starts, np.zeros(1))
    assert reach[0] >= 2.0**61
