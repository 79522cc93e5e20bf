"""The cases of this room's tests: tiny predictors over numbered candidates, the pinned hERG members over drugs."""

import csv

import pytest

from veristate.core import EnvironmentUnusableError
from veristate.devices import Candidates, Predictor, PredictorSpec, load_predictor
from veristate.screening.cases import herg

COUNT = 64
BATCH = 24


def tiny_spec(name: str = "plain", **changes: object) -> PredictorSpec:
    """The spec of a factory in `tiny_models`."""
    values: dict = {"kind": "factory", "dtype": "fp32", "device": "cpu", "batch": BATCH}
    return PredictorSpec(**values | {"factory": f"tiny_models:{name}"} | changes)


def tiny_candidates(count: int = COUNT) -> Candidates:
    """Candidates whose inputs are numbers as text."""
    return Candidates(ids=tuple(f"c{i:03}" for i in range(count)), inputs=tuple(map(str, range(count))))


def herg_candidates(count: int) -> Candidates:
    """The first drugs of the built-in table; skipped where the wheel is not installed."""
    try:
        path = herg.herg_table()
    except EnvironmentUnusableError as error:
        pytest.skip(str(error))
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for _, row in zip(range(count), csv.DictReader(file), strict=False)]
    return Candidates(ids=tuple(r["id"] for r in rows), inputs=tuple(r["smiles"] for r in rows))


def herg_spec(**changes: object) -> PredictorSpec:
    """The pinned hERG members."""
    members = tuple(map(str, herg.herg_files().members))
    values: dict = {"kind": "chemprop", "dtype": "fp32", "device": "cpu", "batch": 64, "output": herg.OUTPUT}
    return PredictorSpec(**values | {"members": members, "digests": herg.MEMBER_DIGESTS} | changes)


def one_herg_member(inputs: tuple[str, ...], **changes: object) -> Predictor:
    """The first member over molecules of the caller's."""
    spec = herg_spec(**changes)
    table = Candidates(ids=tuple(f"m{i}" for i in range(len(inputs))), inputs=inputs)
    single = {"members": spec.members[:1], "digests": spec.digests[:1]}
    return load_predictor(PredictorSpec(**{f: getattr(spec, f) for f in spec.__slots__} | single), table)
