"""Who would have moved in or out, and why: one picture and one table a rule."""

import math
from collections.abc import Sequence

from veristate.core import Rule
from veristate.interfaces.report import svg
from veristate.interfaces.report.ladder import ladder, measure, threshold
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.words import SHOWN, clip, count, listed, named, plural, rule_title, score, signed
from veristate.screening import Change, ScreeningResult

ROW = 24


def changes_section(result: ScreeningResult) -> Markup:
    """The pictures and tables of all rules, or the sentence that says why there are none."""
    heading = el("h2", "Who would have moved, and why")
    reason = _nothing_to_show(result)
    if reason:
        return el("section", heading, el("p", reason, class_="lead"), id="changes")
    certified = "certified ones" if result.decisions is not None else "healthy reference, which certifies nothing"
    lead = (
        "These compounds stand on one side of a boundary by the scores as first computed, and on the other by the "
        f"{certified}. A compound can move without any fault of its own: when a competitor's score was wrong, the "
        "boundary went past it."
    )
    rules: dict[str, Rule] = {rule.kind: rule for rule in result.rules}
    kinds = [*rules, *sorted({change.rule for change in result.changes} - set(rules))]
    blocks = [_rule_block(result, rules.get(kind), kind) for kind in kinds]
    return el("section", heading, el("p", lead, class_="lead"), blocks, id="changes")


def _nothing_to_show(result: ScreeningResult) -> str | None:
    if result.changes:
        return None
    if result.decisions is None:
        return "Nothing was certified, so there is no decision to compare the unchecked one with."
    if result.decisions_before is None:
        return (
            "The scores as first computed allow no decision (some are no numbers), so nothing can be compared with it."
        )
    return "No compound would have been decided otherwise: the unchecked scores led to the certified decision."


def _rule_block(result: ScreeningResult, rule: Rule | None, kind: str) -> Markup:
    changes = sorted((c for c in result.changes if c.rule == kind), key=_by_distance)
    title = el("h3", rule_title(rule) if rule else clip(kind, 60))
    if not changes:
        return join(title, el("p", "Nobody moved."))
    entered, own = sum(change.entered for change in changes), sum(change.own for change in changes)
    causes = [(own, "their own score was wrong"), (len(changes) - own, "a competitor's was")]
    why = listed(f"{count(n)} because {cause}" for n, cause in causes if n)
    said = f"{count(entered)} moved in, {count(len(changes) - entered)} moved out: {why}."
    shown = changes[:SHOWN]
    lines = _boundaries(result, rule, shown)
    rest = len(changes) - len(shown)
    more = (
        el("p", f"The {len(shown)} that moved farthest are shown; {plural(rest, 'more compound')} moved.")
        if rest
        else None
    )
    picture = svg.responsive(lambda width: _picture(width, shown, lines))
    return join(
        title, el("p", said), _key(shown, lines), el("div", picture, class_="figure"), _table(shown, rule, lines), more
    )


def _by_distance(change: Change) -> tuple[float, str]:
    moved = abs(change.score_after - change.score_before)
    return (-math.inf if math.isnan(moved) else -moved, change.id)


def _boundaries(result: ScreeningResult, rule: Rule | None, changes: Sequence[Change]) -> list[tuple[float, str, str]]:
    """The lines to draw: score, class, and what the key says of the class. `nearest` has two lines of a class."""
    if rule is None:
        return (
            [(changes[0].boundary, "boundary", f"boundary {score(changes[0].boundary)}")]
            if math.isfinite(changes[0].boundary)
            else []
        )
    if rule.kind == "threshold":
        return [(threshold(rule), "boundary", f"threshold {rule.threshold}")]
    ids, before, after = result.scores.ids, result.scores.before, result.scores.certified
    found = [] if after is None else _cuts(rule, after, ids, "boundary", "boundary as certified")
    if not found and rule.kind == "top_k" and math.isfinite(changes[0].boundary):
        found = [(changes[0].boundary, "boundary", f"boundary as certified {score(changes[0].boundary)}")]
    if all(map(math.isfinite, before)):
        found += _cuts(rule, before, ids, "boundary-before", "boundary as first computed")
    return found


def _cuts(
    rule: Rule, values: Sequence[float], ids: Sequence[str], class_: str, text: str
) -> list[tuple[float, str, str]]:
    edge = ladder(rule, values, ids).last_in
    if edge is None or not math.isfinite(edge):
        return []
    if rule.kind == "top_k":
        return [(edge, class_, f"{text} {score(edge)}")]
    both = threshold(rule) - edge, threshold(rule) + edge
    return [(value, class_, f"{text} {listed(map(score, both))}") for value in both]


def _key(changes: Sequence[Change], lines: list[tuple[float, str, str]]) -> Markup:
    items: list[Child] = []
    if any(change.own for change in changes):
        items.append(_sample(svg.cross(8, 8, 4, "before"), "as first computed"))
        items.append(_sample(svg.dot(8, 8, 5, "certified"), "certified, own score was wrong"))
    if not all(change.own for change in changes):
        items.append(_sample(svg.diamond(8, 8, 6, "competitor"), "own score right, a competitor's was wrong"))
    texts = {class_: text for _, class_, text in lines}
    items += [_sample(svg.line(8, 0, 8, 16, class_), text) for class_, text in texts.items()]
    return el("ul", items, class_="key")


def _sample(shape: Markup, text: str) -> Markup:
    return el("li", el("svg", shape, viewBox="0 0 16 16", aria_hidden="true"), " ", text)


def _picture(width: int, changes: Sequence[Change], lines: list[tuple[float, str, str]]) -> Markup:
    left, right = (128, width - 52) if width < 500 else (210, width - 76)
    bottom = 12 + ROW * len(changes)
    low, high = svg.span([c.score_after for c in changes] + [x for x, _, _ in lines], [c.score_before for c in changes])
    scale = svg.Scale(low=low, high=high, start=left, end=right)
    marks = [svg.line(scale(x), 4, scale(x), bottom, class_) for x, class_, _ in lines if scale.holds(x)]
    rows = [_row(change, 12 + ROW * (i + 0.5), scale, left, width) for i, change in enumerate(changes)]
    title = f"Scores before and after of {plural(len(changes), 'compound')} that moved, against the boundary"
    return svg.figure(width, bottom + 24, title, svg.x_axis(scale, bottom, 4, max(3, width // 160)), marks, rows)


def _row(change: Change, y: float, scale: svg.Scale, left: float, width: int) -> Markup:
    name = named(change.name, change.id)
    after = scale(change.score_after)
    label = svg.label(left - 12, y + 4, clip(name, 17 if width < 500 else 28), "name", anchor="end", full=name)
    told = svg.hover(f"{change.id}: {score(change.score_before)} before, {score(change.score_after)} certified")
    way = "in" if change.entered else "out"
    side = [
        svg.triangle(width - 40, y, 1 if change.entered else -1, f"way {way}"),
        svg.label(width - 30, y + 4, way, f"way {way}"),
    ]
    if not change.own:
        return el("g", told, label, svg.diamond(after, y, 6, "competitor"), side)
    if math.isnan(change.score_before):
        before: Child = svg.label(after + 10, y + 4, "no score before", "aside")
    elif scale.holds(change.score_before):
        x = scale(change.score_before)
        before = [svg.line(x, y, after, y, "move"), svg.cross(x, y, 4, "before")]
    else:
        x = scale(change.score_before)
        before = [svg.line(x, y, after, y, "move"), svg.arrow(x, y, 1 if x > after else -1, "beyond")]
    return el("g", told, label, before, svg.dot(after, y, 5, "certified"), side)


def _table(changes: Sequence[Change], rule: Rule | None, lines: list[tuple[float, str, str]]) -> Markup:
    names = ("Compound", "Now", "First computed", "Certified", "Past the boundary by", "Why")
    head = el("tr", [el("th", name, scope="col") for name in names])
    rows = [_table_row(change, rule, lines) for change in changes]
    return el("div", el("table", el("thead", head), el("tbody", rows), class_="moves"), class_="scroll")


def _table_row(change: Change, rule: Rule | None, lines: list[tuple[float, str, str]]) -> Markup:
    name = named(change.name, change.id)
    way = el("span", "\u25b2 in" if change.entered else "\u25bc out", class_="in" if change.entered else "out")
    why = ("\u25cf own score was wrong", "own") if change.own else ("\u25c6 a competitor's was wrong", "competitor")
    return el(
        "tr",
        el("th", el("span", clip(name, 60), title=name), " ", el("small", clip(change.id, 40)), scope="row"),
        el("td", way),
        el("td", score(change.score_before), class_="number", data_label="first computed"),
        el("td", score(change.score_after), class_="number", data_label="certified"),
        el("td", _past(change, rule, lines), class_="number", data_label="past the boundary by"),
        el("td", el("span", why[0], class_=why[1])),
    )


def _past(change: Change, rule: Rule | None, lines: list[tuple[float, str, str]]) -> str:
    if rule is not None and rule.kind == "nearest":
        edges = [measure(rule, value) for value, class_, _ in lines if class_ == "boundary"]
        return signed(edges[0] - measure(rule, change.score_after)) if edges else "not known"
    boundary = threshold(rule) if rule is not None and rule.kind == "threshold" else change.boundary
    return signed(change.score_after - boundary)
