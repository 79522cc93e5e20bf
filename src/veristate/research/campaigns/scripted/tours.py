"""The worker of the tour tasks: beam searches, up and down the inclinations, wider each time, then local improvement.

The best tour lies in the workspace as `solution.json`; a segment that extends goes on improving it, one that redirects
searches anew.
"""

import json
from collections.abc import Callable, Iterator

import numpy as np

from veristate.research.campaigns.exact.reading import FILE
from veristate.research.campaigns.tour.beam import Tour, read_tour, searched
from veristate.research.campaigns.tour.improve import improved
from veristate.research.campaigns.tour.instance import Instance, read_instance
from veristate.research.campaigns.tour.plan import Plan, planned
from veristate.research.workers.bench import Bench

_WIDTHS = (1, 4, 16, 40)
_CHOICES = 24
_PATIENCE = 400  # changes in a row that better nothing
_CHANGES = 200  # that better a tour, between two submissions
_SHAKE = 0.3  # days, of all searches but the first


def search(bench: Bench) -> str:
    """What was found, in words, when the segment's time is over."""
    instance = read_instance(str(bench.parameters["instance"]))
    rng = np.random.default_rng([bench.seed, bench.segment])
    best = float(bench.best) if bench.best is not None else np.inf
    searches = 0

    def enough() -> bool:
        return bench.remaining_s() < 10.0

    if bench.direction == "extend" and (kept := _kept(bench, instance)) is not None:
        plan = planned(instance, descending=_descends(kept, instance))
        for tour in _bettered(instance, plan, kept, rng, enough):
            best = _submitted(bench, tour, best)
    while not enough():
        for tour in attempt(instance, searches + (bench.seed + bench.segment) % 2, rng, enough):
            best = _submitted(bench, tour, best)
        searches += 1
    return f"{searches} searches; best tour {best:.3f} days"


def attempt(instance: Instance, number: int, rng: np.random.Generator, enough: Callable[[], bool]) -> Iterator[Tour]:
    """The tour of one beam search, then better ones near it; none where the beam found no way.

    Even numbers walk up the inclinations, odd ones down; the first two are narrow, and the only ones without a shake.
    """
    plan = planned(instance, descending=number % 2 == 1)
    tour = searched(
        instance,
        plan,
        width=_WIDTHS[min(number // 2, len(_WIDTHS) - 1)],
        choices=_CHOICES,
        rng=rng,
        shake=_SHAKE if number > 1 else 0.0,
        enough=enough,
    )
    if tour is not None:
        yield tour
        yield from _bettered(instance, plan, tour, rng, enough)


def _bettered(
    instance: Instance, plan: Plan, tour: Tour, rng: np.random.Generator, enough: Callable[[], bool]
) -> Iterator[Tour]:
    """Better and better tours near that one."""
    while not enough():
        better = improved(instance, plan, tour, rng, enough, _PATIENCE, _CHANGES)
        if not better.end < tour.end - 1e-9:
            return
        yield (tour := better)


def _kept(bench: Bench, instance: Instance) -> Tour | None:
    """The tour that lies in the workspace; None without one that holds."""
    try:
        numbers = np.array(json.loads((bench.workspace / FILE).read_text(encoding="utf-8"))["tour"], dtype=float)
        return read_tour(instance, numbers)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _descends(tour: Tour, instance: Instance) -> bool:
    return bool(instance.elements[tour.order[0], 2] > instance.elements[tour.order[-1], 2])


def _submitted(bench: Bench, tour: Tour, best: float) -> float:
    if not tour.end < best - 1e-6:
        return best
    (bench.workspace / FILE).write_text(json.dumps({"tour": tour.numbers()}) + "\n", encoding="utf-8")
    outcome = bench.submit(f"tour of {tour.end:.3f} days")
    return tour.end if outcome.status == "valid" else best
