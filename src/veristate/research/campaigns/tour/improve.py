"""Better tours near a given one: a target moved, a few turned round, or a spare exception spent on a leg.

Since waiting is free, a new order whose arrival at a shared target is no earlier than before can be given up there.
"""

from collections.abc import Callable

import numpy as np

from veristate.research.campaigns.tour.beam import Tour, led_on
from veristate.research.campaigns.tour.instance import Instance
from veristate.research.campaigns.tour.plan import Plan

Change = tuple[int, int, tuple[int, ...], frozenset[int]]  # first and last place changed, the order, the exceptions
_REACH = 8


def improved(
    instance: Instance, plan: Plan, tour: Tour, rng: np.random.Generator, enough: Callable[[], bool],
    patience: int, changes: int = 10**9,
) -> Tour:  # fmt: skip
    """The best tour found by random changes, each kept when it is better, until `patience` in a row were not, or as
    many as `changes` were.
    """
    best, stalls = tour, 0
    while stalls < patience and changes and not enough():
        change = _changed(instance, plan, best, rng)
        found = None if change is None else followed(instance, plan, best, change)
        if found is None:
            stalls += 1
        else:
            best, stalls, changes = found, 0, changes - 1
    return best


def followed(instance: Instance, plan: Plan, tour: Tour, change: Change) -> Tour | None:
    """The changed tour at its earliest arrivals, None when it is not better than `tour`."""
    first, last, order, exceptions = change
    legs = max(0, first - 1)
    led = Tour(
        order=order[: legs + 1],
        departures=tour.departures[:legs],
        arrivals=tour.arrivals[:legs],
        exceptions=tuple(leg for leg in sorted(exceptions) if leg < legs),
    )
    for place in range(legs + 1, instance.size):
        before = (tour.arrivals[place - 1] if place > last else tour.end) - 1e-9
        longer = led_on(instance, plan.orbits, led, order[place], place - 1 in exceptions, before)
        if longer is None:
            return None
        led = longer
    return led if led.end < tour.end - 1e-6 else None


def _changed(instance: Instance, plan: Plan, tour: Tour, rng: np.random.Generator) -> Change | None:
    size, order = instance.size, list(tour.order)
    kept = frozenset(tour.exceptions)
    place = int(rng.integers(size))
    kind = rng.random()
    if kind < 0.1 and place < size - 1 and place not in kept:
        return _with_exception(instance, tour, place, rng)
    other = int(np.clip(place + rng.integers(-_REACH, _REACH + 1), 0, size - 1))
    first, last = min(place, other), max(place, other)
    # Exceptions stay on their legs: a change within a stretch moves none of them.
    if first == last or any(first - 1 <= leg <= last for leg in kept if leg not in (first - 1, last)):
        return None
    if kind < 0.6:
        order.insert(other, order.pop(place))
    elif kind < 0.8:
        order[first : last + 1] = order[first : last + 1][::-1]
    else:
        order[first], order[last] = order[last], order[first]
    pairs = zip(order[max(0, first - 1) : last + 1], order[max(1, first) : last + 2], strict=False)
    for leg, (one, two) in enumerate(pairs, max(0, first - 1)):
        if leg not in kept and plan.turning_estimate[one, two] > 0.95 * instance.dv:
            return None
    return first, last, tuple(order), kept


def _with_exception(instance: Instance, tour: Tour, leg: int, rng: np.random.Generator) -> Change:
    """A dear leg more where one is spare, else one of them moved."""
    kept = set(tour.exceptions)
    first = leg + 1
    if len(kept) >= instance.exceptions:
        gone = int(rng.choice(sorted(kept)))
        kept.discard(gone)
        first = min(first, gone + 1)
        return first, max(leg + 1, gone + 1), tour.order, frozenset(kept | {leg})
    return first, leg + 1, tour.order, frozenset(kept | {leg})
