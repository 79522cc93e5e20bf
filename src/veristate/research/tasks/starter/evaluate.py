"""The evaluator, and the exact check at tolerance 0. Both get a copy of the artifact's files and the parameters."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from veristate.research import Rejection, Score


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The value at the point."""
    return judged(candidate, float)


def audit(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The value at the point as it is written, in exact arithmetic."""
    return judged(candidate, Fraction)


def judged(candidate: Path, kind: Callable[[str], Any]) -> Score | Rejection:
    """The score in numbers of one kind. What a worker may have written wrong is a rejection that says what."""
    try:
        written = json.loads((candidate / "point.json").read_text(), parse_float=str, parse_int=str)
        x, y = (kind(text) for text in written)
    except (ValueError, TypeError) as error:
        return Rejection(reason=f"point.json is no list of two numbers: {error}")
    if not (0 <= x <= 1 and 0 <= y <= 1):
        return Rejection(reason=f"({float(x)}, {float(y)}) is not in [0, 1] x [0, 1]")
    u, v = 10 * x - 5, 10 * y - 5
    value = (u * u + v - 11) ** 2 + (u + v * v - 7) ** 2
    return Score(metric=float(value))
