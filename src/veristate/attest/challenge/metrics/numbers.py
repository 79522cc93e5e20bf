"""Numbers and nested lists of numbers, by their largest relative difference."""

import math
from itertools import chain
from typing import Any


def numeric_distance(a: Any, b: Any, *, absolute: float, relative: float) -> float:
    """The largest difference, half at the tolerance and 1 for another shape or for no number.

    Maths: t / (1 + t) with t = max |a - b| / (absolute + relative max(|a|, |b|)).
    Shapes: numbers or nested lists of them, alike in both.
    """
    if a == b:
        return 0.0
    left, right = _numbers(a), _numbers(b)
    if left is None or right is None or _shape(a) != _shape(b):
        return 1.0
    worst = max((_excess(x, y, absolute, relative) for x, y in zip(left, right, strict=True)), default=0.0)
    return worst / (1 + worst) if math.isfinite(worst) else 1.0


def _excess(x: float, y: float, absolute: float, relative: float) -> float:
    if x == y:
        return 0.0
    allowed = absolute + relative * max(abs(x), abs(y))
    difference = abs(x - y)
    # A NaN or an infinity is as far off as can be; so is any difference where none is tolerated.
    return difference / allowed if math.isfinite(difference) and allowed > 0 else math.inf


def _numbers(value: Any) -> list[float] | None:
    """The numbers in order, tagged floats among them; None when something else is there."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return [float(value)] if abs(value) <= 1.7e308 or isinstance(value, float) else None
    if isinstance(value, dict) and set(value) == {"float"}:
        try:
            return [float(value["float"])]
        except (TypeError, ValueError):
            return None
    if isinstance(value, list):
        parts = [_numbers(item) for item in value]
        found = [part for part in parts if part is not None]
        return list(chain.from_iterable(found)) if len(found) == len(parts) else None
    return None


def _shape(value: Any) -> Any:
    return [_shape(item) for item in value] if isinstance(value, list) else None
