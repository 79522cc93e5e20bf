"""The worker of the packing, distance and Heilbronn tasks: basin hopping; what is better is polished and submitted.

What outlives a segment is `state.npz` in the workspace: the start that is worked on and how often it stalled. A
redirection begins a new start; another seed gives another worker other starts.
"""

import time

import numpy as np

from veristate.research.campaigns.exact.reading import FILE
from veristate.research.campaigns.search import problems
from veristate.research.campaigns.search.polish import polished
from veristate.research.campaigns.search.solutions import as_text
from veristate.research.campaigns.search.walk import PATIENCE, Walk
from veristate.research.workers.bench import Bench

_KINDS = {
    "packing": problems.PACKING,
    "ratio": problems.RATIO,
    "triangle": problems.TRIANGLE,
    "convex": problems.CONVEX,
}
_STATE = "state.npz"
_EVERY_S = 2.0  # a climb betters itself many times a second; a query each would only keep the evaluator busy


def search(bench: Bench) -> str:
    """What was found, in words, when the segment's time is over."""
    problem = problems.problem(_KINDS[str(bench.parameters["problem"])], int(bench.parameters["n"]))
    walk = _resumed(bench, Walk.begun(problem))
    rng = np.random.default_rng([bench.seed, bench.segment])
    waiting, last = False, 0.0
    while bench.remaining_s() > 1.5:
        waiting = walk.go(25, rng) or waiting
        if waiting and time.monotonic() - last > _EVERY_S:
            waiting = False
            (bench.workspace / FILE).write_text(as_text(problem, polished(problem, walk.best)), encoding="utf-8")
            _keep(bench, walk)
            bench.submit(f"local solution near {walk.best_value:.9f}")
            last = time.monotonic()
    _keep(bench, walk)
    return f"best local solution near {walk.best_value:.9f} after {walk.hops} hops"


def _resumed(bench: Bench, walk: Walk) -> Walk:
    path = bench.workspace / _STATE
    if path.is_file():
        with np.load(path) as kept:
            walk.current, walk.best = kept["current"], kept["best"]
            walk.value, stalls, walk.best_value = (float(number) for number in kept["numbers"])
        walk.stalls = PATIENCE if bench.direction == "redirect" else int(stalls)
    return walk


def _keep(bench: Bench, walk: Walk) -> None:
    numbers = np.array([walk.value, walk.stalls, walk.best_value])
    np.savez(bench.workspace / _STATE, current=walk.current, best=walk.best, numbers=numbers)
