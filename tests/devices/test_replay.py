"""Recorded residuals: what was written is put back at the same calls, and what is no record is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from veristate.core import InputError
from veristate.devices import FaultModel, fault_named, write_residuals
from veristate.devices.faults import Site

SHAPES = [(600, 300), (65, 300), (31, 31), (700, 300), (64, 1), (5, 200)] * 10
GOOD = {"call": 0, "layer": "a", "rows": [1, 2], "columns": [3], "residuals": [[0.5], [-1.0]]}


def passed(model: FaultModel, dtype: torch.dtype) -> list[torch.Tensor]:
    """The outputs of a pass under that fault."""
    outputs = []
    for number, shape in enumerate(SHAPES):
        Y = torch.from_numpy(np.random.default_rng(number).standard_normal(shape)).to(dtype)
        model.apply(Site(number=number, member=0, batch=0, layer="layer", shape=shape), Y)
        outputs.append(Y)
    return outputs


def replayed(path: Path, *records: object) -> FaultModel:
    """The fault of a file with those records as lines."""
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in records))
    return fault_named(f"replay:{path}", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "not json",
        "[]",
        "3",
        "null",
        "{}",
        '{"call": 1}',
        GOOD | {"rows": [0.5, 1]},
        GOOD | {"rows": [True, False]},
        GOOD | {"rows": ["1", "2"]},
        GOOD | {"rows": [-1, 2]},
        GOOD | {"rows": 3},
        GOOD | {"rows": [[1], [2]]},
        GOOD | {"rows": [1, 2**70]},
        GOOD | {"rows": [1]},
        GOOD | {"columns": None},
        GOOD | {"columns": "3"},
        GOOD | {"residuals": [[0.5], ["x"]]},
        GOOD | {"residuals": [[0.5], [1, 2]]},
        GOOD | {"residuals": {}},
        json.dumps(GOOD).replace("-1.0", "NaN"),
        json.dumps(GOOD).replace("-1.0", "1e999"),
        GOOD | {"call": 1.5},
        GOOD | {"call": "1"},
        GOOD | {"call": -1},
        json.dumps(GOOD).replace('"call": 0', '"call": 1e999'),
        GOOD,
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, wrong: object) -> None:
    """A malformed line, or a second one for the same call, is an InputError that names its number."""
    with pytest.raises(InputError, match=r"residuals\.jsonl line 2 is no residual record"):
        replayed(tmp_path / "residuals.jsonl", GOOD, wrong)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there, a folder, and bytes that are no text are InputErrors with the path."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("absent", ".", "binary"):
        with pytest.raises(InputError, match="--inject replay:"):
            fault_named(f"replay:{tmp_path / name}", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["case1", "case2", "stripe", "tile", "stuck"])
def test_a_written_pass_is_replayed(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    """Residuals of a pass, written and read back, give the same bits at the same calls."""
    first, path = fault_named(name, 6), tmp_path / "residuals.jsonl"
    outputs = passed(first, dtype)
    with path.open("w") as file:
        write_residuals(first.events, file.write)
    assert len(path.read_text().splitlines()) == len(first.events) > 0
    again = fault_named(f"replay:{path}", 99)
    assert all(torch.equal(a, b) for a, b in zip(outputs, passed(again, dtype), strict=True))
    assert [e.site.number for e in again.events] == [e.site.number for e in first.events]


def test_a_record_outside_the_call_is_left_out(tmp_path: Path) -> None:
    """Of a record that reaches beyond the call only what lies inside is put back; one wholly outside does nothing."""
    inside = {"call": 5, "rows": [4, 5, 60], "columns": [199, 200], "residuals": [[1, 2], [3, 4], [5, 6]]}
    outside = {"call": 4, "rows": [64], "columns": [0], "residuals": [[1]]}
    model = replayed(tmp_path / "residuals.jsonl", inside, outside)
    passed(model, torch.float64)
    (event,) = model.events
    assert (event.site.number, event.rows.tolist(), event.columns.tolist()) == (5, [4], [199])
    assert event.residuals[0, 0] == pytest.approx(1.0, abs=1e-6)


def test_residuals_lost_in_storage_are_not_counted(tmp_path: Path) -> None:
    """A residual too small for bfloat16 to keep leaves the output as it was and counts as not stored."""
    record = {"call": 0, "rows": [0], "columns": [0, 1], "residuals": [[1e-9, 3.0]]}
    model = replayed(tmp_path / "residuals.jsonl", record)
    passed(model, torch.bfloat16)
    assert model.events[0].stored == 1
    assert model.events[0].residuals[0, 0] == 0
