"""What an evaluator says of a candidate, and metrics as decimal strings.

A metric is text from the evaluator to the report: it is compared exactly, never rounded, and NaN has no spelling.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from veristate.core import InputError, decimal_string

METRIC_CHARACTERS_UPPER = 400
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A candidate that counts. `details` are short facts for the card; `repaired` belongs to audits alone."""

    metric: str | int | float | Decimal
    details: Mapping[str, str] = field(default_factory=dict)
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A candidate that does not count. `reason` is told to the worker word for word: say what to change."""

    reason: str
    details: Mapping[str, str] = field(default_factory=dict)


def metric_text(value: object) -> str:
    """The decimal string of a metric, as many digits as were given.

    Raises: InputError for NaN, infinities, what is no number, and text that is no plain decimal number.
    """
    if isinstance(value, bool):
        raise InputError(f"a metric is a number, not {value!r}")
    if isinstance(value, float):
        return decimal_string(value)
    text = str(value).strip() if isinstance(value, str | int | Decimal) else ""
    if not _DECIMAL.fullmatch(text) or len(text) > METRIC_CHARACTERS_UPPER:
        raise InputError(f"a metric is a finite decimal number, not {str(value)[:80]!r} ({type(value).__name__})")
    return text


def number(metric: str) -> Decimal:
    """The metric as a number that compares exactly. Raises: InputError as `metric_text`."""
    return Decimal(metric_text(metric))
