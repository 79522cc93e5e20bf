"""How often the candidate differs beside how often the reference's own repeat does, endpoint by endpoint."""

from veristate.audit.statistics import Discordance
from veristate.audit.study import Series
from veristate.interfaces.report import svg
from veristate.interfaces.report.markup import Markup, el, join
from veristate.interfaces.report.study.wording import endpoint_words
from veristate.interfaces.report.words import count

_ROW = 44


def discordance_figure(one: Series) -> Markup:
    """The picture, or a sentence where no group is complete."""
    if not one.joint:
        return el("p", "No group is complete and exposed in every condition that is compared: nothing can be said.")
    rows = [(endpoint_words(summary.endpoint), summary.discordance) for summary in one.summaries]
    picture = svg.responsive(lambda width: _picture(width, rows))
    key = el(
        "ul",
        el("li", _sign("other"), " candidate against reference"),
        el("li", _sign("own"), " the reference\u2019s own repeat against it"),
        class_="key",
    )
    return join(key, el("div", picture, class_="figure"))


def _sign(kind: str) -> Markup:
    return el("svg", svg.dot(8, 8, 4.5, f"mark {kind}"), viewBox="0 0 16 16", aria_hidden="true")


def _picture(width: int, rows: list[tuple[str, Discordance]]) -> Markup:
    narrow = width < 500
    left, right = (112, width - 78) if narrow else (150, width - 110)
    ends = [found.candidate_interval[1] for _, found in rows] + [found.repeat_interval[1] for _, found in rows]
    x = svg.Scale(low=0.0, high=min(1.0, max(0.1, max(ends) * 1.08)), start=left, end=right)
    bottom = 10 + len(rows) * _ROW
    shapes = [_axis(x, bottom, 2 if narrow else 6)]
    for place, (name, found) in enumerate(rows):
        y = 10 + place * _ROW
        shapes += [svg.label(left - 12, y + 24, name, "name", anchor="end")]
        shapes += _one(x, y + 14, "other", found.candidate, found.groups, found.candidate_interval, right)
        shapes += _one(x, y + 30, "own", found.repeat, found.groups, found.repeat_interval, right)
    return svg.figure(width, bottom + 30, "Share of groups that differ, with 95 % Wilson intervals", shapes)


def _one(
    x: svg.Scale, y: float, kind: str, part: int, whole: int, interval: tuple[float, float], right: float
) -> list[Markup]:
    said = f"{count(part)} of {count(whole)}; 95 % from {100 * interval[0]:.1f} to {100 * interval[1]:.1f} %"
    return [
        svg.line(x(interval[0]), y, x(interval[1]), y, f"whisker {kind}"),
        svg.dot(x(part / whole), y, 4.5, f"mark {kind}", svg.hover(said)),
        svg.label(right + 12, y + 4, f"{count(part)} / {count(whole)}", "tick"),
    ]


def _axis(x: svg.Scale, y: float, wanted: int) -> Markup:
    marks = svg.ticks(100 * x.low, 100 * x.high, wanted)
    grid = [svg.line(x(value / 100), 4, x(value / 100), y, "grid") for value, _ in marks]
    texts = [svg.label(x(value / 100), y + 18, f"{text} %", "tick", anchor="middle") for value, text in marks]
    return join(grid, texts)
