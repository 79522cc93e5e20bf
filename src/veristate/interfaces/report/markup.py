"""HTML from function calls. Plain text is escaped wherever it is put; only `Markup` goes in as it is."""

import html
import math
import re
from collections.abc import Iterable
from typing import TypeAlias

# Control characters, lone surrogates and the controls that turn the reading direction: none has a meaning in a name.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


class Markup(str):
    """Text that is HTML already: made by the functions below alone."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def printable(text: str) -> str:
    """`text` with what can't be shown, or would turn the text around it, replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def escape(text: str) -> Markup:
    """`text` as HTML that shows it, in an element or a quoted attribute."""
    return Markup(html.escape(printable(text), quote=True))


def number(value: float) -> str:
    """A coordinate: at most two decimals. Raises: ValueError for NaN and infinities, which no picture can hold."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no coordinate: leave the point out or clamp it first")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def join(*children: Child) -> Markup:
    """The children one after the other; None is nothing."""
    return Markup("".join(_rendered(child) for child in children))


def el(tag: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """The element. An attribute's `_` becomes `-`, a last `_` is dropped; None and False leave it out."""
    opened = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<{tag}{opened}>{join(*children)}</{tag}>")


def void(tag: str, /, **attributes: Attribute) -> Markup:
    """An element without content or end tag, such as `meta`."""
    return Markup(f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>")


def _rendered(child: Child) -> str:
    if child is None or isinstance(child, Markup):
        return child or ""
    return escape(child) if isinstance(child, str) else join(*child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    return f' {key}="{escape(value) if isinstance(value, str) else number(value)}"'
