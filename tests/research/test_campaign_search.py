"""The searches behind the campaigns, on problems whose optimum is known in closed form, and their derivatives."""

from fractions import Fraction

import numpy as np
import pytest

from veristate.research import Score
from veristate.research.campaigns.exact import distances, packing, triangles, uncertainty
from veristate.research.campaigns.scripted import double_roots
from veristate.research.campaigns.search import problems
from veristate.research.campaigns.search.polish import polished
from veristate.research.campaigns.search.solutions import as_text
from veristate.research.campaigns.search.walk import Walk

KINDS = (problems.PACKING, problems.RATIO, problems.TRIANGLE, problems.CONVEX)


def solution(tmp_path, kind, n, evaluator, good_enough, hops=2000, seed=0):
    """The exact judgement of what the search finds within some hops."""
    problem = problems.problem(kind, n)
    walk, rng = Walk.begun(problem), np.random.default_rng(seed)
    while walk.hops < hops and walk.best_value < good_enough:
        walk.go(25, rng)
    (tmp_path / "solution.json").write_text(as_text(problem, polished(problem, walk.best)))
    answer = evaluator(tmp_path, {"n": n})
    assert isinstance(answer, Score), answer
    return float(answer.metric)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_central_differences(kind):
    """Of a random combination of the constraints, at a random place, for each problem."""
    problem, rng = problems.problem(kind, 5), np.random.default_rng(1)
    v = problems.start(problem, rng)
    shape = problems.settled(problem, v)
    weights, gradient = rng.standard_normal(problem.constraints), np.zeros(len(v))
    problems.pull_back(shape, v, weights, gradient)
    high, low = np.zeros(problem.constraints), np.zeros(problem.constraints)
    for i in range(len(v)):
        step = np.zeros(len(v))
        step[i] = 1e-6
        problems.constraints(shape, v + step, high)
        problems.constraints(shape, v - step, low)
        assert gradient[i] == pytest.approx(weights @ (high - low) / 2e-6, rel=1e-5, abs=1e-6)


def test_two_circles_reach_their_proven_optimum(tmp_path):
    """Two circles on the diagonal: 2 - sqrt(2)."""
    found = solution(tmp_path, problems.PACKING, 2, packing.evaluate, 0.585786, hops=100)
    assert found == pytest.approx(2 - np.sqrt(2), abs=1e-12)


def test_five_points_become_a_regular_pentagon(tmp_path):
    """The least ratio of five points in the plane is the golden ratio."""
    found = solution(tmp_path, problems.RATIO, 5, distances.evaluate, -2.6180345, hops=200)
    assert found == pytest.approx((1 + np.sqrt(5)) / 2, abs=1e-12)


def test_heilbronn_sets_reach_their_proven_optima(tmp_path):
    """Four points: a parallelogram has triangles of half its area; five in their hull: the affine regular pentagon."""
    assert solution(tmp_path, problems.CONVEX, 4, triangles.evaluate_convex, 0.499999, hops=100) == pytest.approx(0.5)
    pentagon = (3 - np.sqrt(5)) / (5 - np.sqrt(5)) * (1 - 1 / np.sqrt(5)) / (1 - 1 / np.sqrt(5))
    corners = [(np.cos(2 * np.pi * k / 5), np.sin(2 * np.pi * k / 5)) for k in range(5)]
    exact = [(Fraction(float(x)), Fraction(float(y))) for x, y in corners]
    pentagon = float(triangles.least_double_area(exact) / triangles.double_area(triangles.hull(exact)))
    found = solution(tmp_path, problems.CONVEX, 5, triangles.evaluate_convex, pentagon - 1e-6, hops=400)
    assert found == pytest.approx(pentagon, abs=1e-12)


def test_the_triangle_search_hands_in_points_inside(tmp_path):
    """Three points may take the corners: rounded inwards, they still make nearly the whole triangle."""
    assert solution(tmp_path, problems.TRIANGLE, 3, triangles.evaluate_triangle, 0.99999, hops=100) == pytest.approx(
        1.0
    )


def test_packing_26_reaches_the_best_known_value(tmp_path):
    """A regression test: exact, at tolerance 0, in a few processor seconds."""
    assert solution(tmp_path, problems.PACKING, 26, packing.evaluate, 2.635983, hops=20000, seed=3) >= 2.6359830849


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "n", "evaluator", "enough", "bar"),
    [
        (problems.PACKING, 32, packing.evaluate, 2.9395727, 2.9395727712),
        (problems.RATIO, 16, distances.evaluate, -12.88923, -3.5901573654),
        (problems.TRIANGLE, 11, triangles.evaluate_triangle, 0.03652988, 0.0365298898),
        (problems.CONVEX, 13, triangles.evaluate_convex, 0.0309368, 0.030936889),
    ],
)
def test_the_searches_reach_the_best_known_values(tmp_path, kind, n, evaluator, enough, bar):
    """Each of them, within some minutes."""
    found = solution(tmp_path, kind, n, evaluator, enough, hops=200_000, seed=1)
    assert (-found if kind == problems.RATIO else found) >= bar


def test_prescribed_double_roots_are_exactly_double():
    """The solved coefficients' polynomial is divided by each squared factor without rest, and its root is the bound."""
    roots = [Fraction(5), Fraction(42)]
    coefficients = double_roots.solved(roots)
    q = uncertainty.reduced_polynomial(coefficients)
    for root in roots:
        assert sum((c * root**k for k, c in enumerate(q)), Fraction(0)) == 0
        assert sum((k * c * root ** (k - 1) for k, c in enumerate(q) if k), Fraction(0)) == 0
    screened = double_roots.Screen(5).squared_root(np.array([5.0, 42.0]))
    assert screened == pytest.approx(float(uncertainty.squared_root_upper(coefficients)), rel=1e-9)


@pytest.mark.parametrize(
    ("count", "bound"),
    [(3, 0.3520991044), (5, 0.35151775), pytest.param(7, 0.34844259, marks=pytest.mark.soak)],
)
def test_the_linear_programmes_start_leads_to_the_best_known_bound(count, bound):
    """With 3, 5 and 7 coefficients; the exact root of the solved coefficients says so, not the search."""
    doubles, square = double_roots.local_minimum(count, np.random.default_rng(0), double_roots.programmed(count))
    coefficients = double_roots.solved(double_roots.rounded(doubles))
    exact = float(uncertainty.squared_root_upper(coefficients))
    assert exact == pytest.approx(square, rel=1e-9)
    assert exact / (2 * np.pi) <= bound + 6e-9
