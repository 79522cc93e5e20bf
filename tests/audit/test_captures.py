"""What is admitted as a capture, what it is known by, and what its differences are."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from veristate.audit import (
    Capture,
    CaptureRecord,
    Computation,
    DifferenceClass,
    Provenance,
    Saved,
    classify,
    ordinary_bound,
    read_saved,
)
from veristate.core import InputError, Site
from veristate.numerics import Weights, bf16_arithmetic, fp32_arithmetic, round_to_bf16

SITE = Site(layer="score", ordinal=0)
WHENCE = Provenance(model={"W": "a" * 64}, inputs={"queries": "b" * 64}, settings={"threads": "1"})
IDS = (("q1", "q2"), ("d1", "d2", "d3"))


def saved(values: object, **changes: object) -> Saved:
    """Values at the site, of the usual provenance."""
    given_ = {"site": SITE, "labels": IDS, "provenance": WHENCE} | changes
    return Saved.of(np.asarray(values, dtype=changes.pop("dtype", np.float32)), **given_)


def ones(**changes: object) -> Saved:
    """Two queries by three documents."""
    return saved(np.ones((2, 3)), **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"site": Site(layer="score", ordinal=1)}, "site.*call 0 of layer 'score'.*call 1"),
        ({"site": Site(layer="other")}, "site.*'score'.*'other'"),
        ({"labels": (("q1", "q2"), ("d1", "d3", "d2"))}, "document order.*axis 1.*coordinate 1, 'd2'.*'d3'"),
        ({"labels": (("q1", "qq"), IDS[1])}, "coordinates.*axis 0.*coordinate 1, 'q2'.*'qq'"),
        ({"labels": ((), IDS[1])}, "axis 0 and the other none"),
        ({"labels": ()}, "axis 0 and the other none"),
        ({"provenance": replace(WHENCE, model={"W": "c" * 64})}, "model 'W'.*aaa.*ccc"),
        ({"provenance": replace(WHENCE, model={"W": "a" * 64, "b": "d"})}, "model 'b'.*none stated.*d;"),
        ({"provenance": replace(WHENCE, inputs={})}, "input 'queries'.*bbb.*none stated"),
    ],
)
def test_a_pair_of_two_computations_is_refused(changes: dict[str, object], said: str) -> None:
    """The first thing in which two states are not of one computation is named, with both values."""
    with pytest.raises(InputError, match=said):
        Capture.of(ones(), ones(**changes))


def test_another_shape_or_type_is_refused() -> None:
    """Shapes that would broadcast and types that would convert are differences."""
    with pytest.raises(InputError, match=r"shape.*\(2, 3\).*\(1, 3\)"):
        Capture.of(ones(labels=()), saved(np.ones((1, 3)), labels=()))
    for dtype, name in ((np.float16, "fp16"), (np.float64, "fp64")):
        with pytest.raises(InputError, match=f"representation.*fp32.*{name}"):
            Capture.of(ones(), Saved.of(np.ones((2, 3), dtype=dtype), site=SITE, labels=IDS, provenance=WHENCE))


def test_an_order_known_by_digest_alone_must_agree_too() -> None:
    """Where no labels are given, two digests of the document order are compared."""
    with pytest.raises(InputError, match="document order"):
        Capture.of(
            ones(labels=(), provenance=replace(WHENCE, order="1" * 64)),
            ones(labels=(), provenance=replace(WHENCE, order="2" * 64)),
        )
    with pytest.raises(InputError, match="different document orders"):
        ones(provenance=replace(WHENCE, order="1" * 64))


@pytest.mark.parametrize(
    ("values", "changes", "said"),
    [
        (np.ones(3, dtype=np.int32), {}, "int32"),
        (np.ones(3, dtype=np.uint16), {}, "uint16"),
        (np.array([1.001], dtype=np.float32), {"representation": "bf16"}, "not all its values"),
        (np.ones(3, dtype=np.float64), {"representation": "fp32"}, "float64"),
        (np.ones(3, dtype=np.float32), {"representation": "fp8"}, "fp8"),
        (np.ones(3, dtype=np.float32), {"labels": (("a", "b"),)}, "3 coordinates and 2 labels"),
        (np.ones(3, dtype=np.float32), {"labels": (("a", "b", "a"),)}, "'a' stands twice"),
        (np.ones(3, dtype=np.float32), {"labels": (("a",), ("b",))}, "2 axes"),
    ],
)
def test_values_that_are_none_are_refused(values: np.ndarray, changes: dict[str, object], said: str) -> None:
    """Types without a representation, values it doesn't hold, and labels that don't fit are refused."""
    with pytest.raises(InputError, match=said):
        Saved.of(values, site=SITE, **changes)


def test_the_residual_is_the_float32_difference() -> None:
    """The residual r is FP32(c) - FP32(h), rounded once, as exact fractions rounded to float32 say."""
    h = np.array([1.0, 1e30, 0.1, -3.5], dtype=np.float32)
    c = np.array([1.0 + 2.0**-23, 1.0, -0.7, 3.5], dtype=np.float32)
    found = Capture.of(Saved.of(h, site=SITE), Saved.of(c, site=SITE)).residual
    exact = [np.float32(float(Fraction(float(b)) - Fraction(float(a)))) for a, b in zip(h, c, strict=True)]
    assert found.tolist() == [float(x) for x in exact]


def test_bits_decide_what_differs() -> None:
    """-0.0 against 0.0 is a difference, a NaN against itself none, against another payload it is one."""
    nan = np.array([0x7FC00000, 0x7FC00001], dtype=np.uint32).view(np.float32)
    h = np.array([0.0, nan[0], nan[0], 1.0], dtype=np.float32)
    c = np.array([-0.0, nan[0], nan[1], 1.0], dtype=np.float32)
    capture = Capture.of(Saved.of(h, site=SITE), Saved.of(c, site=SITE))
    assert capture.differing.tolist() == [True, False, True, False]


def test_nobody_changes_a_capture() -> None:
    """The values are copies: writing to the array that was given changes nothing, and to theirs is refused."""
    values = np.ones((2, 3), dtype=np.float32)
    one = Saved.of(values, site=SITE)
    before = one.bits_digest
    values[:] = 7
    assert one.bits_digest == before
    with pytest.raises(ValueError, match="read-only"):
        one.values[0, 0] = 7


def test_the_digest_is_of_everything() -> None:
    """The digest repeats, is that of the canonical record, reads back, and changes with any part of the capture."""
    capture = Capture.of(ones(), saved(np.full((2, 3), 2.0)))
    others = [
        Capture.of(ones(), saved(np.full((2, 3), 3.0))),
        Capture.of(ones(labels=()), saved(np.full((2, 3), 2.0), labels=())),
        Capture.of(ones(), saved(np.full((2, 3), 2.0), provenance=replace(WHENCE, note="again"))),
        Capture.of(ones(), saved(np.full((2, 3), 2.0), provenance=replace(WHENCE, constructed=True))),
    ]
    assert capture.digest == Capture.of(ones(), saved(np.full((2, 3), 2.0))).digest
    assert len({capture.digest, *(other.digest for other in others)}) == 5
    record = CaptureRecord.from_bytes(capture.record.to_bytes())
    assert record == capture.record
    assert json.loads(record.to_bytes())["site"] == {"layer": "score", "ordinal": 0}


def test_bfloat16_is_known_by_its_own_bits() -> None:
    """bfloat16 given as float32 values, as bits, and byte-swapped is one state with one digest."""
    values = round_to_bf16(np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32))
    bits = torch.from_numpy(values.copy()).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    ways = [values, bits, values.astype(">f4"), bits.astype(">u2")]
    assert len({Saved.of(way, site=SITE, representation="bf16").bits_digest for way in ways}) == 1
    assert Saved.of(values, site=SITE).bits_digest != Saved.of(bits, site=SITE, representation="bf16").bits_digest


def test_a_coordinate_has_a_name() -> None:
    """Messages can say which query and which document."""
    assert ones().coordinate((1, 2)) == "(1, 2: q2, d3)"
    assert ones(labels=()).coordinate((1, 2)) == "(1, 2)"


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """A missing file, another kind, a broken one, pickled objects, a wrong name and an unnamed choice are refused."""
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(tmp_path / "one.npy", np.ones(2, dtype=np.float32))
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(3))
    save_file({"i": np.ones(2, dtype=np.int8)}, tmp_path / "int.safetensors")
    (tmp_path / "text.npy").write_bytes(b"no array")
    (tmp_path / "text.npz").write_bytes(b"no archive")
    (tmp_path / "text.safetensors").write_bytes(b"\xff" * 40)
    (tmp_path / "swapped.npz").write_bytes((tmp_path / "one.npy").read_bytes())
    (tmp_path / "swapped.npy").write_bytes((tmp_path / "two.npz").read_bytes())
    for name, array, said in [
        ("none.npy", "", "can't be read"),
        ("one.txt", "", "none of them"),
        ("objects.npy", "", "can't be read"),
        ("text.npy", "", "can't be read"),
        ("text.npz", "", "can't be read"),
        ("text.safetensors", "", "can't be read"),
        ("swapped.npz", "", "single array"),
        ("swapped.npy", "", "archive"),
        ("one.npy", "a", "without a name"),
        ("two.npz", "", r"2 arrays \(a, b\)"),
        ("two.npz", "c", "no 'c'"),
        ("int.safetensors", "", "I8"),
    ]:
        with pytest.raises(InputError, match=said):
            read_saved(tmp_path / name, site=SITE, array=array)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_three_kinds_of_files_hold_the_same_state(tmp_path: Path, dtype: type) -> None:
    """An array written as .npy, .npz and safetensors is read as one state."""
    values = np.random.default_rng(4).standard_normal((3, 4)).astype(dtype)
    np.save(tmp_path / "x.npy", np.asfortranarray(values))
    np.savez(tmp_path / "x.npz", h=values, other=np.ones(1))
    save_file({"h": values}, tmp_path / "x.safetensors")
    whole = Saved.of(values, site=SITE)
    for name, array in (("x.npy", ""), ("x.npz", "h"), ("x.safetensors", "")):
        found = read_saved(tmp_path / name, site=SITE, array=array)
        assert (found.bits_digest, found.representation) == (whole.bits_digest, whole.representation)


def test_safetensors_tells_bfloat16_by_itself(tmp_path: Path) -> None:
    """A bfloat16 tensor that torch wrote is read with its bits, and can't be taken for something else."""
    tensor = torch.randn(3, 4, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    save_torch({"h": tensor}, tmp_path / "x.safetensors")
    found = read_saved(tmp_path / "x.safetensors", site=SITE)
    assert found.representation == "bf16"
    assert np.array_equal(found.values, tensor.float().numpy())
    with pytest.raises(InputError, match="bf16"):
        read_saved(tmp_path / "x.safetensors", site=SITE, representation="fp32")


def product(seed: int, *, bf16: bool) -> tuple[Computation, np.ndarray]:
    """A layer of 12 rows, and what a healthy machine gave."""
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((12, 64)).astype(np.float32), rng.standard_normal((7, 64)).astype(np.float32)
    if bf16:
        X, W = round_to_bf16(X), round_to_bf16(W)
    Y = (X.astype(np.float64) @ W.astype(np.float64).T).astype(np.float32)
    arithmetic = bf16_arithmetic(bias=False) if bf16 else fp32_arithmetic(bias=False, flush=True)
    return Computation(X=X, weights=Weights.of(W), arithmetic=arithmetic), round_to_bf16(Y) if bf16 else Y


def other_neighbour(exact: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The bfloat16 value on the other side of each exact one than h."""
    bits = h.view(np.uint32)
    both = [(bits + np.uint32(0x10000)).view(np.float32), (bits - np.uint32(0x10000)).view(np.float32)]
    return np.where(np.abs(both[0] - exact) < np.abs(both[1] - exact), *both)


@pytest.mark.parametrize("bf16", [False, True])
def test_each_difference_has_its_class(bf16: bool) -> None:
    """A gross error is proven, one of ordinary size ordinary, one between unresolved, and the rest no difference."""
    computation, h = product(8, bf16=bf16)
    c = h * (1 + np.float32(2.0**-22))
    inside = np.ones(h.shape, dtype=bool)
    if bf16:
        exact = computation.X.astype(np.float64) @ computation.weights.W.astype(np.float64).T
        c = other_neighbour(exact, h)
        inside = np.abs(c - exact) < 0.95 * 2.0**-8 * np.abs(c)
    first, second = map(tuple, np.argwhere(inside)[[0, -1]])
    third = tuple(np.argwhere(~inside | (np.arange(84).reshape(12, 7) == 40))[0])
    wrong = h.copy()
    wrong[first], wrong[second] = c[first], c[second]
    wrong[third] = round_to_bf16(h[third] + 5)
    kind = "bf16" if bf16 else "fp32"
    capture = Capture.of(*(Saved.of(x.reshape(3, 4, 7), site=SITE, representation=kind) for x in (h, wrong)))
    ordinary = np.zeros((12, 7))
    ordinary[first], ordinary[third] = 1.0, 9.0
    found = classify(capture, computation=computation, ordinary=ordinary.reshape(3, 4, 7))
    expected = np.zeros((12, 7), dtype=np.int8)
    expected[third], expected[first] = DifferenceClass.PROVEN, DifferenceClass.ORDINARY
    expected[second] = DifferenceClass.UNRESOLVED
    assert np.array_equal(found.classes.reshape(12, 7), expected)
    assert found.reference_above == 0
    assert sum(found.counts().values()) == 84
    assert found.mask(DifferenceClass.PROVEN).sum() == 1


def test_a_reference_above_the_bound_proves_nothing() -> None:
    """Where the reference is broken, alone or too, the difference is unresolved whatever its size, and is counted."""
    computation, h = product(9, bf16=False)
    broken = h.copy()
    broken[4, 4] += 3
    for c in (h, broken + np.float32(1)):
        capture = Capture.of(*(Saved.of(x, site=SITE) for x in (broken, c)))
        for ordinary in (None, 100.0):
            found = classify(capture, computation=computation, ordinary=ordinary)
            assert found.classes[4, 4] == DifferenceClass.UNRESOLVED
            assert found.reference_above == 1


def test_a_constructed_difference_is_never_proven() -> None:
    """What a simulator made stays constructed, however far above the bound."""
    computation, h = product(10, bf16=False)
    c = h.copy()
    c[0, 0] += 100
    made = Saved.of(c, site=SITE, provenance=Provenance(constructed=True))
    found = classify(Capture.of(Saved.of(h, site=SITE), made), computation=computation, ordinary=1000.0)
    assert found.counts()[DifferenceClass.CONSTRUCTED] == 1
    assert found.counts()[DifferenceClass.PROVEN] == 0


def test_without_evidence_a_difference_is_unresolved() -> None:
    """Neither operands nor benign runs: nothing is proven and nothing is called ordinary."""
    found = classify(Capture.of(ones(), saved(np.full((2, 3), 2.0))))
    assert found.counts()[DifferenceClass.UNRESOLVED] == 6


@pytest.mark.parametrize("bound", [-1.0, np.nan, np.zeros(3)])
def test_an_ordinary_bound_that_is_none_is_refused(bound: object) -> None:
    """Negative, NaN and misshapen bounds are refused."""
    with pytest.raises(InputError, match="ordinary bound"):
        classify(Capture.of(ones(), saved(np.full((2, 3), 2.0))), ordinary=bound)


@given(st.lists(st.lists(st.floats(width=32), min_size=4, max_size=4), min_size=2, max_size=5))
def test_the_ordinary_bound_covers_its_runs(rows: list[list[float]]) -> None:
    """Every benign run that the bound was made from is of ordinary precision, whatever is in it."""
    arrays = [np.array(row, dtype=np.float32) for row in rows]
    bound = ordinary_bound(arrays[0], arrays[1:])
    for run in arrays[1:]:
        found = classify(Capture.of(Saved.of(arrays[0], site=SITE), Saved.of(run, site=SITE)), ordinary=bound)
        assert found.counts()[DifferenceClass.UNRESOLVED] == 0


def test_no_benign_runs_tell_nothing() -> None:
    """A bound from no runs, or from runs of another shape, is refused."""
    with pytest.raises(InputError, match="no benign runs"):
        ordinary_bound(np.ones(2), [])
    with pytest.raises(InputError, match="run 1"):
        ordinary_bound(np.ones(2), [np.ones(2), np.ones(3)])
