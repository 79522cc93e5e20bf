"""All scores in order, the boundaries of the rules, and how near the nearest score lies to each."""

import math
from collections.abc import Iterator, Sequence

from veristate.interfaces.report import svg
from veristate.interfaces.report.ladder import Ladder, ladder, shown_scores, threshold, wrong
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.words import count, listed, ordinal, plural, rule_title, score, small
from veristate.interfaces.report.zoom import zoom
from veristate.screening import Scores, ScreeningResult


def scores_section(result: ScreeningResult) -> Markup:
    """The picture of all scores and one enlargement a rule."""
    heading = el("h2", "Scores against the boundaries")
    values = shown_scores(result.scores)
    if not any(map(math.isfinite, values)):
        said = "There is no score to show: nothing was certified, and the device gave no numbers."
        return el("section", heading, el("p", said, class_="lead"), id="scores")
    ladders = [ladder(rule, values, result.scores.ids) for rule in result.rules]
    picture = svg.responsive(lambda width: _overview(width, result.scores, ladders))
    enlarged = [_enlarged(steps, result) for steps in ladders if steps.order]
    return el(
        "section",
        heading,
        el("p", _lead(result), class_="lead"),
        _key(result),
        el("div", picture, class_="figure"),
        el("h3", "Close to the boundaries") if enlarged else None,
        el("p", _enlarged_lead(result)) if enlarged else None,
        el("div", enlarged, class_="pair"),
        id="scores",
    )


def _lead(result: ScreeningResult) -> str:
    missing = sum(map(math.isnan, shown_scores(result.scores)))
    left_out = (
        f" {plural(missing, 'candidate')} without a number {'is' if missing == 1 else 'are'} left out."
        if missing
        else ""
    )
    if result.scores.certified is None:
        return f"Nothing is certified: these are the scores as first computed, which nothing vouches for.{left_out}"
    changed = wrong(result.scores)
    if result.scores.lower is not None:
        lay = f"{plural(len(changed), 'candidate')} had been computed to a score outside it"
        return f"Every candidate by the lower end of its certified interval, the highest first; {lay}.{left_out}"
    if not changed:
        return f"Every candidate by its certified score. None had been computed otherwise.{left_out}"
    silent = sum(math.isnan(result.scores.before[i]) for i in changed)
    lost = f"; {count(silent)} of them had no number at all" if silent else ""
    return (
        f"Every candidate by its certified score, the highest first. Each stroke leads from a certified score to where "
        f"it had been put at first: {plural(len(changed), 'candidate')} had a wrong one{lost}.{left_out}"
    )


def _enlarged_lead(result: ScreeningResult) -> str:
    if result.scores.certified is None:
        return "The candidates on either side of each boundary, by scores that are not certified."
    return "The candidates on either side of each boundary: how little it takes to decide otherwise."


def _key(result: ScreeningResult) -> Markup:
    certified = result.scores.certified is not None
    line = svg.line(0, 8, 16, 8, "curve" if certified else "curve unchecked")
    items = [_sample(line, "certified score" if certified else "score as first computed, not certified")]
    if wrong(result.scores):
        stroke = [svg.line(8, 2, 8, 14, "stray"), svg.dot(8, 3, 2.2, "stray-end")]
        items.append(_sample(join(stroke), "from the certified score to a wrong one"))
    items.append(_sample(svg.line(0, 8, 16, 8, "boundary"), "boundary of a rule"))
    return el("ul", items, class_="key")


def _sample(shape: Markup, text: str) -> Markup:
    return el("li", el("svg", shape, viewBox="0 0 16 16", aria_hidden="true"), " ", text)


def _overview(width: int, scores: Scores, ladders: Sequence[Ladder]) -> Markup:
    height, left, right, top = (250 if width < 500 else 330), 40, width - 8, 14
    bottom = height - 40
    values = shown_scores(scores)
    order = sorted((i for i, v in enumerate(values) if math.isfinite(v)), key=lambda i: (-values[i], scores.ids[i]))
    low, high = svg.span([values[i] for i in order] + _edges(ladders), (scores.before[i] for i in wrong(scores)))
    y = svg.Scale(low=low, high=high, start=bottom, end=top)
    x = svg.Scale(low=0.5, high=len(order) + 0.5, start=left, end=right)
    curve = _thinned([(x(rank), y(values[i])) for rank, i in enumerate(order, start=1)])
    certified = scores.certified is not None
    kind = "certified" if certified else "unchecked"
    title = f"{plural(len(order), 'candidate')} by {kind} score, highest first, with the boundaries"
    return svg.figure(
        width,
        height,
        title,
        svg.y_axis(y, left, right, 5),
        _strays(scores, order, x, y),
        el("path", d=svg.polyline(curve), class_="curve" if certified else "curve unchecked"),
        _cuts(ladders, len(order), x, y, right),
        [svg.label(x(r), bottom + 16, count(r), "tick", anchor=a) for r, a in {1: "start", len(order): "end"}.items()],
        svg.label((left + right) / 2, bottom + 34, "rank", "tick", anchor="middle"),
    )


def _edges(ladders: Sequence[Ladder]) -> list[float]:
    return [value for steps in ladders for value, _, _ in _levels(steps)]


def _levels(steps: Ladder, *, short: bool = False) -> Iterator[tuple[float, str, int | None]]:
    """The score levels a rule cuts at, what they are (said once), and the scores above when that is the cut."""
    rule = steps.rule
    edge = steps.boundary
    if edge is None or not math.isfinite(edge):
        return
    if rule.kind == "top_k":
        yield edge, f"{ordinal(steps.cut)}{'' if short else ' score'}: {score(edge)}", steps.cut
    elif rule.kind == "threshold":
        said = f"{count(steps.cut)} \u2265 {rule.threshold}"
        yield edge, said if short else f"threshold {rule.threshold}: {count(steps.cut)} at or above", steps.cut
    elif math.isfinite(threshold(rule)):
        low, high = threshold(rule) - edge, threshold(rule) + edge
        said = f"nearest {count(steps.cut)}"
        yield high, said if short else f"{said}: {score(low)} to {score(high)}", None
        yield low, "", None


def _cuts(ladders: Sequence[Ladder], n: int, x: svg.Scale, y: svg.Scale, right: float) -> Markup:
    """Lines at the levels, and their texts at the right end, above the lines they belong to."""
    levels = sorted(
        (level for steps in ladders for level in _levels(steps, short=right < 500)), key=lambda level: -level[0]
    )
    lines: list[Child] = []
    bundles: list[list[tuple[float, str]]] = []
    for value, text, cut in levels:
        at = y(value)
        lines.append(svg.line(x.start, at, right, at, "boundary"))
        if cut is not None and 0 < cut < n:
            lines.append(svg.line(x(cut + 0.5), at, x(cut + 0.5), y.start, "boundary drop"))
        if bundles and at - bundles[-1][-1][0] < 15:
            bundles[-1].append((at, text))
        else:
            bundles.append([(at, text)])
    return join(lines, [_stacked(bundle, right) for bundle in bundles])


def _stacked(bundle: Sequence[tuple[float, str]], right: float) -> Markup:
    """The texts of lines that lie close together, one over the other above the highest of them."""
    texts = [text for _, text in reversed(bundle) if text]
    return join(svg.label(right, bundle[0][0] - 5 - 15 * i, text, "halo", anchor="end") for i, text in enumerate(texts))


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most two points a pixel column, its first and its last: enough for a curve that only falls."""
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0]), []).append(point)
    return [point for column in columns.values() for point in dict.fromkeys((column[0], column[-1]))]


def _strays(scores: Scores, order: Sequence[int], x: svg.Scale, y: svg.Scale) -> Markup | None:
    """The strokes from certified to wrong scores; in one pixel column they run into one."""
    if scores.certified is None:
        return None
    changed = {i for i in wrong(scores) if not math.isnan(scores.before[i])}
    columns: dict[int, tuple[float, float]] = {}
    ends: dict[tuple[int, int], None] = {}
    for rank, i in enumerate(order, start=1):
        if i in changed:
            at, a, b = round(x(rank)), y(scores.certified[i]), y(scores.before[i])
            low, high = columns.get(at, (a, a))
            columns[at] = (min(low, a, b), max(high, a, b))
            ends[at, round(b)] = None
    strokes = svg.bars((at, low, high) for at, (low, high) in columns.items() if high - low > 0.5)
    dots = "".join(f"M{at} {b}h0" for at, b in ends)
    return join(
        el("path", d=strokes, class_="stray") if strokes else None,
        el("path", d=dots, class_="stray-ends") if dots else None,
    )


def _enlarged(steps: Ladder, result: ScreeningResult) -> Markup:
    caption = el("figcaption", el("strong", rule_title(steps.rule)), el("span", _margin(steps, result.scores.ids)))
    return el("figure", caption, svg.responsive(lambda width: zoom(steps, result.scores, width), svg.HALF_SIZES))


def _margin(steps: Ladder, ids: Sequence[str]) -> str:
    rule, boundary = steps.rule, steps.boundary
    if rule.kind == "threshold":
        nearest = min(steps.order, key=lambda i: (abs(steps.measures[i] - (boundary or 0.0)), ids[i]))
        return f"The nearest score lies {small(abs(steps.measures[nearest] - (boundary or 0.0)))} from the threshold."
    if steps.gap is None:
        return "Every candidate is chosen: there is no boundary."
    pair = listed((ordinal(steps.cut), ordinal(steps.cut + 1)))
    what = "distance" if rule.kind == "nearest" else "score"
    if steps.gap == 0:
        return f"The {pair} {what} are equal: the tie is settled by the identifier."
    return f"The gap between the {pair} {what} is {small(steps.gap)}."
