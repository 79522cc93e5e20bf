"""Where a target is at a time: Kepler's equation, and the directions of each orbit prepared once."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.tour.instance import DAY, MU

Array = NDArray[np.float64]


def prepared(elements: Array) -> Array:
    """A row per target: a, e, M, mean motion [rad/day], the unit vectors to periapsis and along it, the normal."""
    a, e, i, node, argument, mean = elements.T
    ci, si, cn, sn, cw, sw = np.cos(i), np.sin(i), np.cos(node), np.sin(node), np.cos(argument), np.sin(argument)
    p = np.stack([cn * cw - sn * sw * ci, sn * cw + cn * sw * ci, sw * si], axis=1)
    q = np.stack([-cn * sw - sn * cw * ci, -sn * sw + cn * cw * ci, cw * si], axis=1)
    normal = np.cross(p, q)
    head = np.stack([a, e, mean, np.sqrt(MU / a**3) * DAY], axis=1)
    return np.ascontiguousarray(np.concatenate([head, p, q, normal], axis=1))


def places(orbits: Array, days: Array) -> tuple[Array, Array]:
    """Positions [m] and velocities [m/s], a row each, of one target per day given."""
    a, e = orbits[:, 0], orbits[:, 1]
    mean = np.mod(orbits[:, 2] + orbits[:, 3] * days, 2.0 * np.pi)
    angle = np.where(e < 0.8, mean, np.pi)
    for _ in range(50):
        step = (angle - e * np.sin(angle) - mean) / (1.0 - e * np.cos(angle))
        angle = angle - step
        if np.all(np.abs(step) < 1e-14):
            break
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    across = np.sqrt(1.0 - e * e)[:, None]
    rate = (np.sqrt(MU * a) / a)[:, None] / (1.0 - e[:, None] * c)
    p, q = orbits[:, 4:7], orbits[:, 7:10]
    return a[:, None] * ((c - e[:, None]) * p + across * s * q), rate * (across * c * q - s * p)
