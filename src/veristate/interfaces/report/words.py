"""How numbers, rules and names read on the page."""

import math
import unicodedata
from collections.abc import Iterable

from veristate.core import Rule
from veristate.interfaces.report.markup import printable

SHOWN = 40  # of a long list


def count(n: int) -> str:
    """A whole number with thousands separators."""
    return f"{n:,}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """The number with its noun: "1 call", "2 calls"."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def score(value: float) -> str:
    """A score with five decimals; "none" when there is no number."""
    if math.isnan(value):
        return "none"
    if math.isinf(value):
        return "\u221e" if value > 0 else "\u2212\u221e"
    text = f"{value:.5f}" if abs(value) < 1e4 else f"{value:.4g}"
    return text.replace("-", "\u2212")


def small(value: float) -> str:
    """A difference: "6.5e-4", "0.012", "0"; exact zero alone reads "0"."""
    if not math.isfinite(value):
        return score(value)
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        text = f"{value:.4f}".rstrip("0").rstrip(".")
    else:
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return text.replace("-", "\u2212")


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"+{small(value)}" if value > 0 else small(value)


def share(part: int, whole: int) -> str:
    """A part in percent; only everything is 100 %, and only nothing 0 %."""
    return percent(part / whole) if whole else "0 %"


def percent(fraction: float) -> str:
    """A fraction in percent with one decimal, rounded down, so that nearly all never reads as all."""
    if fraction >= 1 or fraction <= 0:
        return "100 %" if fraction >= 1 else "0 %"
    tenths = math.floor(fraction * 1000 + 1e-9)
    return f"{tenths / 10:.1f} %" if tenths else "< 0.1 %"


def seconds(value: float) -> str:
    """A duration: "0.42 s", "8.1 s", "62 s", "3 min 20 s"."""
    if value >= 119.5:
        whole = round(value)
        return f"{whole // 60} min {whole % 60} s"
    return f"{value:.0f} s" if value >= 20 else f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"


def ordinal(n: int) -> str:
    """A place in an order: "1st", "2nd", "569th"."""
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{count(n)}{suffix}"


def clip(text: str, width: int) -> str:
    """`text` cut to about `width` columns, wide characters counting two."""
    used = 0
    shown = printable(text)
    for position, character in enumerate(shown):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > width:
            return shown[: position - 1] + "\u2026" if position else "\u2026"
    return shown


def named(name: str, identifier: str) -> str:
    """What a candidate is called: its name, or its identifier when it has none."""
    return name.strip() or identifier


def listed(items: Iterable[str], last: str = "and") -> str:
    """The items as a phrase: "a", "a and b", "a, b and c"."""
    *front, end = list(items) or [""]
    return f"{', '.join(front)} {last} {end}" if front else end


def rule_title(rule: Rule) -> str:
    """The rule in a reader's words."""
    many = f"{count(rule.count or 0)} " if rule.count != 1 else ""
    scores = "scores" if many else "score"
    if rule.kind == "top_k":
        return f"Selection: the {many}highest {scores}"
    if rule.kind == "threshold":
        return f"Testing: every score of {rule.threshold} or more"
    return f"Nearest: the {many}{scores} nearest to {rule.threshold}"
