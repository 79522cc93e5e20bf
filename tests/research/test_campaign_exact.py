"""The exact evaluators: published constructions, brute force and high precision as oracles; exploits refused."""

import itertools
import json
import os
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.research import Rejection, Score
from veristate.research.campaigns.exact import distances, packing, triangles, uncertainty
from veristate.research.campaigns.exact.polynomials import largest_positive_root_upper, odd_part, product
from veristate.research.campaigns.exact.rational import pi_bounds, root_lower, root_upper, text_lower, text_upper

SQUARES = [["0.25", "0.25", "0.25"], ["0.75", "0.25", "0.25"], ["0.25", "0.75", "0.25"], ["0.75", "0.75", "0.25"]]


@pytest.fixture
def judged(tmp_path):
    """The judgement of numbers written under a key."""

    def judge(evaluator, key, found, **parameters):
        text = found if isinstance(found, str) else json.dumps({key: found})
        (tmp_path / "solution.json").write_text(text)
        return evaluator(tmp_path, parameters)

    return judge


@pytest.fixture(scope="module")
def published():
    """The constructions of AlphaEvolve in the data folder."""
    path = Path(os.environ.get("VERISTATE_DATA", "")) / "optim" / "alphaevolve_constructions.json"
    if not os.environ.get("VERISTATE_DATA") or not path.is_file():
        pytest.skip("VERISTATE_DATA names no folder with optim/alphaevolve_constructions.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("{", "no JSON"),
        ("[]", "circles"),
        ('{"circles": 3}', "circles"),
        ('{"circles": [[NaN, 0.5, 0.1]]}', "NaN"),
        ('{"circles": [[Infinity, 0.5, 0.1]]}', "Infinity"),
        ('{"circles": [["nan", 0.5, 0.1]]}', "no finite decimal"),
        ('{"circles": [["1/0", 0.5, 0.1]]}', "divides by zero"),
        ('{"circles": [[0.5, 0.5, true]]}', "no number"),
        ('{"circles": [[0.5, 0.5, null]]}', "no number"),
        ('{"circles": [[0.5, 0.5]]}', "3 numbers"),
        ('{"circles": [[0.5, 0.5, 0.1], [0.5, 0.5, 0.1]]}', "1 circles are asked for"),
        ('{"circles": [[0.5, 0.5, 1e999999]]}', "no finite decimal"),
        ('{"circles": [[0.5, 0.5, -0.1]]}', "negative"),
        ('{"circles": [[0.5, 0.5, 0.5000000000000000000001]]}', "beyond the square"),
        ('{"circles": [[0.5, 0.5, 0.50000009]]}', "beyond the square"),
    ],
)
def test_what_is_no_packing_is_refused_with_the_reason(judged, found, said):
    """NaN, infinities, wrong shapes, and what only a tolerance would let pass."""
    answer = judged(packing.evaluate, "circles", found, n=1)
    assert isinstance(answer, Rejection)
    assert said in answer.reason


def test_a_missing_file_is_refused(tmp_path):
    """The reason names the file."""
    assert "solution.json is missing" in packing.evaluate(tmp_path, {"n": 1}).reason


def test_touching_is_allowed_and_one_unit_in_the_last_place_more_is_not(judged):
    """Four circles of a quarter fit exactly; with 1e-30 more they do not."""
    assert judged(packing.evaluate, "circles", SQUARES, n=4) == Score(metric="1.0")
    wider = [[x, y, "0.250000000000000000000000000001"] for x, y, _ in SQUARES]
    assert "beyond" in judged(packing.evaluate, "circles", wider, n=4).reason


def test_a_tolerance_exploit_ranks_below_the_exact_result(judged):
    """An evaluator that forgives 1e-6 takes inflated circles; the audit shrinks them, says so, and they score less."""
    inflated = [[x, y, "0.2500005"] for x, y, _ in SQUARES]
    forgiven = judged(packing.evaluate, "circles", inflated, n=4, tolerance="1e-6")
    assert Fraction(forgiven.metric) > 1
    audited = judged(packing.audit, "circles", inflated, n=4, tolerance="1e-6")
    assert audited.repaired
    assert Fraction(audited.metric) < Fraction(forgiven.metric)
    assert Fraction(audited.metric) <= 1
    assert judged(packing.audit, "circles", [["0.5", "0.5", "0.6"]], n=1).reason


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.fractions(0, 1, max_denominator=50)] * 3), min_size=2, max_size=6))
def test_shrinking_makes_every_packing_fit_and_never_grows_a_circle(circles):
    """A law of the repair, for circles of any size: with what overlaps taken off, nothing is broken."""
    by = packing.overlap_upper(circles)
    fitted = packing.shrunk(circles, by)
    assert all(new[2] <= old[2] for new, old in zip(fitted, circles, strict=True))
    if by <= min(r for _, _, r in circles):
        assert packing.first_broken(fitted) == ""


def test_published_packings_have_their_published_sums(judged, published):
    """AlphaEvolve's n = 26 and n = 32 are strictly feasible, and their sums are those of the notebook."""
    squares = published["circle_packing_unit_square"]
    for n, total in ((26, 2.6358627564136983), (32, 2.937944526205518)):
        answer = judged(packing.evaluate, "circles", squares[f"n{n}"]["xyr"], n=n)
        assert float(answer.metric) == pytest.approx(total, abs=1e-15)
        exact = sum(Fraction(row[2]) for row in squares[f"n{n}"]["xyr"])
        assert Fraction(answer.metric) == exact


def test_published_point_sets_have_their_published_values(judged, published):
    """The ratio and the convex Heilbronn set as published; the triangle's needs the repair, since it rounds out."""
    ratio = judged(distances.evaluate, "points", published["min_ratio_distance"]["n16_d2"]["points"], n=16)
    assert float(ratio.metric) == pytest.approx(3.5901624074733207, abs=1e-15)
    convex = judged(triangles.evaluate_convex, "points", published["heilbronn_convex"]["n13"]["points"], n=13)
    assert float(convex.metric) == pytest.approx(0.03093688903489562, abs=1e-16)
    points = published["heilbronn_triangle"]["n11"]["points"]
    assert "outside" in judged(triangles.evaluate_triangle, "points", points, n=11).reason
    audited = judged(triangles.audit_triangle, "points", points, n=11)
    assert audited.repaired
    assert float(audited.metric) == pytest.approx(0.03652988988003013, abs=1e-14)


def test_published_coefficients_give_their_published_bounds(judged, published):
    """Goncalves et al. and AlphaEvolve, three coefficients each."""
    for name, bound in (("goncalves2017", 0.352295562482340), ("alphaevolve", 0.352099104422528)):
        found = published["uncertainty_hermite"][name]["coefficients"]
        answer = judged(uncertainty.evaluate, "coefficients", found, coefficients=3)
        assert float(answer.metric) == pytest.approx(bound, abs=2e-15)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=7, unique=True))
def test_least_triangle_and_hull_agree_with_brute_force(points):
    """The hull by trying each pair as an edge with all points on its left; triangles by the full formula."""
    exact = [(Fraction(x), Fraction(y)) for x, y in points]
    least = min(
        abs(a[0] * (b[1] - c[1]) + b[0] * (c[1] - a[1]) + c[0] * (a[1] - b[1]))
        for a, b, c in itertools.combinations(points, 3)
    )
    assert triangles.least_double_area(exact) == least
    edges = Fraction(0)
    for a, b in itertools.permutations(exact, 2):
        turns = [triangles.turn(a, b, p) for p in exact if p not in (a, b)]
        beside = [p for p in exact if p not in (a, b) and triangles.turn(a, b, p) == 0]
        reach = all((p[0] - a[0]) * (p[0] - b[0]) + (p[1] - a[1]) * (p[1] - b[1]) <= 0 for p in beside)
        if all(t >= 0 for t in turns) and any(turns) and reach:
            edges += a[0] * b[1] - b[0] * a[1]
    assert triangles.double_area(triangles.hull(exact)) == edges


def test_a_point_outside_the_triangle_or_a_doubled_point_does_not_count(judged):
    """Outside by 1e-30 is outside; two equal points have no ratio; points on a line have no hull."""
    inside = [["0", "0"], ["1", "0"], ["0.5", "0.866"]]
    assert isinstance(judged(triangles.evaluate_triangle, "points", inside, n=3), Score)
    assert "outside" in judged(triangles.evaluate_triangle, "points", [*inside[:2], ["0.5", "0.8661"]], n=3).reason
    below = [*inside[:2], ["0.5", "-0.000000000000000000000000000001"]]
    assert "outside" in judged(triangles.evaluate_triangle, "points", below, n=3).reason
    assert "same" in judged(distances.evaluate, "points", [["0", "0"], ["0", "0"], ["1", "1"]], n=3).reason
    assert "line" in judged(triangles.evaluate_convex, "points", [["0", "0"], ["1", "1"], ["2", "2"]], n=3).reason


@pytest.mark.parametrize("degree", [0, 4, 8, 20])
def test_hermite_polynomials_are_those_of_mpmath(degree):
    """At a few points, to 40 digits."""
    with mpmath.workdps(60):
        for x in ("0.25", "1.5", "3"):
            square = Fraction(x) ** 2
            ours = sum((c * square**k for k, c in enumerate(uncertainty.hermite_in_squares(degree))), Fraction(0))
            theirs = mpmath.hermite(degree, mpmath.mpf(x))
            assert abs(mpmath.mpf(ours.numerator) / ours.denominator - theirs) <= mpmath.mpf(10) ** -35 * (
                1 + abs(theirs)
            )


def test_the_root_is_mpmaths_and_double_roots_do_not_count(judged):
    """The bound of fixed coefficients against polyroots at 80 digits; (s - 9)^2 (s - 2) has its root at 2."""
    given_coefficients = [Fraction(1, 3), Fraction(-1, 80), Fraction(-1, 16000)]
    q = uncertainty.reduced_polynomial(given_coefficients)
    with mpmath.workdps(80):
        roots = mpmath.polyroots(
            [mpmath.mpf(c.numerator) / c.denominator for c in reversed(q)], maxsteps=200, extraprec=400
        )
        largest = max(root.real for root in roots if abs(root.imag) < mpmath.mpf(10) ** -40)
        ours = uncertainty.squared_root_upper(given_coefficients)
        assert 0 <= mpmath.mpf(ours.numerator) / ours.denominator - largest < mpmath.mpf(10) ** -40
    double = product(product([Fraction(-9), Fraction(1)], [Fraction(-9), Fraction(1)]), [Fraction(-2), Fraction(1)])
    root = largest_positive_root_upper(odd_part(double), Fraction(1, 10**20))
    assert 0 <= root - 2 <= Fraction(1, 10**20)
    assert largest_positive_root_upper([Fraction(1), Fraction(1)], Fraction(1, 10)) is None
    refused = judged(uncertainty.evaluate, "coefficients", ["0", "0", "0"], coefficients=3)
    assert "vanishes" in refused.reason


@given(st.fractions(0, 1000))
def test_roots_and_decimals_are_rounded_to_the_side_they_name(number):
    """Squares of the bounds enclose the number; texts enclose it too."""
    assert root_lower(number) ** 2 <= number <= root_upper(number) ** 2
    assert Fraction(text_lower(number, 5)) <= number <= Fraction(text_upper(number, 5))
    assert Fraction(text_lower(-number, 5)) <= -number <= Fraction(text_upper(-number, 5))


def test_pi_lies_between_its_bounds():
    """Against mpmath at 80 digits."""
    low, high = pi_bounds()
    with mpmath.workdps(80):
        assert mpmath.mpf(low.numerator) / low.denominator < mpmath.pi < mpmath.mpf(high.numerator) / high.denominator
        assert high - low < Fraction(1, 10**58)
