"""Lambert's problem with up to 20 revolutions, both ways round and both branches: the cheapest two-impulse transfer.

Source: D. Izzo, Revisiting Lambert's problem (2015): the unknown x, its starting values, Householder iterations.
"""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
from veristate.research.campaigns.tour.instance import MU

Array = NDArray[np.float64]

_HOUSEHOLDER_STEPS = 15
_BATTIN = 0.01  # nearer to the parabola than this, the time of flight is a series


@compiled
def flight_time(x: float, turns: int, lam: float) -> float:
    """Izzo's dimensionless time of flight T(x) after so many whole turns; |x| < 1 is an ellipse, x > 1 a hyperbola."""
    e = x * x - 1.0
    z = np.sqrt(1.0 + lam * lam * e)
    if abs(x - 1.0) < _BATTIN:
        eta = z - lam * x
        s1 = 0.5 * (1.0 - lam - x * eta)
        term, total, k = 1.0, 1.0, 0
        while abs(term) > 1e-13 and k < 200:
            term *= (3.0 + k) * (1.0 + k) / (2.5 + k) * s1 / (k + 1.0)
            total += term
            k += 1
        q = 4.0 / 3.0 * total
        near: float = (eta * eta * eta * q + 4.0 * lam * eta) / 2.0 + (turns * np.pi / abs(e) ** 1.5 if turns else 0.0)
        return near
    y = np.sqrt(abs(e))
    g = x * z - lam * e
    d = turns * np.pi + np.arccos(min(1.0, max(-1.0, g))) if e < 0.0 else np.log(y * (z - lam * x) + g)
    time: float = (x - lam * z - d / y) / e
    return time


@compiled
def _slopes(x: float, time: float, lam: float) -> tuple[float, float, float]:
    """The first three derivatives of T at x, for |x| not 1."""
    u = 1.0 - x * x
    y = np.sqrt(1.0 - lam * lam * u)
    cube = lam * lam * lam
    first = (3.0 * time * x - 2.0 + 2.0 * cube * x / y) / u
    second = (3.0 * time + 5.0 * x * first + 2.0 * (1.0 - lam * lam) * cube / (y * y * y)) / u
    third = (7.0 * x * second + 8.0 * first - 6.0 * (1.0 - lam * lam) * cube * lam * lam * x / y**5) / u
    return first, second, third


@compiled
def _solved(x: float, time: float, turns: int, lam: float) -> float:
    """The x at which T is `time`, from a starting value; NaN where the iterations leave its domain."""
    for _ in range(_HOUSEHOLDER_STEPS):
        now = flight_time(x, turns, lam)
        a, b, c = _slopes(x, now, lam)
        off = now - time
        bottom = a * (a * a - off * b) + c * off * off / 6.0
        step = off * (a * a - off * b / 2.0) / bottom
        x -= step
        if not x > -1.0 or (turns > 0 and x >= 1.0):
            return np.nan
        if abs(step) < 1e-11:
            break
    return x


@compiled
def least_time(turns: int, lam: float) -> float:
    """The shortest dimensionless time in which that many whole turns (at least one) are possible: Halley's method."""
    x = 0.0
    time = flight_time(x, turns, lam)
    for _ in range(12):
        a, b, c = _slopes(x, time, lam)
        if a == 0.0:
            break
        step = a * b / (b * b - a * c / 2.0)
        x -= step
        time = flight_time(x, turns, lam)
        if abs(step) < 1e-12:
            break
    return time


@compiled
def _first_guess(time: float, lam: float) -> float:
    """A starting value for less than one turn."""
    at_zero = np.arccos(lam) + lam * np.sqrt(1.0 - lam * lam)
    parabolic = 2.0 / 3.0 * (1.0 - lam**3)
    if time >= at_zero:
        return float(-(time - at_zero) / (time - at_zero + 4.0))
    if time <= parabolic:
        return parabolic * (parabolic - time) / (0.4 * (1.0 - lam**5) * time) + 1.0
    return float((time / at_zero) ** (np.log(2.0) / np.log(parabolic / at_zero)) - 1.0)


@compiled
def velocities(
    r1: Array, r2: Array, seconds: float, long_way: bool, turns: int, right: bool, v1: Array, v2: Array
) -> bool:
    """Whether there is such an arc; fills v1 and v2 with its velocities at r1 and r2.

    `long_way` goes round by more than half a turn, besides the whole ones. `right` picks the branch of larger x (the
    faster, lower one) where there are two: for one turn or more.
    """
    a, b = np.sqrt(_dot(r1, r1)), np.sqrt(_dot(r2, r2))
    chord = np.sqrt((r2[0] - r1[0]) ** 2 + (r2[1] - r1[1]) ** 2 + (r2[2] - r1[2]) ** 2)
    s = 0.5 * (a + b + chord)
    time = np.sqrt(2.0 * MU / s**3) * seconds
    lam = np.sqrt(max(0.0, 1.0 - chord / s))
    if long_way:
        lam = -lam
    if turns == 0:
        x = _solved(_first_guess(time, lam), time, 0, lam)
    else:
        if turns * np.pi > time:
            return False
        if time < np.arccos(lam) + lam * np.sqrt(1.0 - lam * lam) + turns * np.pi and time < least_time(turns, lam):
            return False
        ratio = 8.0 * time / (turns * np.pi) if right else (turns + 1.0) * np.pi / (8.0 * time)
        root = ratio ** (2.0 / 3.0)
        x = _solved((root - 1.0) / (root + 1.0), time, turns, lam)
    if not np.isfinite(x):
        return False
    return _resolve(r1, r2, a, b, chord, s, lam, x, v1, v2)


@compiled
def _resolve(
    r1: Array, r2: Array, a: float, b: float, chord: float, s: float, lam: float, x: float, v1: Array, v2: Array
) -> bool:
    """Fills the velocities from x, radial and transverse parts; False where the two places span no plane."""
    nx = (r1[1] * r2[2] - r1[2] * r2[1]) / (a * b)
    ny = (r1[2] * r2[0] - r1[0] * r2[2]) / (a * b)
    nz = (r1[0] * r2[1] - r1[1] * r2[0]) / (a * b)
    size = np.sqrt(nx * nx + ny * ny + nz * nz)
    if size < 1e-14 or chord == 0.0:
        return False
    turn = (-1.0 if lam < 0.0 else 1.0) / size
    nx, ny, nz = turn * nx, turn * ny, turn * nz
    y = np.sqrt(1.0 - lam * lam + lam * lam * x * x)
    gamma, rho = np.sqrt(MU * s / 2.0), (a - b) / chord
    sigma = np.sqrt(max(0.0, 1.0 - rho * rho))
    radial_1 = gamma * ((lam * y - x) - rho * (lam * y + x)) / (a * a)
    radial_2 = -gamma * ((lam * y - x) + rho * (lam * y + x)) / (b * b)
    across = gamma * sigma * (y + lam * x)
    across_1, across_2 = across / (a * a), across / (b * b)
    v1[0] = radial_1 * r1[0] + across_1 * (ny * r1[2] - nz * r1[1])
    v1[1] = radial_1 * r1[1] + across_1 * (nz * r1[0] - nx * r1[2])
    v1[2] = radial_1 * r1[2] + across_1 * (nx * r1[1] - ny * r1[0])
    v2[0] = radial_2 * r2[0] + across_2 * (ny * r2[2] - nz * r2[1])
    v2[1] = radial_2 * r2[1] + across_2 * (nz * r2[0] - nx * r2[2])
    v2[2] = radial_2 * r2[2] + across_2 * (nx * r2[1] - ny * r2[0])
    return True


@compiled
def cheapest(
    r1: Array, w1: Array, r2: Array, w2: Array, seconds: float, ways: int, fewest: int, most: int, v1: Array, v2: Array
) -> float:
    """The least |v1 - w1| + |v2 - w2| over the arcs of `fewest` to `most` whole turns, in m/s; inf without an arc.

    w1 and w2 are the targets' own velocities. `ways`: 1 the short way, 2 the long way, 3 both. v1, v2 are scratch.
    """
    best = np.inf
    for way in range(2):
        if not (ways >> way) & 1:
            continue
        for turns in range(fewest, most + 1):
            for right in range(2 if turns else 1):
                if not velocities(r1, r2, seconds, way == 1, turns, right == 1, v1, v2):
                    continue
                cost = _distance(v1, w1) + _distance(v2, w2)
                if cost < best:
                    best = cost
    return best


@compiled
def _dot(a: Array, b: Array) -> float:
    return float(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@compiled
def _distance(a: Array, b: Array) -> float:
    return float(np.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2))
