"""The few shapes all pictures are made of. Colours come from the classes of style.css, so both themes work."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from veristate.interfaces.report.markup import Child, Markup, el, join, number

# A picture is drawn for a desk, for a printed page and for a phone, so that its text is never scaled much.
NARROW = 366
SIZES = (("wide", 1040), ("middle", 680), ("narrow", NARROW))
HALF_SIZES = (("broad", 500), ("narrow", NARROW))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From a value to a coordinate. What lies outside, infinities too, is put on the nearer end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value. Raises: ValueError for NaN."""
        if math.isnan(value):
            raise ValueError("NaN has no place on a scale: leave the point out")
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value lies inside."""
        return self.low <= value <= self.high


def span(core: Iterable[float], extra: Iterable[float] = ()) -> tuple[float, float]:
    """The range a picture shows: all of `core`, and `extra` as far as it is near.

    Near is [0, 1] when the core lies in it, otherwise once more the core's own width on each side.
    """
    values = [value for value in core if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(values), max(values)
    room = high - low
    least, most = (0.0, 1.0) if low >= 0 and high <= 1 else (low - room, high + room)
    near = [min(max(value, least), most) for value in extra if not math.isnan(value)]
    low, high = min([low, *near]), max([high, *near])
    pad = 0.04 * (high - low) or max(abs(high) * 1e-3, 1e-6)
    return low - pad, high + pad


def ticks(low: float, high: float, wanted: int = 5) -> list[tuple[float, str]]:
    """Round values inside the range with their texts, about as many as wanted."""
    raw = (high - low) / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / raw)))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step), math.floor(high / step + 1e-9)
    values = [index * step for index in range(first, last + 1)]
    if decimals > 9 or abs(high) >= 1e6:
        return [(value, f"{value:.3g}") for value in values]
    return [(value, f"{value:,.{decimals}f}".replace("-", "\u2212")) for value in values]


def figure(width: int, height: float, title: str, *children: Child, class_: str = "") -> Markup:
    """A picture with its description for those who can't see it."""
    box = f"0 0 {width} {number(height)}"
    return el("svg", *children, viewBox=box, role="img", aria_label=title, class_=class_ or None)


def responsive(draw: Callable[[int], Markup], sizes: Sequence[tuple[str, int]] = SIZES) -> Markup:
    """The same picture drawn for several widths; the style sheet shows the one that fits."""
    return el("div", [el("div", draw(width), class_=name) for name, width in sizes], class_="fit")


def hover(text: str) -> Markup:
    """What the pointer shows over its parent."""
    return el("title", text)


def label(x: float, y: float, text: str, class_: str = "", *, anchor: str = "start", full: str | None = None) -> Markup:
    """Text whose baseline starts, ends or is centred at x."""
    more = hover(full) if full is not None and full != text else None
    place = None if anchor == "start" else anchor
    return el("text", text, more, x=x, y=y, class_=class_ or None, text_anchor=place)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, *children: Child) -> Markup:
    """A rectangle."""
    return el("rect", *children, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_)


def dot(x: float, y: float, radius: float, class_: str, *children: Child) -> Markup:
    """A circle: a certified score."""
    return el("circle", *children, cx=x, cy=y, r=radius, class_=class_)


def diamond(x: float, y: float, radius: float, class_: str, *children: Child) -> Markup:
    """A diamond: a score that did not change itself."""
    corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
    return el("path", *children, d=polyline(corners) + "Z", class_=class_)


def cross(x: float, y: float, radius: float, class_: str, *children: Child) -> Markup:
    """A cross: a score as first computed."""
    a, b = number(x - radius), number(x + radius)
    c, d = number(y - radius), number(y + radius)
    return el("path", *children, d=f"M{a} {c}L{b} {d}M{a} {d}L{b} {c}", class_=class_)


def arrow(x: float, y: float, direction: int, class_: str, *children: Child) -> Markup:
    """A triangle that points to the left (-1) or right (+1): the value lies outside the picture."""
    corners = [(x, y), (x - direction * 7, y - 4), (x - direction * 7, y + 4)]
    return el("path", *children, d=polyline(corners) + "Z", class_=class_)


def triangle(x: float, y: float, direction: int, class_: str, *children: Child) -> Markup:
    """A triangle around x that points up (+1, moved in) or down (-1, moved out)."""
    corners = [(x, y - direction * 4), (x + 4, y + direction * 4), (x - 4, y + direction * 4)]
    return el("path", *children, d=polyline(corners) + "Z", class_=class_)


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """The path data of a line through the points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def bars(spans: Iterable[tuple[float, float, float]]) -> str:
    """The path data of vertical strokes: x, from y, to y."""
    return "".join(f"M{number(x)} {number(a)}V{number(b)}" for x, a, b in spans)


def x_axis(scale: Scale, y: float, top: float, wanted: int) -> Markup:
    """Ticks below y, and their grid lines up to `top`."""
    marks = ticks(scale.low, scale.high, wanted)
    grid = [line(scale(value), top, scale(value), y, "grid") for value, _ in marks]
    room = max((7 * len(text) + 8 for _, text in marks), default=0)
    apart = abs(scale.end - scale.start) / (scale.high - scale.low) * (marks[1][0] - marks[0][0]) if marks[1:] else room
    marks = marks[:: max(1, math.ceil(room / max(apart, 1e-9)))]
    texts = [label(scale(value), y + 16, text, "tick", anchor="middle") for value, text in marks]
    return join(grid, texts)


def y_axis(scale: Scale, x: float, right: float, wanted: int) -> Markup:
    """Ticks to the left of x, and their grid lines up to `right`."""
    marks = ticks(scale.low, scale.high, wanted)
    grid = [line(x, scale(value), right, scale(value), "grid") for value, _ in marks]
    texts = [label(x - 6, scale(value) + 4, text, "tick", anchor="end") for value, text in marks]
    return join(grid, texts)
