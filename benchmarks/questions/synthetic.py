"""A synthetic family of executions, simulated, fitted to nobody's data: 6-dimensional outputs, log-normal spreads."""

import numpy as np

from veristate.attest.challenge import Distances


def synthetic(rng: np.random.Generator, *, outputs: int, offset: bool = False) -> Distances:
    """Distances of one execution's outputs; with `offset` the first is a fabrication of the same input.

    The spread's median is .25, the offset's .40. Shapes: [outputs, outputs].
    """
    spread = 0.25 * np.exp(rng.normal(0, 0.4))
    points = rng.normal(0, spread / np.sqrt(12), size=(outputs, 6))
    if offset:
        direction = rng.normal(size=6)
        points[0] += 0.4 * np.exp(rng.normal(0, 0.2)) * direction / np.linalg.norm(direction)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.minimum(apart, 1.0).tolist()
