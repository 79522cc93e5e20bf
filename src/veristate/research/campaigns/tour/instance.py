"""Instances of the Keplerian tomato travelling salesperson problem, read through VERISTATE_DATA, and their targets.

A tour for N targets is 3N - 2 numbers: N - 1 departures and N - 1 flight times in days, then the order of the targets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError
from veristate.research.tasks.data import VARIABLE

DAY = 86_400.0
MU = 4.9048695e12  # of the Moon, m^3 / s^2
REVOLUTIONS = 20
EPSILON = 1e-6  # days and m/s, as the public scorer forgives; the audit forgives nothing of the times

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Targets on Kepler orbits about the Moon. Units: metres, radians, days, m/s.

    `elements` has a row a, e, i, RAAN, argument of periapsis, mean anomaly at day `start` for each target. (The public
    text calls the sixth true anomaly; its scorer reads it as mean anomaly.)
    """

    name: str
    start: float
    least_flight: float
    longest: float
    dv: float
    dv_exception: float
    exceptions: int
    elements: Array

    @property
    def size(self) -> int:
        """The number of targets."""
        return len(self.elements)


def read_instance(name: str, environment: Mapping[str, str] = os.environ) -> Instance:
    """The instance `optim/kttsp/NAME.kttsp` of the data folder.

    Raises: EnvironmentUnusableError without the folder or the file, InputError for a file that is no instance.
    """
    folder = environment.get(VARIABLE, "")
    path = Path(folder) / "optim" / "kttsp" / f"{name}.kttsp"
    if not folder or not path.is_file():
        raise EnvironmentUnusableError(
            f"{path} is not there; set {VARIABLE} to a folder with the instances of SpOC4's challenge 2 in optim/kttsp"
        )
    return parse_instance(path.read_text(encoding="utf-8"), name)


def parse_instance(text: str, name: str) -> Instance:
    """The instance that the text describes. Raises: InputError naming the line that is none."""
    header: list[float] = []
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0] == "c":
            continue
        try:
            if words[:2] == ["p", "kttsp"]:
                header = [float(word) for word in words[2:]]
                continue
            rows.append([float(word) for word in words])
        except ValueError as error:
            raise InputError(f"{name}, line {number}: {error}") from error
        if len(rows[-1]) != 6:
            raise InputError(f"{name}, line {number}: a target has six elements, not {len(rows[-1])}")
    if len(header) != 6 or len(rows) < 2:
        raise InputError(f"{name}: a line 'p kttsp' with six numbers and at least two targets are needed")
    elements = np.array(rows)
    if not np.isfinite(elements).all() or (elements[:, 0] <= 0).any() or not np.isfinite(header).all():
        raise InputError(f"{name}: all numbers must be finite, and semi-major axes positive")
    if ((elements[:, 1] < 0) | (elements[:, 1] >= 1)).any():
        raise InputError(f"{name}: eccentricities must lie in [0, 1)")
    start, least, longest, dv, dv_exception, exceptions = header
    return Instance(
        name=name, start=start, least_flight=least, longest=longest, dv=dv, dv_exception=dv_exception,
        exceptions=int(exceptions), elements=elements,
    )  # fmt: skip
