"""Tours: Lambert's arcs against an independent propagation, the scorer against broken tours, a search."""

import json
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from veristate.core import EnvironmentUnusableError, InputError
from veristate.research.campaigns.tour import instance as instances
from veristate.research.campaigns.tour.arcs import cheapest_arcs
from veristate.research.campaigns.tour.beam import read_tour, searched
from veristate.research.campaigns.tour.improve import improved
from veristate.research.campaigns.tour.lambert import cheapest, velocities
from veristate.research.campaigns.tour.legs import place
from veristate.research.campaigns.tour.orbits import places, prepared
from veristate.research.campaigns.tour.plan import planned
from veristate.research.campaigns.tour.scoring import audit, evaluate, first_broken

HEADER = "c a comment\np kttsp 0.0 0.001 60.0 100.0 600.0 1\n"
ROWS = (
    "1.50e7 0.001 0.01 0.0 0.3 0.0\n1.50e7 0.002 0.02 0.0 1.0 0.4\n"
    "1.50e7 0.004 0.00 0.0 2.0 1.1\n3.75e6 0.003 0.01 0.0 3.0 0.1\n3.75e6 0.001 0.02 0.0 0.7 2.0\n"
)


def small():
    """Three high orbits and two low ones."""
    return instances.parse_instance(HEADER + ROWS, "small")


def propagated(r, v, seconds):
    """Where a body is after that time, by universal variables (Curtis, algorithm 3.4): no code of ours."""
    size, speed = np.linalg.norm(r), float(r @ v) / np.linalg.norm(r)
    alpha = 2 / size - float(v @ v) / instances.MU

    def stumpff(z):
        if abs(z) < 1e-6:
            return 0.5 - z / 24, 1 / 6 - z / 120
        root = np.sqrt(abs(z))
        if z > 0:
            return (1 - np.cos(root)) / z, (root - np.sin(root)) / root**3
        return (np.cosh(root) - 1) / -z, (np.sinh(root) - root) / root**3

    def kepler(chi):
        c, s = stumpff(alpha * chi * chi)
        first = size * speed / np.sqrt(instances.MU) * chi * chi * c
        return first + (1 - alpha * size) * chi**3 * s + size * chi - np.sqrt(instances.MU) * seconds

    high = 1e-3 * np.sqrt(instances.MU) * seconds / size
    while kepler(high) < 0:
        high *= 2
    chi = brentq(kepler, 0, high, xtol=1e-9, rtol=1e-15)
    c, s = stumpff(alpha * chi * chi)
    return (1 - chi * chi / size * c) * r + (seconds - chi**3 * s / np.sqrt(instances.MU)) * v


def test_every_arc_joins_its_places_in_its_time():
    """Random pairs of places, short and long way, up to 20 turns, both branches: propagated, each arrives."""
    rng, arcs = np.random.default_rng(0), 0
    v1, v2 = np.empty(3), np.empty(3)
    for _ in range(8):
        r1, r2 = (rng.standard_normal(3) * 10 ** rng.uniform(6.5, 7.2) for _ in range(2))
        seconds = 10 ** rng.uniform(3, 6.5)
        for turns in range(21):
            for long_way in (False, True):
                for right in (False, True) if turns else (False,):
                    if velocities(r1, r2, seconds, long_way, turns, right, v1, v2):
                        arcs += 1
                        off = np.linalg.norm(propagated(r1, v1, seconds) - r2)
                        assert off < 1e-6 * np.linalg.norm(r2), (turns, long_way, right)
    assert arcs > 100


def test_the_scorer_and_the_search_know_the_same_arcs():
    """Two separate solvers, one over arrays and one compiled: the same least cost of legs of few and many turns."""
    rng, legs = np.random.default_rng(3), 60
    r1, r2 = (rng.standard_normal((legs, 3)) * 10 ** rng.uniform(6.5, 7.2, (legs, 1)) for _ in range(2))
    w1, w2 = (rng.standard_normal((legs, 3)) * 600.0 for _ in range(2))
    seconds = 10 ** rng.uniform(3, 6.5, legs)
    r2[::7] = r1[::7] * rng.uniform(0.9, 1.1, (len(r1[::7]), 1)) + 1e3 * rng.standard_normal((len(r1[::7]), 3))
    found, v1, v2 = cheapest_arcs(r1, w1, r2, w2, seconds, 20), np.empty(3), np.empty(3)
    expected = [cheapest(r1[k], w1[k], r2[k], w2[k], seconds[k], 3, 0, 20, v1, v2) for k in range(legs)]
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-6)


def test_targets_are_placed_alike_by_both():
    """Over arrays and compiled: the same places and velocities."""
    orbits, days = prepared(small().elements), np.array([0.0, 1.5, 20.0, 3.7, 59.9])
    r, v = np.empty(3), np.empty(3)
    many_r, many_v = places(orbits, days)
    for orbit, day, row_r, row_v in zip(orbits, days, many_r, many_v, strict=True):
        place(orbit, day, r, v)
        assert row_r == pytest.approx(r, rel=1e-10)
        assert row_v == pytest.approx(v, rel=1e-10)


def test_turns_are_what_they_are_called():
    """An arc of k whole turns sweeps between 2 pi k and 2 pi (k + 1): counted by integrating the motion."""
    r1, r2 = np.array([1.5e7, 0.0, 1e5]), np.array([-2e6, 1.4e7, 0.0])
    v1, v2 = np.empty(3), np.empty(3)
    seconds = 6.0e5
    for turns, right in ((0, False), (1, True), (1, False), (2, True)):
        assert velocities(r1, r2, seconds, False, turns, right, v1, v2)
        moved = solve_ivp(
            lambda _, y: np.concatenate([y[3:], -instances.MU * y[:3] / np.linalg.norm(y[:3]) ** 3]),
            (0, seconds), np.concatenate([r1, v1]), rtol=1e-10, atol=1e-3, max_step=seconds / 400,
        )  # fmt: skip
        assert np.linalg.norm(moved.y[:3, -1] - r2) < 10.0
        swept = np.unwrap(np.arctan2(moved.y[1], moved.y[0]))
        assert int((swept[-1] - swept[0]) // (2 * np.pi)) == turns


def test_an_orbit_is_its_own_cheapest_transfer():
    """From a target to where it will be itself costs nothing, after any number of turns."""
    orbit = prepared(small().elements)[0]
    r1, w1, r2, w2, v1, v2 = np.empty((6, 3))
    for days in (0.3, 2.5, 11.0):
        place(orbit, 0.0, r1, w1)
        place(orbit, days, r2, w2)
        assert cheapest(r1, w1, r2, w2, days * instances.DAY, 3, 0, 20, v1, v2) < 1e-4


def test_a_target_moves_as_newton_says():
    """The place and velocity from the elements, integrated, are the later ones from the elements."""
    orbit = prepared(np.array([[9e6, 0.3, 1.1, 0.7, 2.0, 5.0]]))[0]
    r1, w1, r2, w2 = np.empty((4, 3))
    place(orbit, 0.0, r1, w1)
    place(orbit, 0.8, r2, w2)
    moved = solve_ivp(
        lambda _, y: np.concatenate([y[3:], -instances.MU * y[:3] / np.linalg.norm(y[:3]) ** 3]),
        (0, 0.8 * instances.DAY), np.concatenate([r1, w1]), rtol=1e-11, atol=1e-4,
    )  # fmt: skip
    assert np.allclose(moved.y[:3, -1], r2, atol=2.0)
    assert np.allclose(moved.y[3:, -1], w2, atol=1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p kttsp 0 1 2\n" + ROWS, "six numbers"),
        (HEADER + "1 2 3\n", "six elements"),
        (HEADER + "1.5e7 0 0 0 0 x\n", "line 3"),
        (HEADER + ROWS.replace("0.004", "1.2"), "eccentricities"),
        (HEADER + ROWS.replace("1.50e7", "nan"), "finite"),
    ],
)
def test_what_is_no_instance_is_refused(text, said):
    """With the line, or what is wrong."""
    with pytest.raises(InputError, match=said):
        instances.parse_instance(text, "broken")


def test_without_data_the_reader_says_what_to_set():
    """No folder, and a folder without the file."""
    with pytest.raises(EnvironmentUnusableError, match="VERISTATE_DATA"):
        instances.read_instance("easy", {})
    with pytest.raises(EnvironmentUnusableError, match="VERISTATE_DATA"):
        instances.read_instance("nothing", {"VERISTATE_DATA": "/"})


@pytest.fixture(scope="module")
def toured():
    """The small instance and a tour of it."""
    instance = small()
    plan = planned(instance)
    tour = searched(instance, plan, width=4, choices=4, rng=np.random.default_rng(0), shake=0.0, enough=lambda: False)
    assert tour is not None
    better = improved(instance, plan, tour, np.random.default_rng(0), lambda: False, 20)
    assert better.end <= tour.end
    return instance, better


def parts(tour, size):
    """Departures, flight times and order of a tour's numbers."""
    x = np.array(tour.numbers())
    return x[: size - 1], x[size - 1 : 2 * size - 2], x[2 * size - 2 :].astype(np.int64)


def test_a_found_tour_holds_without_tolerance(toured):
    """The independent full scorer (all turns, both ways) agrees with the search, with nothing forgiven."""
    instance, tour = toured
    departures, flights, order = parts(tour, instance.size)
    assert first_broken(instance, departures, flights, order, 0.0) == ""
    assert sorted(order) == list(range(5))
    begun, flown = ([Fraction(repr(float(t))) for t in times] for times in (departures, flights))
    assert all(t + f <= following for t, f, following in zip(begun, flown, begun[1:], strict=False))
    assert len(tour.exceptions) <= 1


def test_a_tour_is_read_back_from_its_numbers(toured):
    """Order, times and dear legs; a broken one is none."""
    instance, tour = toured
    again = read_tour(instance, np.array(tour.numbers()))
    assert (again.order, again.departures, again.exceptions) == (tour.order, tour.departures, tour.exceptions)
    assert again.arrivals == pytest.approx(tour.arrivals, abs=1e-12)
    with pytest.raises(ValueError, match="broken"):
        read_tour(instance, np.array([*tour.numbers()[:-2], 0.0, 0.0]))
    with pytest.raises(ValueError, match="13 numbers"):
        read_tour(instance, np.zeros(5))


def test_broken_tours_are_refused_with_the_leg(toured):
    """Too early, too short, too long, too dear, too many dear legs."""
    instance, tour = toured
    departures, flights, order = parts(tour, instance.size)
    assert "before day" in first_broken(instance, departures - 100.0, flights, order)
    assert "takes" in first_broken(instance, departures, np.full(4, 1e-5), order)
    assert "ends after" in first_broken(instance, departures + 60.0, flights, order)
    assert "m/s" in first_broken(instance, departures, np.full(4, 0.01), order)
    three = np.array([order[0], order[3], order[1], order[4], order[2]])
    assert first_broken(instance, departures, flights, three) != ""


def needs_data():
    """Skips where the public instances are not at hand."""
    if not os.environ.get("VERISTATE_DATA"):
        pytest.skip("VERISTATE_DATA names no folder")


@pytest.mark.parametrize("which", [evaluate, audit])
@pytest.mark.parametrize(
    ("tour", "said"),
    [
        ('{"tour": [1, 2, 3]}', "145 numbers"),
        (json.dumps({"tour": [float("nan")] * 145}), "NaN"),
        (json.dumps({"tour": [0] * 145}), "order of the targets"),
        (json.dumps({"tour": [0] * 48 + [1] * 48 + list(range(49))}), "arrives"),
        (json.dumps({"tour": [0] * 48 + [1] * 48 + [k + 0.1 for k in range(49)]}), "order"),
    ],
)
def test_what_is_no_tour_is_refused(tmp_path, which, tour, said):
    """On the public easy instance."""
    needs_data()
    (tmp_path / "solution.json").write_text(tour)
    assert said in which(tmp_path, {"instance": "easy"}).reason


def test_public_instances_have_their_sizes():
    """49, 181 and 1,051 targets."""
    needs_data()
    for name, size, least in (("easy", 49, 0.001), ("medium", 181, 0.01), ("hard", 1051, 1 / 1440)):
        found = instances.read_instance(name)
        assert found.size == size
        assert found.exceptions == 5
        assert found.least_flight == pytest.approx(least, rel=1e-2)
