"""The cheapest arc of each of many legs at once, over all turns up to a number, both ways round and both branches.

Lambert's problem over whole arrays (D. Izzo, Revisiting Lambert's problem, 2015). It needs no compiler, so that a
scorer, which is a new process for each tour, starts at once; it shares nothing with the arcs that a search is led by.
"""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.tour.instance import MU

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_HOUSEHOLDER_STEPS = 15
_HALLEY_STEPS = 12
_BATTIN = 0.01  # nearer to the parabola than this, the time of flight is a series


def cheapest_arcs(r1: Array, w1: Array, r2: Array, w2: Array, seconds: Array, most: int) -> Array:
    """The least |v1 - w1| + |v2 - w2| in m/s of each leg, inf without an arc. Rows: places [m] and velocities [m/s]."""
    a, b, chord = np.linalg.norm(r1, axis=1), np.linalg.norm(r2, axis=1), np.linalg.norm(r2 - r1, axis=1)
    s = 0.5 * (a + b + chord)
    time = np.sqrt(2.0 * MU / s**3) * seconds
    best = np.full(len(time), np.inf)
    with np.errstate(all="ignore"):  # what leaves its domain becomes NaN, and is no arc
        short = np.sqrt(np.maximum(0.0, 1.0 - chord / s))
        for lam in (short, -short):
            leg, turns, right = _asked(time, lam, most)
            x = _solved(_started(time[leg], lam[leg], turns, right), time[leg], turns, lam[leg])
            costs = _costs(r1, w1, r2, w2, (a, b, chord, s), lam, leg, x)
            np.minimum.at(best, leg, np.where(np.isfinite(costs), costs, np.inf))
    return best


def _asked(time: Array, lam: Array, most: int) -> tuple[Indices, Indices, NDArray[np.bool_]]:
    """The leg, the whole turns and the branch of every arc there is."""
    turns = np.floor(time / np.pi).astype(np.int64)
    # Only the most turns that the time has room for may be one too many.
    doubtful = np.flatnonzero(
        (turns >= 1) & (turns <= most) & (time < np.arccos(lam) + lam * np.sqrt(1.0 - lam**2) + turns * np.pi)
    )
    turns[doubtful] -= time[doubtful] < _least_times(turns[doubtful], lam[doubtful])
    arcs = 1 + 2 * np.minimum(turns, most)
    leg = np.repeat(np.arange(len(time)), arcs)
    number = np.arange(len(leg)) - np.repeat(np.cumsum(arcs) - arcs, arcs)
    return leg, (number + 1) // 2, number % 2 == 0


def flight_times(x: Array, turns: Indices, lam: Array) -> Array:
    """Izzo's dimensionless time of flight T(x) after so many whole turns; |x| < 1 is an ellipse, x > 1 a hyperbola."""
    e = x * x - 1.0
    z = np.sqrt(1.0 + lam * lam * e)
    y = np.sqrt(np.abs(e))
    g = x * z - lam * e
    d = np.where(e < 0.0, turns * np.pi + np.arccos(np.clip(g, -1.0, 1.0)), np.log(y * (z - lam * x) + g))
    times: Array = (x - lam * z - d / y) / e
    near = np.flatnonzero(np.abs(x - 1.0) < _BATTIN)
    if len(near):
        eta = (z - lam * x)[near]
        s1 = 0.5 * (1.0 - lam[near] - x[near] * eta)
        term = total = np.ones(len(near))
        for k in range(60):
            term = term * (3.0 + k) * (1.0 + k) / (2.5 + k) * s1 / (k + 1.0)
            total = total + term
        whole = np.where(turns[near] > 0, turns[near] * np.pi / np.abs(e[near]) ** 1.5, 0.0)
        times[near] = (eta**3 * 4.0 / 3.0 * total + 4.0 * lam[near] * eta) / 2.0 + whole
    return times


def _slopes(x: Array, time: Array, lam: Array) -> tuple[Array, Array, Array]:
    """The first three derivatives of T at x, for |x| not 1."""
    square, u = lam * lam, 1.0 - x * x
    y = np.sqrt(1.0 - square * u)
    cube = square * lam
    first = (3.0 * time * x - 2.0 + 2.0 * cube * x / y) / u
    second = (3.0 * time + 5.0 * x * first + 2.0 * (1.0 - square) * cube / y**3) / u
    third = (7.0 * x * second + 8.0 * first - 6.0 * (1.0 - square) * cube * square * x / y**5) / u
    return first, second, third


def _least_times(turns: Indices, lam: Array) -> Array:
    """The shortest dimensionless times in which that many whole turns (at least one) are possible: Halley's method."""
    x = np.zeros(len(lam))
    time = flight_times(x, turns, lam)
    for _ in range(_HALLEY_STEPS):
        a, b, c = _slopes(x, time, lam)
        x = x - a * b / (b * b - a * c / 2.0)
        time = flight_times(x, turns, lam)
    return time


def _started(time: Array, lam: Array, turns: Indices, right: NDArray[np.bool_]) -> Array:
    """Starting values; `right` is the branch of larger x, the faster and lower arc."""
    at_zero = np.arccos(lam) + lam * np.sqrt(1.0 - lam * lam)
    parabolic = 2.0 / 3.0 * (1.0 - lam**3)
    slow = -(time - at_zero) / (time - at_zero + 4.0)
    quick = parabolic * (parabolic - time) / (0.4 * (1.0 - lam**5) * time) + 1.0
    between = (time / at_zero) ** (np.log(2.0) / np.log(parabolic / at_zero)) - 1.0
    first = np.where(time >= at_zero, slow, np.where(time <= parabolic, quick, between))
    ratio = np.where(right, 8.0 * time / (turns * np.pi), (turns + 1.0) * np.pi / (8.0 * time))
    root = np.cbrt(ratio) ** 2
    return np.where(turns == 0, first, (root - 1.0) / (root + 1.0))


def _solved(x: Array, time: Array, turns: Indices, lam: Array) -> Array:
    """The x at which T is `time`, by Householder's third-order steps; NaN where they leave T's domain."""
    x, active = x.copy(), np.arange(len(x))
    for _ in range(_HOUSEHOLDER_STEPS):
        now, m, k = x[active], turns[active], lam[active]
        reached = flight_times(now, m, k)
        a, b, c = _slopes(now, reached, k)
        off = reached - time[active]
        step = off * (a * a - off * b / 2.0) / (a * (a * a - off * b) + c * off * off / 6.0)
        now = now - step
        now[~(now > -1.0) | ((m > 0) & (now >= 1.0))] = np.nan
        x[active] = now
        active = active[np.abs(step) >= 1e-11]
        active = active[np.isfinite(x[active])]
        if not len(active):
            break
    return x


def _costs(
    r1: Array, w1: Array, r2: Array, w2: Array, sides: tuple[Array, Array, Array, Array], lam: Array, leg: Indices,
    x: Array,
) -> Array:  # fmt: skip
    """|v1 - w1| + |v2 - w2| of each arc; NaN where the two places span no plane."""
    a, b, chord, s = sides
    normal = np.cross(r1, r2) / (a * b)[:, None]
    size = np.linalg.norm(normal, axis=1)
    normal *= (np.where(lam < 0.0, -1.0, 1.0) / np.where(size < 1e-14, np.nan, size))[:, None]
    rho, gamma = (a - b) / chord, np.sqrt(MU * s / 2.0)
    across = gamma * np.sqrt(np.maximum(0.0, 1.0 - rho * rho))
    out_1, out_2 = r1 / a[:, None], r2 / b[:, None]
    on_1, on_2 = np.cross(normal, out_1), np.cross(normal, out_2)
    lam, rho, gamma = lam[leg], rho[leg], gamma[leg]
    y = np.sqrt(1.0 - lam * lam + lam * lam * x * x)
    turning = across[leg] * (y + lam * x)
    cost = np.zeros(len(leg))
    for out, on, w, size, sign in ((out_1, on_1, w1, a, 1.0), (out_2, on_2, w2, b, -1.0)):
        radial = gamma * (sign * (lam * y - x) - rho * (lam * y + x)) / size[leg]
        # In the frame of the place: the target's own velocity has three parts, the arc's only two.
        up, along, aside = (np.sum(w * axis, axis=1)[leg] for axis in (out, on, normal))
        cost += np.sqrt((radial - up) ** 2 + (turning / size[leg] - along) ** 2 + aside**2)
    return cost
