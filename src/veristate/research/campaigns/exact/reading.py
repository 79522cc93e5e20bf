"""Reading a candidate's numbers as the text they were written in, so that no binary rounding stands between."""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

FILE = "solution.json"
_BYTES_UPPER = 2_000_000
_NUMBER = re.compile(r"-?\d{1,2000}(\.\d{1,2000})?([eE][+-]?\d{1,3})?(/\d{1,2000})?")


class UnusableError(Exception):
    """A candidate that can't be judged; its message says what to change. It never leaves the evaluators."""


def read_solution(candidate: Path, key: str) -> list[Any]:
    """The list under `key` in solution.json, its numbers as Fractions.

    Raises: UnusableError for a file that is absent, too large, no JSON, or without that list; for NaN and infinities.
    """
    path = candidate / FILE
    if not path.is_file():
        raise UnusableError(f"{FILE} is missing; write it into the workspace")
    if path.stat().st_size > _BYTES_UPPER:
        raise UnusableError(f"{FILE} is larger than {_BYTES_UPPER} bytes")
    try:
        content = json.loads(
            path.read_text(encoding="utf-8"), parse_float=rational, parse_int=rational, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"{FILE} is no JSON: {error}") from error
    found = content.get(key) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise UnusableError(f'{FILE} must be an object with a list "{key}"')
    return found


def rational(text: str) -> Fraction:
    """The number that the text says, exactly: a decimal, or a fraction a/b. Raises: UnusableError for anything else."""
    if not _NUMBER.fullmatch(text):
        raise UnusableError(f"{text[:40]!r} is no finite decimal number (or fraction a/b) of at most 2,000 digits")
    above, _, below = text.partition("/")
    if below and not int(below):
        raise UnusableError(f"{text[:40]!r} divides by zero")
    return Fraction(above) / int(below or 1)


def rows(found: list[Any], count: int, width: int, what: str) -> list[tuple[Fraction, ...]]:
    """`count` rows of `width` numbers each. Raises: UnusableError naming the row that is none."""
    if len(found) != count:
        raise UnusableError(f"{count} {what} are asked for, {len(found)} given")
    made = []
    for index, row in enumerate(found):
        if not isinstance(row, list) or len(row) != width:
            raise UnusableError(f"{what} {index} must be a list of {width} numbers")
        made.append(tuple(_number(value, f"{what} {index}") for value in row))
    return made


def numbers(found: list[Any], count: int, what: str) -> list[Fraction]:
    """`count` numbers. Raises: UnusableError when they are not."""
    if len(found) != count:
        raise UnusableError(f"{count} {what} are asked for, {len(found)} given")
    return [_number(value, f"{what} {index}") for index, value in enumerate(found)]


def tolerance(parameters: Mapping[str, Any]) -> Fraction:
    """What the evaluator forgives, 0 unless the task says otherwise; an audit never asks."""
    return rational(str(parameters.get("tolerance", "0")))


def _number(value: Any, where: str) -> Fraction:
    if isinstance(value, str):
        return rational(value)
    if not isinstance(value, Fraction):
        raise UnusableError(f"{where} holds {str(value)[:40]!r}, which is no number")
    return value


def _refuse(constant: str) -> Fraction:
    raise UnusableError(f"{constant} is no finite number")
