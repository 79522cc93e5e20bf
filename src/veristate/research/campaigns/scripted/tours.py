"""The worker of the tour tasks: beam searches, up and down the inclinations, wider each time, then local improvement.

The best tour lies in the workspace as `solution.json`; a segment that extends goes on improving it, one that redirects
searches anew.
"""

import json
from collections.abc import Callable

import numpy as np

from veristate.research.campaigns.exact.reading import FILE
from veristate.research.campaigns.tour.beam import Tour, searched
from veristate.research.campaigns.tour.improve import improved
from veristate.research.campaigns.tour.instance import Instance, read_instance
from veristate.research.campaigns.tour.plan import planned
from veristate.research.workers.bench import Bench

_WIDTHS = (2, 6, 16, 40)
_CHOICES = 8
_SHAKE = 0.3  # days, of all searches but the first


def search(bench: Bench) -> str:
    """What was found, in words, when the segment's time is over."""
    instance = read_instance(str(bench.parameters["instance"]))
    rng = np.random.default_rng([bench.seed, bench.segment])
    best = float(bench.best) if bench.best is not None else np.inf
    searches = 0

    def enough() -> bool:
        return bench.remaining_s() < 10.0

    while not enough():
        tour = _one(instance, searches + (bench.seed + bench.segment) % 2, searches, rng, enough)
        searches += 1
        if tour is None:
            continue
        best = _submitted(bench, tour, best)
        better = improved(instance, planned(instance, descending=_descends(tour, instance)), tour, rng, enough, 400)
        best = _submitted(bench, better, best)
    return f"{searches} searches; best tour {best:.3f} days"


def _one(
    instance: Instance, turn: int, searches: int, rng: np.random.Generator, enough: Callable[[], bool]
) -> Tour | None:
    """One beam search; even turns walk up the inclinations, odd ones down."""
    return searched(
        instance,
        planned(instance, descending=turn % 2 == 1),
        width=_WIDTHS[min(searches // 2, len(_WIDTHS) - 1)],
        choices=_CHOICES,
        rng=rng,
        shake=_SHAKE if searches > 1 else 0.0,
        enough=enough,
    )


def _descends(tour: Tour, instance: Instance) -> bool:
    return bool(instance.elements[tour.order[0], 2] > instance.elements[tour.order[-1], 2])


def _submitted(bench: Bench, tour: Tour, best: float) -> float:
    if not tour.end < best - 1e-6:
        return best
    (bench.workspace / FILE).write_text(json.dumps({"tour": tour.numbers()}) + "\n", encoding="utf-8")
    outcome = bench.submit(f"tour of {tour.end:.3f} days")
    return tour.end if outcome.status == "valid" else best
