"""The tree of states: a row for each branch of a worker, a mark for each result, a bend where a state was restored."""

from veristate.interfaces.report.markup import Child, Markup, el
from veristate.interfaces.report.research.facts import worker_class
from veristate.interfaces.report.svg import cross, dot, figure, hover, label, polyline
from veristate.interfaces.report.words import clip
from veristate.research import Card, Place, Standing, WorkerStanding, objective_of

_ROW, _LEFT, _WIDTH_UPPER, _STEP_UPPER, _LABEL = 24, 46, 1000, 18.0, 230
ROWS_UPPER = 60


def tree(standing: Standing) -> Markup:
    """The picture, for all workers one under the other."""
    return el("div", [_worker(standing, worker) for worker in standing.workers.values()], class_="scroll")


def _worker(standing: Standing, worker: WorkerStanding) -> Markup:
    objective = objective_of(standing)
    best = objective.best([str(card.metric) for card in worker.cards if card.counts])
    rows, places = _places(worker)
    step = min(_STEP_UPPER, (_WIDTH_UPPER - _LEFT - _LABEL) / max(len(worker.cards), 1))
    width = round(_LEFT + step * len(worker.cards)) + _LABEL
    at = {name: (_LEFT + column * step, _ROW * (row + 1)) for name, (column, row) in places.items()}
    height = _ROW * (rows + 2)
    drawn: list[Child] = [label(4, _ROW + 4, worker.name, "name")]
    class_ = worker_class(standing, worker.name)
    for card in worker.cards:
        if card.place in at and card.parent in at:
            drawn.append(el("path", d=_bend(at[card.parent], at[card.place]), class_=f"branch {class_}-line"))
    for name, (x, y) in at.items():
        found = standing.card(name)
        if found is None:
            drawn.append(dot(x, y, 4, "hollow", hover(f"{name}: the workspace that every worker starts from")))
        elif found.counts:
            at_best = found.metric == best
            drawn.append(dot(x, y, 5.5 if at_best else 3.4, class_, hover(_told(found))))
            if at_best:
                drawn.append(label(x + 4, y - 8, f"{found.place} {str(found.metric)[:22]}", "halo"))
        else:
            drawn.append(cross(x, y, 3.4, "out", hover(_told(found))))
    # At its own size: what is wider than the page is scrolled to, not made too small to read.
    return el("div", figure(width, height, f"States of {worker.name}", *drawn), style=f"width: {width}px")


def _places(worker: WorkerStanding) -> tuple[int, dict[str, tuple[int, int]]]:
    """The number of rows, and column and row of each state: a new row where an archived state was restored."""
    found = {str(Place(worker=worker.name, stage=0)): (0, 0)}
    back = {decided.after + 1 for decided in worker.decisions if decided.content["restart"] != "live"}
    row, seen = 0, 0
    for column, card in enumerate(worker.cards, start=1):
        if card.segment != seen and card.segment in back:
            row = min(row + 1, ROWS_UPPER)
        seen = card.segment
        found[card.place] = (column, row)
    return row + 1, found


def _bend(start: tuple[float, float], end: tuple[float, float]) -> str:
    if start[1] == end[1]:
        return polyline([start, end])
    return polyline([start, (start[0], end[1] - 6), (start[0] + 6, end[1]), end])


def _told(card: Card) -> str:
    shown = card.metric if card.status == "valid" else f"{card.status}: {clip(card.reason, 160)}"
    return f"{card.place} from {card.parent}: {shown}. {clip(card.note, 100)}"
