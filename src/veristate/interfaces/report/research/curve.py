"""The score over time: every result that counts, each worker's best so far, what was refused, every re-anchoring."""

from veristate.interfaces.report.markup import Child, Markup, el
from veristate.interfaces.report.research.facts import Turn, improvements, turns, worker_class
from veristate.interfaces.report.svg import (
    Scale,
    cross,
    dot,
    figure,
    hover,
    label,
    line,
    polyline,
    responsive,
    triangle,
    x_axis,
    y_axis,
)
from veristate.interfaces.report.words import clip
from veristate.research import Card, Objective, Standing, WorkerStanding, objective_of

HEIGHT, TOP, FOOT = 366, 26, 90
_REFUSED_ROW, _TURN_ROW = 30, 14


def curve(standing: Standing) -> Markup:
    """The picture; a line of text while nothing counts."""
    if not any(card.counts for card in standing.cards):
        return el("p", "No result counts yet.", class_="lead")
    return el("div", responsive(lambda width: _draw(standing, width)), class_="figure")


def _draw(standing: Standing, width: int) -> Markup:
    left = 64 if width < 500 else 86
    objective = objective_of(standing)
    end = max([float(card.spent_s) for card in standing.cards] + [turn.seconds for turn in turns(standing)] + [1e-3])
    x = Scale(low=0.0, high=end * 1.02, start=left, end=width - 14)
    y = _heights(standing, HEIGHT - FOOT, TOP)
    drawn: list[Child] = [y_axis(y, left, width - 14, 6), x_axis(x, HEIGHT - 38, HEIGHT - FOOT, 6)]
    drawn.append(label((left + width) / 2, HEIGHT - 2, "seconds charged", "aside", anchor="middle"))
    drawn += _goals(objective, y, left, width - 14)
    drawn += [_mark_turn(standing, turn, x) for turn in turns(standing)]
    for worker in standing.workers.values():
        drawn += _worker(standing, worker, x, y, end)
    return figure(width, HEIGHT, "Score over time", *drawn)


def _goals(objective: Objective, y: Scale, left: float, right: float) -> list[Child]:
    """Lines at the target and the best known value; one label where they are too close for two."""
    named = [("target", objective.target), ("best known", objective.best_known)]
    found = [(f"{name} {value}", y(float(value))) for name, value in named if value is not None]
    drawn: list[Child] = [line(left, height, right, height, "boundary") for _, height in found]
    if len(found) == 2 and abs(found[0][1] - found[1][1]) < 15:
        found = [(f"{found[0][0]}, {found[1][0]}", min(found[0][1], found[1][1]))]
    return drawn + [label(left + 4, height - 5, text, "aside") for text, height in found]


def _worker(standing: Standing, worker: WorkerStanding, x: Scale, y: Scale, end: float) -> list[Child]:
    class_ = worker_class(standing, worker.name)
    best = list(improvements(worker, objective_of(standing)))
    points: list[tuple[float, float]] = []
    for card in best:
        at = (x(float(card.spent_s)), y(float(str(card.metric))))
        points += [(at[0], points[-1][1]), at] if points else [at]
    drawn: list[Child] = []
    if points:
        path = polyline([*points, (x(end), points[-1][1])])
        drawn.append(el("path", d=path, class_=f"curve {class_}-line"))
    for card in worker.cards:
        place = x(float(card.spent_s))
        if card.counts:
            drawn.append(dot(place, y(float(str(card.metric))), 3.2 if card in best else 2.2, class_, _told(card)))
        else:
            drawn.append(cross(place, HEIGHT - FOOT + _REFUSED_ROW, 3.2, "out", _told(card)))
    return drawn


def _mark_turn(standing: Standing, turn: Turn, x: Scale) -> list[Child]:
    said = turn.decided.content
    told = f"{turn.worker}: {turn.direction} from {turn.restart}. {clip(said['bottleneck'], 120)}"
    place = x(turn.seconds)
    return [
        line(place, TOP, place, HEIGHT - FOOT, "boundary-before") if turn.back else None,
        triangle(
            place,
            HEIGHT - FOOT + _TURN_ROW,
            -1 if turn.back else 1,
            worker_class(standing, turn.worker) + ("" if turn.direction == "redirect" else " hollow"),
            hover(told),
        ),
    ]


def _told(card: Card) -> Markup:
    shown = card.metric if card.status == "valid" else f"{card.status}: {clip(card.reason, 120)}"
    return hover(f"{card.place} {shown}, {float(card.spent_s):.1f} s. {clip(card.note, 80)}")


def _heights(standing: Standing, start: float, end: float) -> Scale:
    """The scale of scores: it shows where the improvements of the second half are, and what is far off at its edge."""
    objective = objective_of(standing)
    found = [float(str(c.metric)) for each in standing.workers.values() for c in improvements(each, objective)]
    found.sort(reverse=objective.direction == "minimise")
    core = found[len(found) // 4 :]
    core += [float(value) for value in (objective.target, objective.best_known) if value is not None]
    low, high = min(core), max(core)
    pad = 0.06 * (high - low) or abs(high) * 1e-6 or 1e-6
    return Scale(low=low - pad, high=high + pad, start=start, end=end)
