"""Where a target is at a time: Kepler's equation, and the directions of each orbit prepared once."""

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.compiled import compiled
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
