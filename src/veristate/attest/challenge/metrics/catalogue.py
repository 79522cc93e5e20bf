"""The metric that a policy names, with its parameters."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any

from veristate.attest.challenge.metrics.likelihood import Sampling, Weighed, surprise, surprise_distance
from veristate.attest.challenge.metrics.lists import ranking_distance, set_distance
from veristate.attest.challenge.metrics.numbers import numeric_distance
from veristate.attest.challenge.metrics.structures import FieldDistance, structured_distance
from veristate.attest.challenge.metrics.texts import cosine_distance, token_distance
from veristate.core import InputError

Metric = Callable[[bytes, bytes], float]
Embed = Callable[[str], Sequence[float]]
# An output token by token; None for what is no output of the policy's model.
Weigh = Callable[[bytes], Sequence[Weighed] | None]
_VALUES: Mapping[str, FieldDistance] = {"set": set_distance, "ranking": ranking_distance}


def metric_named(
    name: str,
    parameters: Mapping[str, str] | None = None,
    embed: Embed | None = None,
    weigh: Weigh | None = None,
) -> Metric:
    """The metric of a policy: digest, numeric, set, ranking, tokens, embedding, likelihood or structured.

    `numeric` takes absolute= and relative= tolerances. `structured` takes field.NAME="weight metric" and the tolerances
    of its numeric fields. `embedding` needs `embed`, which the challenger brings. `likelihood` takes the sampling rule
    (temperature=, and top_k=, top_p=, min_p= where they are not llama.cpp's), and needs `weigh`: the policy's model,
    given the step's inputs.
    Raises: InputError for an unknown metric, a parameter that does not belong to it, or one that is no number.
    """
    given = dict(parameters or {})
    if name == "digest":
        _none_left(name, given)
        return lambda a, b: float(a != b)
    if name in ("tokens", "embedding"):
        _none_left(name, given)
        return partial(_of_texts, _text_distance(name, embed))
    if name == "likelihood":
        return _likelihood(_sampling(name, given), weigh)
    distance = _structured(given, embed) if name == "structured" else _of_values(name, given, embed)
    _none_left(name, given)
    return partial(_of_json, distance)


def _of_values(name: str, given: dict[str, str], embed: Embed | None) -> FieldDistance:
    if name == "numeric":
        absolute, relative = (_number(given.pop(key, "0"), key) for key in ("absolute", "relative"))
        return partial(numeric_distance, absolute=absolute, relative=relative)
    if name in _VALUES:
        return _VALUES[name]
    if name in ("tokens", "embedding"):
        distance = _text_distance(name, embed)
        return lambda a, b: distance(a, b) if isinstance(a, str) and isinstance(b, str) else float(a != b)
    if name == "equal":
        return lambda a, b: float(a != b)
    raise InputError(
        f"no metric is called {name!r}; use digest, equal, numeric, set, ranking, tokens, embedding, likelihood or "
        "structured"
    )


def _structured(given: dict[str, str], embed: Embed | None) -> FieldDistance:
    tolerances: dict[str, str] = {key: given.pop(key) for key in ("absolute", "relative") if key in given}
    fields: dict[str, tuple[float, FieldDistance]] = {}
    for key in sorted(given):
        weight, _, kind = given.pop(key).partition(" ")
        if not key.startswith("field.") or not kind:
            raise InputError(f'a structured metric takes field.NAME="weight metric", not {key}')
        own: dict[str, str] = {**tolerances} if kind == "numeric" else {}
        fields[key.removeprefix("field.")] = (_number(weight, key), _of_values(kind, own, embed))
    if not fields or not any(weight > 0 for weight, _ in fields.values()):
        raise InputError("a structured metric needs at least one field that weighs something")
    return partial(structured_distance, fields=fields)


def _sampling(name: str, given: dict[str, str]) -> Sampling:
    if "temperature" not in given:
        raise InputError("the likelihood metric needs the temperature that outputs were sampled at")
    limits = {part.name: _number(given.pop(part.name), part.name) for part in fields(Sampling) if part.name in given}
    _none_left(name, given)
    return Sampling(**limits)


def _likelihood(sampling: Sampling, weigh: Weigh | None) -> Metric:
    if weigh is None:
        raise InputError("the likelihood metric needs the model that the policy's environment names")

    @cache
    def surprised(output: bytes) -> float:
        weighed = weigh(output)
        return math.inf if weighed is None else surprise(weighed, sampling)

    return lambda a, b: 0.0 if a == b else surprise_distance(surprised(a), surprised(b))


def _text_distance(name: str, embed: Embed | None) -> Callable[[str, str], float]:
    if name == "tokens":
        return token_distance
    if embed is None:
        raise InputError("the embedding metric needs the embedding that the policy's environment names")
    return lambda a, b: 0.0 if a == b else cosine_distance(embed(a), embed(b))


def _of_texts(distance: Callable[[str, str], float], a: bytes, b: bytes) -> float:
    try:
        return 0.0 if a == b else distance(a.decode("utf-8"), b.decode("utf-8"))
    except UnicodeDecodeError:
        return 1.0


def _of_json(distance: FieldDistance, a: bytes, b: bytes) -> float:
    try:
        return 0.0 if a == b else distance(_plain(json.loads(a)), _plain(json.loads(b)))
    except (ValueError, RecursionError):
        return 1.0


def _plain(value: Any) -> Any:
    """An artifact's JSON without the tag that tells a mapping from a tagged float."""
    if isinstance(value, dict) and set(value) == {"map"} and isinstance(value["map"], dict):
        return {key: _plain(item) for key, item in value["map"].items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{name}={text!r}: a finite number, 0 or more, is needed")
    return value


def _none_left(name: str, given: Mapping[str, str]) -> None:
    if given:
        raise InputError(f"the metric {name} takes no {', '.join(sorted(given))}")
