"""Tours by beam search: the best partial tours are each led on to several next targets, at their earliest arrival."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.tour.instance import Instance
from veristate.research.campaigns.tour.legs import earliest
from veristate.research.campaigns.tour.orbits import prepared
from veristate.research.campaigns.tour.plan import Plan
from veristate.research.campaigns.tour.scoring import first_broken, leg_costs

Array = NDArray[np.float64]

CELLS_PER_TURN = 48
TURNS = 4
_SLACK = 1e-4  # m/s kept from the limits, against rounding in other scorers
_FIRSTS = 20  # targets that a tour may begin at
_KEPT = 4  # legs that lead each partial tour on
_DAYS = 7.0  # that a whole dv of turning back costs


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
        flights = [_flight(float(d), float(a)) for d, a in zip(self.departures, self.arrivals, strict=True)]
        return [*self.departures, *flights, *(float(k) for k in self.order)]


def _flight(departure: float, arrival: float) -> float:
    """The flight time that ends no later than the arrival, all three read as the decimals that they are written in."""
    flight = arrival - departure
    while Fraction(repr(departure)) + Fraction(repr(flight)) > Fraction(repr(arrival)):
        flight = float(np.nextafter(flight, 0.0))
    return flight


def read_tour(instance: Instance, numbers: Array) -> Tour:
    """The tour that those 3N - 2 numbers describe. Raises: ValueError where it is broken."""
    legs = instance.size - 1
    if len(numbers) != 3 * legs + 1:
        raise ValueError(f"{3 * legs + 1} numbers are a tour of {instance.size} targets, not {len(numbers)}")
    departures, flights, order = numbers[:legs], numbers[legs : 2 * legs], numbers[2 * legs :].astype(np.int64)
    if sorted(order) != list(range(instance.size)) or first_broken(instance, departures, flights, order):
        raise ValueError("the tour is broken")
    dear = np.flatnonzero(leg_costs(prepared(instance.elements), departures, flights, order) > instance.dv)
    return Tour(
        order=tuple(order.tolist()), departures=tuple(departures.tolist()),
        arrivals=tuple((departures + flights).tolist()), exceptions=tuple(dear.tolist()),
    )  # fmt: skip


def led_on(
    instance: Instance, orbits: Array, tour: Tour, target: int, exception: bool, before: float = np.inf
) -> Tour | None:
    """The tour with one more leg, at its earliest arrival; None where none was found before that day."""
    last, ready = tour.order[-1], max(tour.end, instance.start)
    step = 2.0 * np.pi / max(orbits[last, 3], orbits[target, 3]) / CELLS_PER_TURN
    cells = int(min(TURNS * CELLS_PER_TURN, np.ceil((min(before, instance.longest) - ready) / step) + 2.0))
    limit = (instance.dv_exception if exception else instance.dv) - _SLACK
    departure, arrival = earliest(
        orbits[last], orbits[target], ready, limit, instance.least_flight + 1e-9, step, max(cells, 2)
    )
    if not arrival <= min(before, instance.longest):
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
    """The earliest complete tour of a beam of `width`, each tried with the `choices` targets whose planes are nearest;
    None when all end early.

    `shake` [days] is added at random to what the beam compares, so that seeds search differently. `enough` ends it.
    """
    beam = [Tour(order=(first,), departures=(), arrivals=(), exceptions=()) for first in plan.stretches[0][:_FIRSTS]]
    spare = instance.exceptions - (len(plan.stretches) - 1)
    for _ in range(instance.size - 1):
        led: dict[tuple[frozenset[int], int], tuple[float, Tour]] = {}
        for tour in beam:
            if enough():
                return None
            for longer, lag in _successors(instance, plan, tour, choices, spare):
                key = (frozenset(longer.order), longer.order[-1])
                if key not in led or longer.end < led[key][1].end:
                    led[key] = longer.end + lag + shake * rng.random(), longer
        beam = [tour for _, tour in sorted(led.values(), key=lambda ranked: ranked[0])[:width]]
        if not beam:
            return None
    return min(beam, key=lambda t: t.end)


def _successors(instance: Instance, plan: Plan, tour: Tour, choices: int, spare: int) -> Iterator[tuple[Tour, float]]:
    """The tour led on within its stretch; into the next by an exception; by a spare one where nothing else is. With
    each, the days that what it leaves behind is likely to cost.
    """
    stretch, rest = _where(plan, tour)
    last, changed = tour.order[-1], not set(tour.order) & set(stretch)
    near = sorted(rest, key=lambda k: float(plan.turning_estimate[last, k]))[:choices]
    options = [k for k in near if changed or plan.turning_estimate[last, k] < 0.95 * instance.dv]
    found = list(_earliest(instance, plan, tour, options, rest, changed))
    used = len(tour.exceptions) - sum(1 for s in plan.stretches[1:] if set(s) & set(tour.order))
    if not found and not changed and used < spare:
        found = list(_earliest(instance, plan, tour, near[:2], rest, True))
    yield from found


def _earliest(
    instance: Instance, plan: Plan, tour: Tour, options: list[int], rest: list[int], exception: bool
) -> Iterator[tuple[Tour, float]]:
    """The few legs that come out first. What can't be among them is not followed to its arrival."""
    kept: list[float] = []
    for target in options:
        lag = _left_behind(plan, target, rest, instance.dv)
        before = kept[_KEPT - 1] - lag if len(kept) >= _KEPT else np.inf
        longer = led_on(instance, plan.orbits, tour, target, exception, before)
        if longer is not None:
            kept = sorted([*kept, longer.end + lag])
            yield longer, lag


def _where(plan: Plan, tour: Tour) -> tuple[tuple[int, ...], list[int]]:
    """The stretch the tour is to go on in, and what it has not visited of it."""
    visited = set(tour.order)
    for stretch in plan.stretches:
        rest = [k for k in stretch if k not in visited]
        if rest:
            return stretch, rest
    return (), []


def _left_behind(plan: Plan, here: int, rest: list[int], dv: float) -> float:
    """Days that targets behind are likely to cost: what is far behind is hard to get."""
    behind = np.array(rest)[plan.along[rest] < plan.along[here]]
    far = plan.turning_estimate[here, behind] / dv - plan.tolerance[behind]
    return _DAYS * float(np.sum(far, where=far > 0.0))
