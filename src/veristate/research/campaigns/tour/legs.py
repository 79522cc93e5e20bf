"""The earliest arrival at one target from another, waiting allowed, within a limit of m/s.

Waiting costs nothing but time, so that the earliest arrival at each target in turn is the best that an order can do.
"""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.tour.instance import DAY, MU, REVOLUTIONS
from veristate.research.campaigns.tour.lambert import cheapest

Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949
_NEAR = 1.4  # a cell of the grid whose cost is below this many times the limit is looked at closely


@compiled
def place(orbit: Array, day: float, r: Array, v: Array) -> None:
    """Fills r and v with the target's position [m] and velocity [m/s] that many days after the instance's epoch."""
    a, e = orbit[0], orbit[1]
    mean = orbit[2] + orbit[3] * day
    mean -= 2.0 * np.pi * np.floor(mean / (2.0 * np.pi))
    angle = mean if e < 0.8 else np.pi
    for _ in range(50):
        step = (angle - e * np.sin(angle) - mean) / (1.0 - e * np.cos(angle))
        angle -= step
        if abs(step) < 1e-14:
            break
    c, s = np.cos(angle), np.sin(angle)
    across = np.sqrt(1.0 - e * e)
    rate = np.sqrt(MU * a) / (a * (1.0 - e * c))
    for k in range(3):
        r[k] = a * ((c - e) * orbit[4 + k] + across * s * orbit[7 + k])
        v[k] = rate * (-s * orbit[4 + k] + across * c * orbit[7 + k])


@compiled
def cost(one: Array, other: Array, departure: float, arrival: float, scratch: Array) -> float:
    """The m/s of the leg, of arcs that go round as the orbits do and about as often: those that can be cheap."""
    r1, w1, r2, w2 = scratch[0], scratch[1], scratch[2], scratch[3]
    place(one, departure, r1, w1)
    place(other, arrival, r2, w2)
    return _cost(one, other, r1, w1, r2, w2, arrival - departure, scratch)


@compiled
def _cost(one: Array, other: Array, r1: Array, w1: Array, r2: Array, w2: Array, days: float, scratch: Array) -> float:
    nx = r1[1] * r2[2] - r1[2] * r2[1]
    ny = r1[2] * r2[0] - r1[0] * r2[2]
    nz = r1[0] * r2[1] - r1[1] * r2[0]
    with_one = nx * one[10] + ny * one[11] + nz * one[12] > 0.0
    with_other = nx * other[10] + ny * other[11] + nz * other[12] > 0.0
    ways = (1 if with_one or with_other else 0) + (0 if with_one and with_other else 2)
    slow, fast = min(one[3], other[3]), max(one[3], other[3])
    fewest = max(0, int(days * slow / (2.0 * np.pi)) - 1)
    most = min(REVOLUTIONS, int(days * fast / (2.0 * np.pi)) + 1)
    if fewest > REVOLUTIONS:
        return np.inf
    return cheapest(r1, w1, r2, w2, days * DAY, ways, fewest, most, scratch[4], scratch[5])


@compiled
def _best_departure(
    one: Array, other: Array, low: float, high: float, arrival: float, scratch: Array
) -> tuple[float, float]:
    """The cheapest departure between two, by golden sections, and its cost."""
    a, b = low, high
    x, y = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    f, g = cost(one, other, x, arrival, scratch), cost(one, other, y, arrival, scratch)
    for _ in range(14):
        if f < g:
            b, y, g = y, x, f
            x = b - _GOLDEN * (b - a)
            f = cost(one, other, x, arrival, scratch)
        else:
            a, x, f = x, y, g
            y = a + _GOLDEN * (b - a)
            g = cost(one, other, y, arrival, scratch)
    departure, least = (x, f) if f < g else (y, g)
    at_low = cost(one, other, low, arrival, scratch)
    return (low, at_low) if at_low < least else (departure, least)


@compiled
def earliest(
    one: Array, other: Array, ready: float, limit: float, least_flight: float, step: float, cells: int
) -> tuple[float, float]:
    """Departure and arrival [days] of the earliest arrival found from `ready` on at no more than `limit` m/s.

    (inf, inf) when there is none within `cells` steps. A grid is walked by arrival; what comes near the limit is
    refined, so that short openings between cells are mostly, not surely, seen.
    """
    scratch = np.empty((6, 3))
    r1, w1, r2, w2 = np.empty((cells, 3)), np.empty((cells, 3)), np.empty(3), np.empty(3)
    for k in range(1, cells):
        place(one, ready + (k - 1) * step, r1[k - 1], w1[k - 1])
        arrival = ready + k * step
        place(other, arrival, r2, w2)
        best, at = np.inf, -1
        for m in range(k):
            days = (k - m) * step
            if days >= least_flight:
                found = _cost(one, other, r1[m], w1[m], r2, w2, days, scratch)
                if found < best:
                    best, at = found, m
        if best > _NEAR * limit:
            continue
        low = max(ready, ready + (at - 1) * step)
        departure, least = _best_departure(
            one, other, low, min(arrival - least_flight, ready + (at + 1) * step), arrival, scratch
        )
        if least <= limit:
            return _advanced(one, other, ready, limit, least_flight, step, departure, arrival, scratch)
    return np.inf, np.inf


@compiled
def _advanced(
    one: Array, other: Array, ready: float, limit: float, least_flight: float, step: float,
    departure: float, arrival: float, scratch: Array,
) -> tuple[float, float]:  # fmt: skip
    """An arrival that is allowed, drawn forward for as long as some departure keeps it allowed."""
    shift = step / 2.0
    while shift > 1e-5:
        trial = arrival - shift
        low, high = max(ready, departure - step), min(trial - least_flight, departure + step)
        if high > low:
            found, least = _best_departure(one, other, low, high, trial, scratch)
            if least <= limit:
                departure, arrival = found, trial
                continue
        shift /= 2.0
    return departure, arrival
