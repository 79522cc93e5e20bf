"""Contracts of a screening: exact ones certify decisions over intervals or refuse, and every record says which."""

import csv
import json

import pytest

from veristate.core import EnvironmentUnusableError, InputError, RefusedError
from veristate.decisions import Box
from veristate.interfaces.cli.wording import summary_lines
from veristate.interfaces.report import render_report
from veristate.ledger import Ledger
from veristate.screening import ScreeningOptions
from veristate.screening.cases import herg
from veristate.screening.running.recovery import MemoisedRecomputer
from veristate.screening.scoretable import IntervalTable

COUNT = 70


def test_exact_arithmetic_of_models_that_can_not_be_followed_is_refused(screen, tmp_path):
    """Bits are no exact values: another contract is never met in silence, and nothing is opened or committed."""
    with pytest.raises(InputError, match=r"factory.*--contract device"):
        screen(contract="exact")
    with Ledger.open(tmp_path / "home" / "ledger.sqlite") as ledger:
        assert not [entry for entry in ledger.entries() if entry.kind != "contract.recorded"]


def test_a_device_run_says_its_contract_and_why_it_recomputes_in_full(screen):
    """Asked for memoised bits, a factory's models are recomputed in full, with the reason."""
    result = screen(strategy="memo")
    content = result.to_json()
    assert result.committed
    assert (content["contract"], content["delta"], content["certifies"]) == ("C2", "0", "values")
    assert content["strategy"] == "full"
    assert "factory" in content["strategy_reason"]
    assert "intervals" not in content
    assert "factory" in "\n".join(summary_lines(result))
    assert result.certificate.evidence["strategy"] == "full"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delta": "0"}, "--delta 0"),
        ({"delta": "one"}, "--delta one"),
        ({"delta": "0.6", "contract": "exact"}, "at most 0.5"),
        ({"delta": "1e-6"}, "belongs to --contract exact"),
        ({"contract": "exact", "recovery": "restore"}, "--recovery restore"),
        ({"contract": "exact", "policy": "r1"}, "--policy r1"),
        ({"strategy": "memo", "policy": "r1"}, "--strategy full"),
    ],
)
def test_options_that_do_not_fit_together_are_named(changes, said):
    """Before anything is read."""
    with pytest.raises(InputError, match=said):
        ScreeningOptions(**changes)


def test_a_table_of_intervals_shows_its_ends_and_ranks_by_the_lower():
    """No third number stands in it."""
    table = IntervalTable.of(("a", "b"), Box(lower=[0.25, 0.5], upper=[0.375, 0.75]))
    rows = list(csv.reader(table.to_csv().decode().splitlines()))
    assert rows == [["id", "score", "score_lower", "score_upper"], ["a", "0.25", "0.25", "0.375"], *rows[2:]]
    assert rows[2] == ["b", "0.5", "0.5", "0.75"]


def test_memoised_values_that_are_missing_are_not_made_up():
    """The trusted process gave none."""

    class Told:
        values = None

    with pytest.raises(EnvironmentUnusableError, match="every value"):
        MemoisedRecomputer(Told, ("a",)).everything((1, 1))


@pytest.fixture
def slice_of_herg(screen, tmp_path):
    """Runs a slice of the built-in table through its first member."""
    try:
        source = herg.herg_table()
    except EnvironmentUnusableError as error:
        pytest.skip(str(error))
    path = tmp_path / "slice.csv"
    path.write_text("".join(source.read_text(encoding="utf-8").splitlines(keepends=True)[: COUNT + 1]))
    member = str(herg.herg_files().members[0])
    given = {"table": path, "predictor": (member,), "digests": herg.MEMBER_DIGESTS[:1], "output": herg.OUTPUT}
    return lambda **changes: screen(**given | {"contract": "exact"} | changes)


def entries(home):
    """The journal's entries by kind, the last of each."""
    with Ledger.open(home / "ledger.sqlite") as ledger:
        ledger.require()
        return {entry.kind: entry.content for entry in ledger.entries()}


def test_a_faulty_pass_is_certified_exactly_and_every_record_says_so(slice_of_herg, tmp_path):
    """Kind, delta and what is certified stand in certificate, journal, JSON, text and report; decisions are those of
    double precision, which evaluates everything.
    """
    found = slice_of_herg(strategy="probes", delta="1e-6", inject="case2", seed=3, request_id="probed")
    certificate, content = found.certificate, json.loads(json.dumps(found.to_json()))
    assert (certificate.contract_kind, certificate.delta, certificate.certifies) == ("C1", "1e-6", "decisions")
    assert (content["contract"], content["delta"], content["strategy"]) == ("C1", "1e-6", "probes")
    assert content["certifies"] == ("decisions" if found.certificate else None)
    assert len(content["intervals"]) == COUNT
    assert all(low <= high for low, high in content["intervals"].values())
    assert "delta 1e-6" in "\n".join(summary_lines(found))
    page = render_report(found)
    assert "1e-6" in page
    assert "the decisions, not the score values" in page
    kept = entries(tmp_path / "home")["certification.finished"]
    assert (kept["contract_kind"], kept["delta"], kept["ended"]) == ("C1", "1e-6", "certified")
    assert int(certificate.evidence["units_recomputed"]) == kept["units"] == found.recomputed_units < COUNT
    everything = slice_of_herg(strategy="memo", request_id="evaluated")
    assert everything.committed
    assert everything.certificate.certifies == "values"
    assert [d.chosen for d in certificate.decisions] == [d.chosen for d in everything.certificate.decisions]


def test_a_table_that_repeats_its_molecules_is_certified(slice_of_herg, tmp_path):
    """Each of three twice, and the list ends between two equal ones: the identifier decides."""
    smiles = ("CCO", "c1ccncc1", "CC(=O)OC")
    table = tmp_path / "twice.csv"
    rows = [f"{name},{smiles[i % 3]}" for i, name in enumerate("fedcba")]
    table.write_text("\n".join(["id,smiles", *rows, ""]))
    found = slice_of_herg(table=table, top=3, strategy="probes", request_id="twice")
    (chosen,) = (decision.chosen for decision in found.certificate.decisions if decision.rule.kind == "top_k")
    pairs = [{"c", "f"}, {"b", "e"}, {"a", "d"}]
    assert sum(pair <= set(chosen) for pair in pairs) == 1
    assert sum(min(pair) in chosen and max(pair) not in chosen for pair in pairs) == 1
    lower = {name: ends[0] for name, ends in found.to_json()["intervals"].items()}
    assert all(len({lower[name] for name in pair}) == 1 for pair in pairs)


def test_rounded_layers_are_certified_value_by_value_the_same_in_every_batch(slice_of_herg, tmp_path):
    """C3 in bf16: the certified table is no device's bits: batches and faults don't move it; every record says so.

    Probes can't see layers that hand over rounded rows, so memoised values are taken, with the reason.
    """
    found = slice_of_herg(contract="rounded", dtype="bf16", strategy="probes", request_id="rounded")
    content = found.to_json()
    assert "before rounding" in content["strategy_reason"]
    assert (content["contract"], content["delta"], content["certifies"]) == ("C3", "0", "values")
    assert (found.certificate.contract_kind, content["strategy"], found.committed) == ("C3", "memo", True)
    assert "rounded correctly" in "\n".join(summary_lines(found))
    assert "correctly rounded layers" in render_report(found)
    assert "--contract rounded" in render_report(found)
    other = slice_of_herg(
        contract="rounded", dtype="bf16", strategy="full", batch=17, inject="case2", seed=3, request_id="again"
    )
    assert other.certificate.table == found.certificate.table


def test_whole_numbers_are_refused_for_models_in_real_ones(slice_of_herg, screen):
    """C4 with its reason; and nothing of C3 or C4 is met in silence for models that can't be followed."""
    with pytest.raises(RefusedError, match="real numbers"):
        slice_of_herg(contract="integer")
    with pytest.raises(InputError, match=r"--contract rounded.*--contract device"):
        screen(contract="rounded")


@pytest.mark.soak
@pytest.mark.parametrize("fault", [{}, {"inject": "case1", "seed": 1}, {"inject": "case2", "seed": 7}])
def test_exact_passes_under_faults_are_right_or_refused(slice_of_herg, fault):
    """Also when one unit is all that may be recomputed: then nothing is certified and nothing is committed."""
    truth = [d.chosen for d in slice_of_herg(strategy="full", request_id="truth").certificate.decisions]
    free = slice_of_herg(request_id="free", **fault)
    tight = slice_of_herg(budget=1, request_id="tight", **fault)
    assert [d.chosen for d in free.certificate.decisions] == truth
    assert tight.recomputed_units <= 1
    if tight.certificate is None:
        assert not tight.committed
        assert "budget of 1" in tight.story.steps[-1]
    else:
        assert [d.chosen for d in tight.certificate.decisions] == truth
