"""Predictors load what their spec names, or say what is wrong with it."""

import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from device_cases import herg_candidates, herg_spec, one_herg_member, tiny_candidates, tiny_spec

from veristate.core import InputError, digest
from veristate.devices import Candidates, Predictor, PredictorSpec, load_predictor, unreadable_inputs
from veristate.screening.cases import herg


class Trap:
    """A pickle that writes a file when it is opened."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple:
        return (Path.touch, (self._marker,))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such_module:make", "No module named 'no_such_module'"),
        ("tiny_models:absent", "absent"),
        ("tiny_models", "expected module:factory"),
        (":plain", "expected module:factory"),
        (".tiny_models:plain", "expected module:factory"),
        ("tiny_models:NOT_CALLABLE", "not callable"),
        ("tiny_models:no_models", "`models`"),
        ("tiny_models:wrong_models", "torch modules"),
    ],
)
def test_a_factory_that_makes_no_predictor_is_refused(factory: str, message: str) -> None:
    """A name that leads nowhere, or to something else, is an InputError with the name in it."""
    with pytest.raises(InputError, match=message) as refusal:
        load_predictor(tiny_spec(factory=factory), tiny_candidates())
    assert factory in str(refusal.value)


@pytest.mark.parametrize(("name", "given"), [("long_scores", r"\[25\]"), ("list_scores", "list")])
def test_scores_of_another_shape_are_refused(name: str, given: str) -> None:
    """A factory whose scores are not one number a candidate is told what it gave."""
    predictor = load_predictor(tiny_spec(name), tiny_candidates())
    with pytest.raises(InputError, match=f"score.. gave .*{given}.*expected a tensor of 24"):
        predictor.run(0, 0)


def test_other_weights_than_pinned_are_refused(tiny: Predictor) -> None:
    """A factory with pinned digests must make exactly those weights."""
    pinned = tiny_spec(digests=tiny.weight_digests())
    assert load_predictor(pinned, tiny_candidates()).weight_digests() == tiny.weight_digests()
    with pytest.raises(InputError, match="other weights"):
        load_predictor(replace(pinned, factory="tiny_models:moody_weights"), tiny_candidates())


def test_digests_are_of_what_was_loaded() -> None:
    """The digests name the weights as loaded, one each, and don't follow what happens to them in memory."""
    predictor = load_predictor(tiny_spec("formats"), tiny_candidates())
    loaded = predictor.weight_digests()
    assert len(set(loaded)) == 5
    with torch.no_grad():
        predictor.models[0].last.weight.zero_()
    assert predictor.weight_digests() == loaded
    assert load_predictor(tiny_spec("formats"), tiny_candidates()).weight_digests() == loaded


def test_a_spec_survives_json() -> None:
    """A spec read back from its JSON text is the same spec, whatever its kind."""
    for spec in (tiny_spec(), herg_spec(threads=2, unsafe_pickle=True), tiny_spec(digests=("a", "b"), dtype="bf16")):
        assert PredictorSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_batches_cover_the_table_once() -> None:
    """Batches follow the table's order, and only the last one is short."""
    spec = tiny_spec(batch=24)
    assert spec.batches(64) == (range(24), range(24, 48), range(48, 64))
    assert spec.batches(48) == (range(24), range(24, 48))
    assert spec.batches(0) == ()


def test_the_tables_digest_depends_on_its_order() -> None:
    """The same candidates in another order, or with one input moved, are another table."""
    table = Candidates(ids=("a", "b"), inputs=("C", "N"))
    others = (Candidates(ids=("b", "a"), inputs=("N", "C")), Candidates(ids=("a", "b"), inputs=("N", "C")))
    assert len({table.digest, *(other.digest for other in others)}) == 3
    assert table.digest == Candidates(ids=("a", "b"), inputs=("C", "N")).digest


def test_unreadable_inputs_are_named_by_position() -> None:
    """Empty, misspelt and unclosed SMILES are unreadable, salts and single atoms are not; a factory reads anything."""
    inputs = ("CCO", "", "not a molecule", "C1CC", "[Na+].[Cl-]", "[Fe]", "C(C)(C)(C)(C)C", " ")
    assert unreadable_inputs(herg_spec(), inputs) == [1, 2, 3, 6, 7]
    assert unreadable_inputs(tiny_spec(), inputs) == []


@pytest.mark.parametrize("smiles", ["", "C1CC"])
def test_a_molecule_that_can_not_be_read_is_named(smiles: str) -> None:
    """Loading refuses a candidate without atoms: its row would be missing and every later score belong to another."""
    with pytest.raises(InputError, match="candidate 2"):
        one_herg_member(("C", smiles, "CC"))


def test_every_digest_is_compared_before_any_file_is_opened(tmp_path: Path) -> None:
    """A wrong second checkpoint keeps the first from being opened, though its digest is right."""
    trap, other, marker = tmp_path / "trap.pt", tmp_path / "other.pt", tmp_path / "ran"
    trap.write_bytes(pickle.dumps(Trap(marker)))
    other.write_bytes(b"something else")
    spec = herg_spec(members=(str(trap), str(other)), digests=(digest(trap.read_bytes()), "1" * 64))
    with pytest.raises(InputError, match=r"other\.pt has sha256"):
        load_predictor(spec, Candidates(ids=("a",), inputs=("C",)))
    assert not marker.exists()


def test_what_was_verified_is_what_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file exchanged between the comparison of its digest and its opening is not opened."""
    path, marker = tmp_path / "model.pt", tmp_path / "ran"
    path.write_bytes(herg.herg_files().members[0].read_bytes())
    read = Path.read_bytes

    def read_and_exchange(self: Path) -> bytes:
        content = read(self)
        self.write_bytes(pickle.dumps(Trap(marker)))
        return content

    monkeypatch.setattr(Path, "read_bytes", read_and_exchange)
    spec = herg_spec(members=(str(path),), digests=herg.MEMBER_DIGESTS[:1])
    predictor = load_predictor(spec, Candidates(ids=("a",), inputs=("CCO",)))
    assert predictor.weight_digests() == herg.MEMBER_DIGESTS[:1]
    assert not marker.exists()


def test_a_checkpoint_without_a_digest_is_refused() -> None:
    """Without a digest a checkpoint is not opened unless that was allowed; the message gives the digest to check."""
    path, table = str(herg.herg_files().members[0]), Candidates(ids=("a",), inputs=("CCO",))
    for digests in ((), ("",)):
        spec = herg_spec(members=(path,), digests=digests)
        with pytest.raises(InputError, match=f"--sha256 {herg.MEMBER_DIGESTS[0]}.*--unsafe-pickle"):
            load_predictor(spec, table)
    allowed = load_predictor(replace(spec, unsafe_pickle=True), table)
    assert allowed.weight_digests() == herg.MEMBER_DIGESTS[:1]


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    """A checkpoint that is not there is an InputError with its path."""
    with pytest.raises(InputError, match=r"absent\.pt can't be read"):
        load_predictor(herg_spec(members=(str(tmp_path / "absent.pt"),)), Candidates(ids=("a",), inputs=("C",)))


def saved(content: object) -> bytes:
    """What torch.save writes."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle at all",
        saved({"weights": torch.zeros(2)}),
        saved([1, 2]),
        saved({"hyper_parameters": {"metrics": None}, "state_dict": {}}),
        herg.herg_files().members[0].read_bytes()[:100_000],
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    """A verified file that holds no Chemprop model is an InputError with its path."""
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.pt is not a Chemprop v2 model"):
        load_predictor(
            herg_spec(members=(str(path),), digests=(digest(content),)), Candidates(ids=("a",), inputs=("C",))
        )


@pytest.mark.parametrize("output", [-1, 31])
def test_a_column_the_model_lacks_is_refused(output: int) -> None:
    """The hERG checkpoints have columns 0 to 30."""
    with pytest.raises(InputError, match=f"31 outputs; --output {output}"):
        one_herg_member(("C",), output=output)
    assert one_herg_member(("C",), output=30).run(0, 0).shape == (1,)


def test_means_are_the_published_ones(herg_hundred: Predictor) -> None:
    """The fp32 means of the first hundred drugs are the wheel's own hERG column to 5e-7."""
    members = [np.concatenate([herg_hundred.run(m, b) for b in range(2)]) for m in range(5)]
    published = herg.published_scores()
    expected = np.array([published[i] for i in herg_candidates(100).ids])
    assert np.abs(np.mean(members, axis=0, dtype=np.float64) - expected).max() <= 5e-7
