"""GB1's four sites: 149,361 measured variants, read through VERISTATE_DATA by the evaluator alone.

Data: Wu et al., eLife 5:e16965 (2016). Fitness 1 is the wild type VDGV; variants that were not measured count as 0.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veristate.core import EnvironmentUnusableError
from veristate.research.tasks import Rejection, Score
from veristate.research.tasks.data import VARIABLE

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"
FILE = "batch.json"
_DATA = ("bio", "gb1_four_mutations.npz")


def evaluate(candidate: Path, parameters: Mapping[str, Any]) -> Score | Rejection:
    """The mean fitness of the `k` best of a batch of at most `n` different variants; no variant's own is shown."""
    variants = _read(candidate, int(parameters["n"]), int(parameters["k"]))
    if isinstance(variants, Rejection):
        return variants
    known = fitness(os.environ)
    values = sorted((known.get(variant, 0.0) for variant in variants), reverse=True)[: int(parameters["k"])]
    return Score(metric=sum(values) / len(values))


audit = evaluate  # the labels are the truth there is


def fitness(environment: Mapping[str, str]) -> dict[str, float]:
    """The measured fitness of each variant. Raises: EnvironmentUnusableError without the data."""
    path = Path(environment.get(VARIABLE, "")).joinpath(*_DATA)
    if not environment.get(VARIABLE) or not path.is_file():
        raise EnvironmentUnusableError(f"{path} is not there; set {VARIABLE} to a folder that holds {'/'.join(_DATA)}")
    with np.load(path) as data:
        alphabet, sites, values = str(data["alphabet"]), data["variant"], data["fitness"]
    letters = np.array(list(alphabet))[sites]
    return dict(zip(("".join(row) for row in letters.tolist()), values.tolist(), strict=True))


def _read(candidate: Path, most: int, least: int) -> list[str] | Rejection:
    path = candidate / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size < 10**6 else None
    except (OSError, ValueError, RecursionError) as error:
        return Rejection(reason=f"{FILE} can't be read as JSON: {error}")
    found = content.get("variants") if isinstance(content, dict) else None
    if not isinstance(found, list) or not least <= len(found) <= most:
        return Rejection(reason=f'{FILE} must be an object with {least} to {most} "variants"')
    for variant in found:
        if not isinstance(variant, str) or len(variant) != 4 or set(variant) - set(ALPHABET):
            return Rejection(reason=f"{str(variant)[:20]!r} is no variant: four letters of {ALPHABET}")
    if len(set(found)) < len(found):
        return Rejection(reason="a variant is there twice")
    return found
