"""A worker: random steps from the best point so far, smaller ones as it improves. Replace it, or use any agent."""

import json
import random

from veristate.research import Bench


def search(bench: Bench) -> str:
    """Submits what halves the value; what must outlive a segment lies in the workspace."""
    chance = random.Random(bench.seed)  # noqa: S311 - no secret
    file = bench.workspace / "point.json"
    if file.exists() and bench.direction == "extend":
        point = json.loads(file.read_text())
    else:
        point = [chance.random(), chance.random()]
    best, width, told = height(*point), 0.3, float("inf")
    while bench.remaining_s() > 0:
        trial = [min(1.0, max(0.0, value + chance.gauss(0, width))) for value in point]
        if height(*trial) >= best:
            width = max(width * 0.999, 1e-9)
            continue
        point, best = trial, height(*trial)
        if best < told / 2:
            told = best
            file.write_text(json.dumps(point))
            if bench.submit(f"steps of width {width:.2g}").segment_over:
                break
    return "done"


def height(x: float, y: float) -> float:
    """The function itself; a worker may compute what it likes, only the evaluator's word counts."""
    u, v = 10 * x - 5, 10 * y - 5
    return (u * u + v - 11) ** 2 + (u + v * v - 7) ** 2
