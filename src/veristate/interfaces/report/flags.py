"""Where the faults hit: by member and layer, and along the table of candidates."""

import math
import re
from collections.abc import Iterable, Sequence

from veristate.interfaces.report import svg
from veristate.interfaces.report.ladder import wrong
from veristate.interfaces.report.markup import Markup, el, join, void
from veristate.interfaces.report.words import clip, count, percent, plural, share
from veristate.screening import LayerFlags, ScreeningResult

STRIP, GAP = 20, 6
LEVELS = 4


def flags_section(result: ScreeningResult) -> Markup:
    """The matrix of layers and the strips of candidates."""
    flagged = result.checks.get("flagged", 0)
    lead = [
        f"{plural(flagged, 'call')} of {count(result.checks.get('calls', 0))} left a residual above what honest "
        f"rounding can explain ({result.dtype}). "
        if flagged
        else f"No call left a residual above what honest rounding can explain ({result.dtype}). ",
        f"The flags come from a simulated fault, {clip(result.injected, 60)}. " if flagged and result.injected else "",
        _unwatched(result),
    ]
    return el(
        "section",
        el("h2", "A map of the flags"),
        el("p", "".join(lead), class_="lead"),
        _matrix(result.layer_flags) if result.layer_flags else el("p", "There is no record of single layers."),
        _strips(result),
        id="flags",
    )


def _unwatched(result: ScreeningResult) -> str:
    watched = f"{percent(result.coverage)} of the multiply-adds were watched"
    if not result.unwatched:
        return f"{watched}."
    shown = ", ".join(f"{clip(name, 30)} ({count(calls)})" for name, calls in result.unwatched[:6])
    more = f" and {plural(len(result.unwatched) - 6, 'more kind')}" if len(result.unwatched) > 6 else ""
    return f"{watched}; no check sees {shown}{more}."


def _matrix(flags: Sequence[LayerFlags]) -> Markup:
    """Members down, layers across: flagged calls of all calls, and the worst residual in multiples of its bound."""
    layers = list(dict.fromkeys(flag.layer for flag in flags))
    cells = {(flag.member, flag.layer): flag for flag in flags}
    most = max((flag.flagged / flag.calls for flag in flags if flag.calls), default=0.0)
    head = el(
        "tr",
        el("th", el("span", "Member"), scope="col"),
        [el("th", _breakable(layer), title=layer, scope="col") for layer in layers],
    )
    rows = [
        el("tr", el("th", str(member), scope="row"), [_cell(cells.get((member, layer)), most) for layer in layers])
        for member in sorted({flag.member for flag in flags})
    ]
    said = el(
        "p", "Flagged calls of all calls, and the largest residual in multiples of its rounding bound.", class_="note"
    )
    table = el("table", el("thead", head), el("tbody", rows), class_="matrix", style=f"--layers:{len(layers)}")
    return join(said, el("div", table, class_="scroll"))


def _breakable(layer: str) -> Markup:
    """A layer's name that may be broken after its dots and underscores."""
    parts = re.split("(?<=[._])", clip(layer, 40))
    return join([(void("wbr") if i else None, part) for i, part in enumerate(parts)])


def _cell(flag: LayerFlags | None, most: float) -> Markup:
    if flag is None:
        return el("td", "\u2013", title="no record")
    part = flag.flagged / flag.calls if flag.calls else 0.0
    told = (
        f"member {flag.member}, {flag.layer}: {count(flag.flagged)} of {plural(flag.calls, 'call')} flagged, "
        f"worst residual {flag.worst} times its bound, {plural(len(flag.units), 'candidate')} marked"
    )
    heat = f"--heat:{0.12 + 0.43 * part / most:.2f}" if part else None
    worst = el("small", _times(flag.worst))
    return el("td", el("b", f"{count(flag.flagged)}/{count(flag.calls)}"), " ", worst, title=told, style=heat)


def _times(worst: str) -> str:
    try:
        value = float(worst)
    except ValueError:
        return clip(worst, 12) or "\u2013"
    if math.isnan(value):
        return "no number"
    if math.isinf(value):
        return "\u00d7 \u221e"
    return f"\u00d7 {value:,.0f}" if 100 <= value < 1e6 else f"\u00d7 {value:.2g}".replace("e+", "e")


def _strips(result: ScreeningResult) -> Markup:
    marked: dict[int, set[int]] = {member: set() for member in range(result.members)}
    for flag in result.layer_flags:
        marked.setdefault(flag.member, set()).update(flag.units)
    changed = wrong(result.scores)
    places = {identifier: i for i, identifier in enumerate(result.scores.ids)}
    moved = {change.id: change.entered for change in result.changes if change.id in places}
    rows = [(f"member {member}", sorted(units), "flagged") for member, units in sorted(marked.items())]
    if result.scores.certified is not None:
        rows.append(("score wrong", changed, "wrong"))
    into = [places[i] for i, entered in moved.items() if entered]
    out = [places[i] for i, entered in moved.items() if not entered]
    picture = svg.responsive(lambda width: _strip_picture(width, result.candidates, rows, into, out))
    said = (
        "The candidates from left to right in the order of the table. A stroke marks units that a flag, or a check "
        "that could not judge, sent to recomputation; stronger means more of the candidates there."
    )
    return join(el("h3", "Along the table"), el("p", said), el("div", picture, class_="figure"))


def _strip_picture(
    width: int, n: int, rows: Sequence[tuple[str, Sequence[int], str]], into: Sequence[int], out: Sequence[int]
) -> Markup:
    narrow = width < 500
    left, right = (84, width - 44) if narrow else (104, width - 110)
    columns = max(1, min(n, (right - left) // 2))
    x = svg.Scale(low=0, high=max(n, 1), start=left, end=right)
    shapes: list[Markup] = []
    for place, (name, positions, class_) in enumerate(rows):
        y = 4 + place * (STRIP + GAP)
        told = count(len(positions)) if narrow else f"{count(len(positions))} ({share(len(positions), n)})"
        shapes += [
            svg.label(left - 10, y + 14, name, "name", anchor="end"),
            svg.box(left, y, right - left, STRIP, "track", svg.hover(f"{name}: {plural(len(positions), 'candidate')}")),
            _strokes(positions, n, columns, (left, right), y, class_),
            svg.label(right + 8, y + 14, told, "tick"),
        ]
    y = 4 + len(rows) * (STRIP + GAP)
    shapes += [svg.label(left - 10, y + 12, "moved", "name", anchor="end")]
    shapes += [svg.triangle(x(i + 0.5), y + 8, 1, "way in", svg.hover("moved in")) for i in _apart(into, n, columns)]
    shapes += [svg.triangle(x(i + 0.5), y + 8, -1, "way out", svg.hover("moved out")) for i in _apart(out, n, columns)]
    shapes.append(svg.label(right + 8, y + 12, count(len(into) + len(out)), "tick"))
    ends = [
        svg.label(left, y + 34, "1st", "tick"),
        svg.label(right, y + 34, f"{count(n)} in the table", "tick", anchor="end"),
    ]
    return svg.figure(width, y + 42, "Candidates that were flagged, wrong or moved, in table order", shapes, ends)


def _strokes(
    positions: Iterable[int], n: int, columns: int, ends: tuple[float, float], y: float, class_: str
) -> Markup:
    """One path a level of darkness: the part of a column's candidates that is marked."""
    counts: dict[int, int] = {}
    for position in positions:
        if 0 <= position < n:
            column = position * columns // n
            counts[column] = counts.get(column, 0) + 1
    wide = (ends[1] - ends[0]) / columns
    paths: dict[int, list[str]] = {}
    for column, marked in counts.items():
        holds = (column + 1) * n // columns - column * n // columns
        level = min(LEVELS, math.ceil(LEVELS * marked / max(holds, 1)))
        paths.setdefault(level, []).append(f"M{ends[0] + (column + 0.5) * wide:.1f} {y:.0f}v{STRIP}")
    return join(
        el("path", d="".join(data), stroke_width=wide, class_=f"{class_} level{level}") for level, data in paths.items()
    )


def _apart(positions: Iterable[int], n: int, columns: int) -> list[int]:
    """One position a group of pixel columns: triangles on one another say no more."""
    return list({position * columns // (4 * max(n, 1)): position for position in positions}.values())
