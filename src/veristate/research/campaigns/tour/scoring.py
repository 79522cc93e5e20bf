"""The score of a tour: the day of its last arrival, or the first constraint that it breaks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.exact.rational import text_upper
from veristate.research.campaigns.exact.reading import UnusableError, numbers, read_solution
from veristate.research.campaigns.tour.arcs import cheapest_arcs
from veristate.research.campaigns.tour.instance import DAY, EPSILON, REVOLUTIONS, Instance, read_instance
from veristate.research.campaigns.tour.orbits import places, prepared
from veristate.research.tasks import Rejection, Score

Array = NDArray[np.float64]
Order = NDArray[np.int64]


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The days that the tour in solution.json takes: {"tour": [departures, flight times, order]}, 3N - 2 numbers."""
    return _judged(candidate, parameters, EPSILON)


def audit(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The days, with no tolerance: neither of the times, which are compared as rationals, nor of the velocities."""
    return _judged(candidate, parameters, 0.0)


def _judged(candidate: Path, parameters: Mapping[str, Any], forgiven: float) -> Score | Rejection:
    instance = read_instance(str(parameters["instance"]))
    size = instance.size
    try:
        given = numbers(read_solution(candidate, "tour"), 3 * size - 2, "numbers of the tour")
    except UnusableError as error:
        return Rejection(reason=str(error))
    departures, flights, order = given[: size - 1], given[size - 1 : 2 * size - 2], given[2 * size - 2 :]
    if sorted(order) != list(range(size)):
        return Rejection(reason=f"the last {size} numbers must be an order of the targets 0 to {size - 1}")
    for leg in range(size - 2):
        late = departures[leg] + flights[leg] - departures[leg + 1]
        if late > forgiven:
            return Rejection(reason=f"leg {leg} arrives {float(late):.3g} days after leg {leg + 1} departs")
    arrival = departures[-1] + flights[-1]
    broken = first_broken(
        instance,
        np.array([float(t) for t in departures]),
        np.array([float(t) for t in flights]),
        np.array([int(k) for k in order]),
        forgiven,
    )
    if broken:
        return Rejection(reason=broken)
    return Score(metric=text_upper(arrival))


def first_broken(instance: Instance, departures: Array, flights: Array, order: Order, forgiven: float = EPSILON) -> str:
    """The first broken constraint on departure, flight times or velocities in words, "" when all hold."""
    if departures[0] < instance.start - forgiven:
        return f"leg 0 departs before day {instance.start:g}"
    short = np.flatnonzero(flights < instance.least_flight - forgiven)
    if len(short):
        return f"leg {short[0]} takes {flights[short[0]]:.6g} days; the least is {instance.least_flight:g}"
    if departures[-1] + flights[-1] > instance.longest + forgiven:
        return f"the tour ends after day {instance.longest:g}"
    costs = leg_costs(prepared(instance.elements), departures, flights, order)
    dear = np.flatnonzero(~(costs <= instance.dv_exception + forgiven))
    if len(dear):
        return f"leg {dear[0]} needs {costs[dear[0]]:.6g} m/s; {instance.dv_exception:g} are allowed"
    exceptions = int(np.sum(costs > instance.dv + forgiven))
    if exceptions > instance.exceptions:
        return f"{exceptions} legs need more than {instance.dv:g} m/s; {instance.exceptions} may"
    return ""


def leg_costs(orbits: Array, departures: Array, flights: Array, order: Order) -> Array:
    """The m/s of each leg: the cheapest arc of 0 to 20 turns, both ways round, both branches."""
    r1, w1 = places(orbits[order[:-1]], departures)
    r2, w2 = places(orbits[order[1:]], departures + flights)
    return cheapest_arcs(r1, w1, r2, w2, flights * DAY, REVOLUTIONS)
