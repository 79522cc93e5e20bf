"""Tours by beam search: the best partial tours are each led on to several next targets, at their earliest arrival."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.tour.instance import Instance
from veristate.research.campaigns.tour.legs import earliest
from veristate.research.campaigns.tour.plan import Plan

CELLS_PER_TURN = 48
TURNS = 4
_SLACK = 1e-4  # m/s kept from the limits, against rounding in other scorers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """A tour or its beginning: targets in order, and each leg's departure and arrival in days."""

    order: tuple[int, ...]
    departures: tuple[float, ...]
    arrivals: tuple[float, ...]
    exceptions: tuple[int, ...]

    @property
    def end(self) -> float:
        """The day of the last arrival."""
        return self.arrivals[-1] if self.arrivals else 0.0

    def numbers(self) -> list[float]:
        """The 3N - 2 numbers of the format. A flight time is rounded so that it ends before the next departure."""
        flights = [_flight(d, a) for d, a in zip(self.departures, self.arrivals, strict=True)]
        return [*self.departures, *flights, *(float(k) for k in self.order)]


def _flight(departure: float, arrival: float) -> float:
    flight = arrival - departure
    return flight if departure + flight <= arrival else float(np.nextafter(flight, 0.0))


def led_on(instance: Instance, orbits: NDArray[np.float64], tour: Tour, target: int, exception: bool) -> Tour | None:
    """The tour with one more leg, at its earliest arrival; None where none was found."""
    last = tour.order[-1]
    quick = max(orbits[last, 3], orbits[target, 3])
    limit = (instance.dv_exception if exception else instance.dv) - _SLACK
    departure, arrival = earliest(
        orbits[last], orbits[target], max(tour.end, instance.start), limit, instance.least_flight + 1e-9,
        2.0 * np.pi / quick / CELLS_PER_TURN, TURNS * CELLS_PER_TURN,
    )  # fmt: skip
    if not arrival <= instance.longest:
        return None
    return Tour(
        order=(*tour.order, target),
        departures=(*tour.departures, departure),
        arrivals=(*tour.arrivals, arrival),
        exceptions=(*tour.exceptions, len(tour.departures)) if exception else tour.exceptions,
    )


def searched(
    instance: Instance, plan: Plan, *, width: int, choices: int, rng: np.random.Generator, shake: float,
    enough: Callable[[], bool],
) -> Tour | None:  # fmt: skip
    """The earliest complete tour of a beam of `width`, each led on to `choices` targets; None when all end early.

    `shake` [days] is added at random to what the beam compares, so that seeds search differently. `enough` ends it.
    """
    beam = [Tour(order=(first,), departures=(), arrivals=(), exceptions=()) for first in plan.stretches[0]]
    spare = instance.exceptions - (len(plan.stretches) - 1)
    for _ in range(instance.size - 1):
        led: dict[tuple[frozenset[int], int], Tour] = {}
        for tour in beam:
            if enough():
                return None
            for longer in _successors(instance, plan, tour, choices, spare):
                key = (frozenset(longer.order), longer.order[-1])
                if key not in led or longer.end < led[key].end:
                    led[key] = longer
        ranked = sorted(led.values(), key=lambda t: t.end + _left_behind(plan, t) + shake * rng.random())
        beam = ranked[:width]
        if not beam:
            return None
    return min(beam, key=lambda t: t.end)


def _successors(instance: Instance, plan: Plan, tour: Tour, choices: int, spare: int) -> Iterator[Tour]:
    """The tour led on within its stretch; into the next by an exception; by a spare one where nothing else is."""
    stretch, rest = _where(plan, tour)
    last, changed = tour.order[-1], not set(tour.order) & set(stretch)
    if changed:
        options = rest[:choices]
    else:
        options = [k for k in rest if plan.turning_estimate[last, k] < 0.95 * instance.dv][:choices]
    found = 0
    for target in options:
        longer = led_on(instance, plan.orbits, tour, target, changed)
        if longer is not None:
            found += 1
            yield longer
    used = len(tour.exceptions) - sum(1 for s in plan.stretches[1:] if set(s) & set(tour.order))
    if not found and not changed and used < spare:
        for target in rest[:2]:
            longer = led_on(instance, plan.orbits, tour, target, True)
            if longer is not None:
                yield longer


def _where(plan: Plan, tour: Tour) -> tuple[tuple[int, ...], list[int]]:
    """The stretch the tour is to go on in, and what it has not visited of it."""
    visited = set(tour.order)
    for stretch in plan.stretches:
        rest = [k for k in stretch if k not in visited]
        if rest:
            return stretch, rest
    return (), []


def _left_behind(plan: Plan, tour: Tour) -> float:
    """Days that targets behind the present place are likely to cost: what is far behind is hard to get."""
    _, rest = _where(plan, tour)
    here = plan.along[tour.order[-1]]
    return float(sum(max(0.0, here - plan.along[k] - 0.02) for k in rest)) * 40.0
