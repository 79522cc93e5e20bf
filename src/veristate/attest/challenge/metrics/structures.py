"""Objects with a schema: each field by a metric of its own, weighed."""

from collections.abc import Callable, Mapping
from typing import Any

FieldDistance = Callable[[Any, Any], float]


def structured_distance(a: Any, b: Any, fields: Mapping[str, tuple[float, FieldDistance]]) -> float:
    """The weighted mean of the fields' distances; a field that one side lacks counts 1.

    Fields the schema does not name weigh as much as its heaviest, together: what is added can't hide among the rest.
    """
    if a == b:
        return 0.0
    if not isinstance(a, dict) or not isinstance(b, dict):
        return 1.0
    total = sum(weight for weight, _ in fields.values())
    away = sum(weight * _field(a, b, name, distance) for name, (weight, distance) in fields.items())
    if any(a.get(name) != b.get(name) for name in (a.keys() | b.keys()) - fields.keys()):
        heaviest = max((weight for weight, _ in fields.values()), default=1.0)
        return (away + heaviest) / (total + heaviest)
    return away / total if total else 1.0


def _field(a: Mapping[str, Any], b: Mapping[str, Any], name: str, distance: FieldDistance) -> float:
    if name not in a or name not in b:
        return float(name in a or name in b)
    return distance(a[name], b[name])
