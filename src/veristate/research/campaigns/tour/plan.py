"""The stretches of a tour: groups of targets among which legs are cheap, in an order that needs few exceptions.

Changing from low to high orbits needs an exception, turning the plane by a little does not. So the high orbits are
walked by inclination, once, and each group of low orbits is visited when the walk has passed its inclination.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.research.campaigns.tour.instance import MU, Instance
from veristate.research.campaigns.tour.orbits import prepared

Array = NDArray[np.float64]

_TOLERANCE = 0.11


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Stretches of targets in order, each sorted along a short path through its planes.

    `turning_estimate` is a lower estimate of the m/s from one to another: of the change of plane alone. `along` is
    where a target lies on that path, in radians. `tolerance` is how far, in allowances of m/s, a target may be left
    behind for nothing: far where planes lie close and phases matter more.
    """

    stretches: tuple[tuple[int, ...], ...]
    orbits: Array
    turning_estimate: Array
    along: Array
    tolerance: Array


def planned(instance: Instance, descending: bool = False, margin: float = 0.045) -> Plan:
    """The plan that walks the high orbits by inclination, up or down; `margin` is how far past a low group it goes."""
    orbits = prepared(instance.elements)
    speeds = np.sqrt(MU / instance.elements[:, 0])
    along = instance.elements[:, 2] * (-1.0 if descending else 1.0)
    normals = orbits[:, 10:13]
    angles = np.arccos(np.clip(normals @ normals.T, -1.0, 1.0))
    turning = 2.0 * np.sin(angles / 2.0) * np.minimum(speeds[:, None], speeds[None, :])
    radii = instance.elements[:, 0]
    low = np.flatnonzero(radii < np.sqrt(radii.min() * radii.max()))
    high = np.setdiff1d(np.arange(instance.size), low)
    if radii.max() < 1.5 * radii.min():
        low, high = low[:0], np.arange(instance.size)
    groups = _groups(low, along)
    stretches: list[list[int]] = []
    rest = sorted(high.tolist(), key=lambda k: float(along[k]))
    for number, group in enumerate(groups):
        if number > 0:
            last = number == len(groups) - 1
            passed = [k for k in rest if last or along[k] <= np.mean(along[group]) + margin]
            stretches.append(passed)
            rest = rest[len(passed) :]
        stretches.append(group)
    stretches.append(rest)
    walks = [_short_path(each, angles, along) for each in stretches if each]
    on_path, tolerance = np.zeros(instance.size), np.zeros(instance.size)
    for walk in walks:
        on_path[walk] = np.concatenate([[0.0], np.cumsum(angles[walk[:-1], walk[1:]])])
        step = float(np.sum(turning[walk[:-1], walk[1:]])) / len(walk)
        tolerance[walk] = max(_TOLERANCE, 0.5 - 5.0 * step / instance.dv)
    return Plan(
        stretches=tuple(tuple(walk.tolist()) for walk in walks),
        orbits=orbits, turning_estimate=turning, along=on_path, tolerance=tolerance,
    )  # fmt: skip


def _short_path(members: list[int], angles: Array, along: Array) -> NDArray[np.int64]:
    """The members on a short path through their planes, from the first along the walk to the last: 2-opt.

    Inclination alone says little near a right angle, where planes of one inclination lie far apart.
    """
    path = np.array(sorted(members, key=lambda k: float(along[k])))
    for _ in range(20 * len(path)):
        here, after = path[:-1], path[1:]
        steps = angles[here, after]
        # What turning round the part between two legs saves.
        saved = steps[:, None] + steps[None, :] - angles[np.ix_(here, here)] - angles[np.ix_(after, after)]
        best = int(np.argmax(np.triu(saved, 1)))
        i, j = divmod(best, len(steps)) if len(steps) else (0, 0)
        if not j > i or saved[i, j] < 1e-9:
            break
        path[i + 1 : j + 1] = path[i + 1 : j + 1][::-1]
    return path


def _groups(low: NDArray[np.int64], along: Array) -> list[list[int]]:
    """The low orbits in groups that gaps of a quarter radian divide."""
    groups: list[list[int]] = []
    for k in sorted(low.tolist(), key=lambda k: float(along[k])):
        if groups and along[k] - along[groups[-1][-1]] < 0.25:
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups
