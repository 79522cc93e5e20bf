"""The candidates nearest to a boundary, enlarged, with their names."""

import math
from collections.abc import Sequence

from veristate.interfaces.report import svg
from veristate.interfaces.report.ladder import Ladder, measure
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.words import clip, count, named, score
from veristate.screening import Scores

SIDE = 15  # candidates shown on either side
ROW, TOP, RIGHT = 16, 22, 22


def zoom(steps: Ladder, scores: Scores, width: int) -> Markup:
    """The picture: one row a candidate, the certified score as a disc, the one first computed as a cross."""
    first = max(steps.cut - SIDE, 0)
    rows = steps.order[first : steps.cut + SIDE]
    inside = steps.cut - first
    before = [measure(steps.rule, scores.before[i]) for i in rows]
    edges = [edge for edge in (steps.boundary,) if edge is not None]
    low, high = svg.span([steps.measures[i] for i in rows] + edges, ())
    reach = high - low
    near = [value for value in before if low - reach <= value <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    left = 152 if width < 400 else 176
    scale = svg.Scale(low=low, high=high, start=left, end=width - RIGHT)
    bottom = TOP + ROW * len(rows)
    what = "distance to the threshold" if steps.rule.kind == "nearest" else "score"
    height = bottom + 42
    shapes = [_row(steps, scores, i, first + place, scale) for place, i in enumerate(rows)]
    return svg.figure(
        width,
        height,
        f"The {len(rows)} candidates nearest to the boundary, by {what}",
        svg.x_axis(scale, bottom + 4, TOP, 4),
        svg.label((left + width - RIGHT) / 2, bottom + 37, what, "tick", anchor="middle"),
        _cut(steps, scale, TOP + ROW * inside, bottom),
        [el("g", shape, transform=f"translate(0 {TOP + ROW * place})") for place, shape in enumerate(shapes)],
        class_="zoom",
    )


def _cut(steps: Ladder, scale: svg.Scale, y: float, bottom: float) -> Markup:
    """The boundary: the band of the gap, or the threshold, and the line between chosen and not chosen."""
    shapes: list[Child] = []
    if steps.rule.kind == "threshold":
        at = scale(steps.boundary or 0.0)
        shapes.append(svg.line(at, TOP - 4, at, bottom + 4, "boundary"))
    elif steps.last_in is not None and steps.first_out is not None:
        a, b = sorted((scale(steps.last_in), scale(steps.first_out)))
        shapes.append(svg.box(a, TOP - 4, max(b - a, 1.0), bottom + 8 - TOP, "gap"))
    shapes.append(svg.line(4, y, scale.end + RIGHT - 4, y, "boundary"))
    chosen = f"{count(steps.cut)} chosen, of which the last {min(steps.cut, SIDE)} are below"
    shapes.append(
        svg.label(4, TOP - 9, f"\u2191 {chosen}" if steps.cut > SIDE else f"{count(steps.cut)} chosen", "aside")
    )
    return join(shapes)


def _row(steps: Ladder, scores: Scores, i: int, rank: int, scale: svg.Scale) -> Markup:
    y, at = ROW / 2, scale(steps.measures[i])
    chosen = rank < steps.cut
    name = named(scores.names[i], scores.ids[i])
    told = f"{scores.ids[i]}, rank {count(rank + 1)}: {_told(scores, i)}"
    texts = [
        svg.label(38, y + 4, count(rank + 1), "tick", anchor="end"),
        svg.label(46, y + 4, clip(name, round((scale.start - 46) / 6.8)), "name" if chosen else "name out", full=name),
    ]
    kind = "certified" if scores.certified is not None else "unchecked"
    disc = svg.dot(at, y, 4, kind if chosen else f"{kind} hollow")
    return el(
        "g", svg.hover(told), texts, _interval(steps, scores, i, scale), disc, _before(steps, scores, i, scale, at)
    )


def _interval(steps: Ladder, scores: Scores, i: int, scale: svg.Scale) -> Markup | None:
    """The interval in which the exact score lies, as far as the picture reaches."""
    if scores.lower is None or scores.upper is None or steps.rule.kind == "nearest":
        return None
    low, high = (scale(min(max(end, scale.low), scale.high)) for end in (scores.lower[i], scores.upper[i]))
    return svg.line(low, ROW / 2, high, ROW / 2, "interval")


def _told(scores: Scores, i: int) -> str:
    if scores.certified is None:
        return f"{score(scores.before[i])}, not certified"
    if scores.lower is not None and scores.upper is not None:
        return (
            f"between {score(scores.lower[i])} and {score(scores.upper[i])}, {score(scores.before[i])} first computed"
        )
    return f"{score(scores.certified[i])} certified, {score(scores.before[i])} first computed"


def _before(steps: Ladder, scores: Scores, i: int, scale: svg.Scale, at: float) -> Sequence[Markup]:
    """The wrong score and the way from it; an arrow when it lies outside, a word when there was none."""
    if scores.certified is None or scores.before[i] == scores.certified[i]:
        return ()
    if scores.lower is not None and scores.upper is not None and scores.lower[i] <= scores.before[i] <= scores.upper[i]:
        return ()
    y = ROW / 2
    value = measure(steps.rule, scores.before[i])
    if math.isnan(value):
        return (svg.label(at + 9, y + 4, "no score before", "aside"),)
    x = scale(value)
    move = svg.line(x, y, at, y, "move")
    if scale.holds(value):
        return move, svg.cross(x, y, 3.5, "before")
    return move, svg.arrow(x, y, 1 if x > at else -1, "beyond")
