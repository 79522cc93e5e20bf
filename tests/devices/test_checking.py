"""Findings tell which units a fault touched: oracles are the rows of the table, RDKit's counts and numpy alone."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from device_cases import one_herg_member, tiny_candidates, tiny_spec
from rdkit import Chem

from veristate.core import InputError, Verdict
from veristate.devices import (
    CallFinding,
    Findings,
    Granularity,
    Predictor,
    ProductSettings,
    load_predictor,
    summarise,
    watch,
)
from veristate.devices.checking import Capture, Checker, float32_product
from veristate.devices.trusted.server import capture_of
from veristate.devices.watch import linear_layers
from veristate.numerics import Operands, bf16_arithmetic, check_linear, round_to_bf16

SEED = b"sixteen bytes yes"
Change = Callable[[np.ndarray], None]


def captures_of(predictor: Predictor, member: int = 0, batch: int = 0) -> list[Capture]:
    """The captures of one group, computed here."""
    found: list[Capture] = []
    with watch(predictor.models[member], lambda call: found.append(_copied(capture_of(call, member, batch)))):
        predictor.run(member, batch)
    return found


def _copied(capture: Capture) -> Capture:
    values = {name: getattr(capture, name) for name in capture.__slots__}
    return Capture(**values | {"X": capture.X.copy(), "Y": capture.Y.copy()})


def checker_of(predictor: Predictor, *, block: int | None = 32, **switches: Any) -> Checker:
    """A checker with that predictor's weights, for calls under this process's settings with some changed."""
    settings = replace(ProductSettings.read("cpu"), **switches)
    return Checker(predictor, settings=settings, granularity=Granularity(block=block, draws=1))


def changed(predictor: Predictor, layer: str, change: Change, *, block: int | None = 32) -> CallFinding:
    """The finding of one call of the first group whose Y was changed."""
    capture = next(c for c in captures_of(predictor) if c.layer == layer)
    change(capture.Y)
    return checker_of(predictor, block=block).check(capture, SEED)


def _spoil_row_7(Y: np.ndarray) -> None:
    Y[7, 0] += 1.0


def column_signs(count: int) -> np.ndarray:
    """The signs of the rows in a column sum, drawn again from the seed by hand."""
    stream = hashlib.shake_256(b"signs\0" + SEED).digest((count + 7) // 8)
    return np.where(np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=count), -1.0, 1.0)


def bounds(predictor: Predictor, member: int, capture: Capture) -> np.ndarray:
    """[M, N]: about how far honest float32 rounding moves an element: 2 (K + 3) 2^-24 (|X||W| + |b|)."""
    layer = linear_layers(predictor.models[member])[capture.layer]
    W, b = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    products = np.abs(capture.X.astype(float)) @ np.abs(W.T) + np.abs(b)
    return 2.0**-23 * (capture.X.shape[1] + 3) * products


def test_a_flagged_row_marks_its_unit_alone(tiny: Predictor) -> None:
    """Two rows far off mark the two candidates they belong to, and explain the columns they spoil."""

    def change(Y: np.ndarray) -> None:
        Y[[7, 50], 3] += 10.0

    finding = changed(tiny, "second", change)
    assert finding.verdict is Verdict.FLAG
    assert (finding.rows, finding.units) == ((7, 50), (7 // 3, 50 // 3))
    assert finding.columns > 0
    assert finding.unexplained == 0


def test_a_flagged_row_explains_only_its_units(tiny: Predictor) -> None:
    """A big error in one row does not hide a column-only error in another block."""
    capture = next(c for c in captures_of(tiny) if c.layer == "second")
    drift = _column_drift(tiny, capture, range(32, 64))

    def change(Y: np.ndarray) -> None:
        Y[:, 5] += drift
        Y[2, 7] += 9.0

    finding = changed(tiny, "second", change)
    assert finding.rows == (2, *range(32, 64))
    assert finding.units == (0, *range(32 // 3, 63 // 3 + 1))
    assert finding.unexplained == 0


@pytest.mark.parametrize("block", [32, None])
def test_a_column_only_fault_marks_the_rows_it_lies_in(tiny: Predictor, block: int | None) -> None:
    """An error below every row's bound that adds up in one column marks the units with a row in it, element by element,
    and keeps those rows as evidence.
    """
    capture = next(c for c in captures_of(tiny) if c.layer == "second")
    rows = range(35, 50) if block else range(13, 72)
    drift = _column_drift(tiny, capture, rows)
    finding = changed(tiny, "second", lambda Y: np.add(Y[:, 5], drift, out=Y[:, 5]), block=block)
    assert (finding.verdict, finding.columns, finding.unexplained) == (Verdict.FLAG, 1, 0)
    assert finding.rows == finding.evidence == tuple(rows)
    assert finding.units == tuple(range(rows[0] // 3, rows[-1] // 3 + 1))
    assert finding.suspects == ()


def _column_drift(tiny: Predictor, capture: Capture, rows: range) -> np.ndarray:
    """An error in some rows of column 5: below the bound of each row's sum, above that of each element."""
    drift, bound = np.zeros(len(capture.X), dtype=np.float32), bounds(tiny, 0, capture)[rows]
    size = 0.4 * bound.sum(axis=1).min()
    assert size > 1.1 * bound[:, 5].max()
    drift[rows] = size * column_signs(len(drift))[rows]
    return drift


def quiet_error(predictor: Predictor) -> tuple[Capture, int]:
    """A long sum with one error far above what roundings usually add up to and below what they can: capture, row."""
    capture = next(c for c in captures_of(predictor, member=4) if c.layer == "second")
    capture.Y[52, 9] += 0.25 * bounds(predictor, 4, capture)[52, 9]
    return capture, 52


def test_an_error_below_its_bound_is_a_suspicion() -> None:
    """What healthy rounding could give but hardly does passes; its unit is to be computed again, and not flagged."""
    predictor = load_predictor(tiny_spec("formats"), tiny_candidates())
    capture, row = quiet_error(predictor)
    finding = checker_of(predictor).check(capture, SEED)
    assert (finding.verdict, finding.rows, finding.units, finding.columns) == (Verdict.PASS, (), (), 0)
    assert (finding.suspects, finding.evidence) == ((row // 3,), (row,))
    findings = Findings(calls=(finding,), checked_on="here", granularity=Granularity())
    assert findings.verdict() is Verdict.PASS
    assert not findings.flagged_units(5, 64).any()
    assert np.argwhere(findings.marked_units(5, 64)).tolist() == [[4, row // 3]]
    assert summarise([finding])["suspects"] == 1
    assert CallFinding.from_json(finding.to_json()) == finding


def test_without_a_map_every_unit_is_suspected() -> None:
    """Where nobody can tell whose row it is, a suspicion is of the whole batch."""
    predictor = load_predictor(tiny_spec("formats"), tiny_candidates())
    capture, _ = quiet_error(predictor)
    predictor.rows = lambda batch, rows: None
    finding = checker_of(predictor).check(capture, SEED)
    assert (finding.verdict, finding.units, finding.suspects) == (Verdict.PASS, (), tuple(range(24)))


def test_without_a_map_every_unit_is_marked() -> None:
    """A predictor that can't tell its rows has every candidate of the batch recomputed."""
    blind = load_predictor(tiny_spec("blind"), tiny_candidates())
    assert changed(blind, "second", _spoil_row_7).units == tuple(range(24))
    assert changed(blind, "last", _spoil_row_7).units == (7,)


def test_units_are_table_positions(tiny: Predictor) -> None:
    """A flag in the short last batch marks positions of the table, not of the batch."""
    capture = captures_of(tiny, member=1, batch=2)[1]
    capture.Y[4, 0] += 5
    finding = checker_of(tiny).check(capture, SEED)
    assert (finding.member, finding.batch, finding.units) == (1, 2, (48 + 1,))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_no_arithmetic_gives_are_flagged(tiny: Predictor, value: float) -> None:
    """A NaN or infinity that finite operands can't give is a proven fault of its row."""
    finding = changed(tiny, "second", lambda Y: Y[9:10, 1].fill(value))
    assert (finding.verdict, finding.rows, finding.units, finding.worst) == (Verdict.FLAG, (9,), (3,), "inf")


@pytest.mark.parametrize(("block", "units"), [(32, range(31 // 3 + 1)), (None, range(24))])
def test_not_finite_operands_accuse_nobody(tiny: Predictor, block: int | None, units: range) -> None:
    """Where X is already NaN the layer is not to blame: INAPPLICABLE, with the reason, and every unit of the block
    whose columns can't be judged is recomputed.
    """
    capture = next(c for c in captures_of(tiny) if c.layer == "second")
    capture.X[9], capture.Y[9] = np.nan, np.nan
    finding = checker_of(tiny, block=block).check(capture, SEED)
    assert finding.verdict is Verdict.INAPPLICABLE
    assert "not finite" in finding.reason
    assert (finding.rows, finding.columns, finding.unexplained) == ((), 0, 40)
    assert finding.units == tuple(units)


@pytest.mark.parametrize("block", [72, 73, 10**12])
def test_a_block_of_all_rows_or_more_is_one(tiny: Predictor, block: int) -> None:
    """A block larger than the call holds all of it, and takes no more memory."""
    assert changed(tiny, "second", _spoil_row_7, block=block) == changed(tiny, "second", _spoil_row_7, block=None)


def test_the_checkers_product_is_float32_under_autocast(tiny: Predictor) -> None:
    """A check made in the middle of a model's bfloat16 pass multiplies in float32 all the same."""
    rng = np.random.default_rng(0)
    A, W = (rng.normal(size=shape).astype(np.float32) for shape in ((6, 300), (40, 300)))
    exact = A.astype(float) @ W.T.astype(float)
    capture = next(c for c in captures_of(tiny) if c.layer == "second")
    outside = checker_of(tiny).check(capture, SEED)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.abs(float32_product(A, W) - exact).max() < 300 * 2.0**-24 * 300
        assert checker_of(tiny).check(capture, SEED) == outside
    assert outside.verdict is Verdict.PASS


def test_the_checker_uses_its_own_weights(tiny: Predictor) -> None:
    """A weight that changed on the suspect's side is flagged in every row it touches, though Y fits the changed one."""
    suspect = load_predictor(tiny_spec(), tiny_candidates())
    with torch.no_grad():
        suspect.models[0].second.weight[4, 2] += 1.0
    capture = next(c for c in captures_of(suspect) if c.layer == "second")
    assert checker_of(suspect).check(capture, SEED).verdict is Verdict.PASS
    finding = checker_of(tiny).check(capture, SEED)
    assert finding.verdict is Verdict.FLAG
    assert finding.rows == tuple(np.flatnonzero(capture.X[:, 2]))


def test_products_of_an_unknown_format_are_not_judged(tiny: Predictor) -> None:
    """Where a switch leaves the format open no bound holds: INAPPLICABLE with the switch named, all units."""
    capture = captures_of(tiny)[0]
    settings = ProductSettings.read("cpu")
    finding = checker_of(tiny, variables=settings.variables | {"ONEDNN_DEFAULT_FPMATH_MODE": "ANY"}).check(
        capture, SEED
    )
    assert finding.verdict is Verdict.INAPPLICABLE
    assert "ONEDNN_DEFAULT_FPMATH_MODE" in finding.reason
    assert finding.units == tuple(range(24))


def test_narrow_products_are_judged_as_declared(tiny: Predictor) -> None:
    """Operands that a switch lets a unit read in bfloat16 pass under that switch, and are a fault without it."""
    capture = captures_of(tiny)[0]
    layer = linear_layers(tiny.models[capture.member])[capture.layer]
    W, b = layer.weight.detach().numpy(), layer.bias
    Y = round_to_bf16(capture.X) @ round_to_bf16(W).T + (0 if b is None else b.detach().numpy())
    narrow = replace(capture, Y=Y.astype(np.float32))
    settings = ProductSettings.read("cpu")
    declared = settings.precisions | {"mkldnn_matmul": "bf16"}
    assert checker_of(tiny, precisions=declared).check(narrow, SEED).verdict is Verdict.PASS
    assert checker_of(tiny).check(narrow, SEED).verdict is Verdict.FLAG


@pytest.mark.parametrize(
    ("storage", "verdict"),
    [
        ("float32", Verdict.PASS),
        ("bfloat16", Verdict.PASS),
        ("float64", Verdict.PASS),
        ("float16", Verdict.INAPPLICABLE),
    ],
)
def test_models_kept_in_other_formats(storage: str, verdict: Verdict) -> None:
    """A model kept in bfloat16 or float64 is judged by its own arithmetic; float16, which has none, is not judged."""
    predictor = load_predictor(tiny_spec("formats"), tiny_candidates())
    member = ["float32", "bfloat16", "float64", "float16"].index(storage)
    for capture in captures_of(predictor, member=member):
        finding = checker_of(predictor).check(capture, SEED)
        assert (capture.storage, finding.verdict) == (storage, verdict)
        assert ("float16" in finding.reason) == (storage == "float16")


def test_float64_is_held_to_float64(tiny: Predictor) -> None:
    """An error of one part in 10^9 in a float64 layer, which float32 could not show, is flagged."""
    predictor = load_predictor(tiny_spec("formats"), tiny_candidates())
    capture = captures_of(predictor, member=2)[1]
    capture.Y[5] *= 1 + 1e-9
    assert checker_of(predictor).check(capture, SEED).rows == (5,)


def test_a_call_of_another_shape_is_not_judged(tiny: Predictor) -> None:
    """Operands that don't fit the checker's weights are INAPPLICABLE and mark the whole batch."""
    capture = captures_of(tiny)[1]
    values = {name: getattr(capture, name) for name in capture.__slots__}
    finding = checker_of(tiny).check(Capture(**values | {"X": capture.X[:, 1:]}), SEED)
    assert (finding.verdict, finding.units) == (Verdict.INAPPLICABLE, tuple(range(24)))
    assert "shapes" in finding.reason


def test_rows_that_are_no_rows_are_refused(mood) -> None:
    """A map with another number of rows than the call, or positions outside the batch, is the user's mistake."""
    predictor = load_predictor(tiny_spec(), tiny_candidates())
    mood.write_text("lie")
    with pytest.raises(InputError, match="tiny_models:plain: rows"):
        changed(predictor, "second", _spoil_row_7)


def test_bf16_is_rounded_by_the_checker() -> None:
    """Under autocast a layer gets float32 X but multiplies bfloat16: unrounded, a healthy call would be accused."""
    layer = torch.nn.Linear(2, 1, bias=False)
    X = torch.tensor([[1 + 2.0**-8 * 0.9, 1.0]] * 4)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[1.0, -1.0]])
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        Y = layer(X).float().numpy()
    W = layer.weight.detach().numpy()
    verdicts = [
        check_linear(Operands.of(given, W, None, Y), bf16_arithmetic(bias=False), seed=SEED).verdict()
        for given in (round_to_bf16(X.numpy()), X.numpy())
    ]
    assert verdicts == [Verdict.PASS, Verdict.FLAG]
    # The same through the checker, which is given the float32 X.
    tiny = load_predictor(tiny_spec(), tiny_candidates())
    tiny.models[0].first = layer
    capture = Capture(member=0, batch=0, layer="first", ordinal=0, X=X.numpy(), Y=Y, storage="bfloat16")
    assert checker_of(tiny).check(capture, SEED).verdict is Verdict.PASS


MOLECULES = (
    "C",
    "[Na+].[Cl-]",
    "CCO",
    "O=C([O-])c1ccccc1.[Na+]",
    "[K+]",
    "c1ccc2[nH]ccc2c1",
    "O",
    "CC(=O)Oc1ccccc1C(=O)O",
)


@pytest.fixture(scope="module")
def molecules() -> Predictor:
    """One hERG member over small molecules, salts and single atoms among them, four in a batch."""
    return one_herg_member(MOLECULES, batch=3)


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_bonds_atoms_and_molecules_are_told_apart(molecules: Predictor, batch: int) -> None:
    """Rows follow RDKit: two directed bonds a bond, one row an atom, one a molecule, in table order."""
    here = list(molecules.batches[batch])
    mols = [Chem.MolFromSmiles(MOLECULES[i]) for i in here]
    bonds = np.repeat(here, [2 * m.GetNumBonds() for m in mols])
    atoms = np.repeat(here, [m.GetNumAtoms() for m in mols])
    for expected in (bonds, atoms, np.array(here)):
        assert np.array_equal(molecules.rows(batch, len(expected)), expected)
    assert molecules.rows(batch, len(bonds) + len(atoms)) is None


def test_rows_hold_what_their_molecule_gives_alone(molecules: Predictor) -> None:
    """The features in a molecule's rows of the first and the last message-passing layer are those it has by itself."""
    for batch in range(3):
        together = {c.layer.rpartition(".")[2]: c for c in captures_of(molecules, batch=batch)[::-1]}
        for position in molecules.batches[batch]:
            single = one_herg_member((MOLECULES[position],))
            alone = {c.layer.rpartition(".")[2]: c for c in captures_of(single)[::-1]}
            for layer, width in (("W_i", 86), ("W_o", 72)):
                owners = molecules.rows(batch, len(together[layer].X))
                assert owners is not None
                assert np.array_equal(together[layer].X[owners == position, :width], alone[layer].X[:, :width])


def test_equal_counts_with_other_owners_are_unknown() -> None:
    """As many atoms as directed bonds, but of other molecules: nobody can tell, so the whole batch is meant."""
    predictor = one_herg_member(("C1CCCCC1", *["C"] * 6))
    assert predictor.rows(0, 12) is None
    assert np.array_equal(predictor.rows(0, 7), np.arange(7))
    same = one_herg_member(("CC", "CC"))
    assert np.array_equal(same.rows(0, 4), [0, 0, 1, 1])


def test_a_batch_without_bonds_has_nothing_to_check() -> None:
    """Single atoms have no bonds: those calls have no rows, are INAPPLICABLE and mark no unit; the others pass."""
    predictor = one_herg_member(("[Na+]", "O", "C"))
    findings = [checker_of(predictor).check(c, SEED) for c in captures_of(predictor)]
    assert [f.verdict for f in findings if f.shape[0]] == [Verdict.PASS] * 3
    empty = [f for f in findings if not f.shape[0]]
    assert len(empty) == 3
    assert {(f.verdict, f.units, f.reason) for f in empty} == {(Verdict.INAPPLICABLE, (), "no rows: nothing to check")}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("block", [32, None])
def test_healthy_chemprop_calls_pass(dtype: str, block: int | None) -> None:
    """Every call of a healthy member passes, in float32 and under bfloat16 autocast, where X arrives in float32."""
    predictor = one_herg_member(MOLECULES, batch=5, dtype=dtype)
    captures = [c for batch in range(2) for c in captures_of(predictor, batch=batch)]
    assert {c.storage for c in captures} == {"float32" if dtype == "fp32" else "bfloat16"}
    for seed in (b"one", b"two"):
        findings = [checker_of(predictor, block=block).check(c, seed) for c in captures]
        assert {f.verdict for f in findings} == {Verdict.PASS}
        assert all(not f.units and 0 <= float(f.worst) <= 1 for f in findings)
    if dtype == "bf16":
        assert any(not np.array_equal(c.X, round_to_bf16(c.X)) for c in captures)
        assert all(np.array_equal(c.Y, round_to_bf16(c.Y)) for c in captures)


def test_findings_survive_json(tiny: Predictor) -> None:
    """A finding read back from its JSON is the same finding."""
    finding = changed(tiny, "second", _spoil_row_7)
    assert CallFinding.from_json(finding.to_json()) == finding
