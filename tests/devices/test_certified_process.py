"""Certified passes through the trusted process: what a suspect device hands over is fixed there, checked or refused."""

from pathlib import Path

import numpy as np
import pytest
from device_cases import herg, herg_candidates, herg_spec, tiny_candidates, tiny_spec

from veristate.core import EnvironmentUnusableError, InputError, RefusedError, Rule
from veristate.decisions import Box, Question, decide, ensemble_mean
from veristate.decisions.enclosures import Terms, Wanted
from veristate.devices import PredictorSpec, TrustedExecutor, fault_named, load_predictor
from veristate.devices.certified import TrustedSide
from veristate.devices.trusted import Certification, RowsAsked, no_export, run_exported

COUNT = 70
PROBES = Wanted(strategy="probes")


@pytest.fixture(scope="module")
def spec() -> PredictorSpec:
    """Two pinned members."""
    candidates = herg_candidates(1)
    assert len(candidates.ids) == 1
    paths = tuple(map(str, herg.herg_files().members))[:2]
    return herg_spec(members=paths, digests=herg.MEMBER_DIGESTS[:2])


@pytest.fixture(scope="module")
def suspect(spec):
    """The suspect's predictor over two batches, the second a short one."""
    return load_predictor(spec, herg_candidates(COUNT))


@pytest.fixture(scope="module")
def process(spec):
    """One trusted process of them."""
    with TrustedExecutor(spec, herg_candidates(COUNT)) as executor:
        yield executor


@pytest.fixture(scope="module")
def question():
    """Top fourteen, and the threshold."""
    rules = (Rule(kind="top_k", count=14), Rule(kind="threshold", threshold="0.5"))
    return Question(rules=rules, ids=herg_candidates(COUNT).ids)


@pytest.fixture(scope="module")
def exact(suspect):
    """Enclosures of all exact values, evaluated in this process."""
    return TrustedSide.of(suspect).everything()


@pytest.fixture(scope="module")
def truth(question, exact):
    """The decisions of the exact values."""
    scores = ensemble_mean((exact.lower + exact.upper) / 2, 1.0)
    return tuple(decide(rule, scores, question.ids) for rule in question.rules)


def decisions(question, told):
    """The decisions at both ends of the enclosures: a certified rule takes one value on all of them."""
    ends = [ensemble_mean(end, 1.0) for end in (told.box.lower, told.box.upper)]
    found = [tuple(decide(rule, end, question.ids) for rule in question.rules) for end in ends]
    assert found[0] == found[1]
    return found[0]


def holds(told, exact):
    """Whether no enclosure misses what FP64 proves."""
    return bool(((told.box.lower <= exact.upper) & (exact.lower <= told.box.upper)).all())


@pytest.mark.parametrize("fault", [None, ("case1", 1), ("case2", 7), ("case2", 3)])
def test_a_pass_is_certified_to_the_exact_decisions_whatever_the_device_did(
    process, suspect, question, exact, truth, fault
):
    """Both classes of faults act on the suspect's calls; enclosures hold, decisions are those of exact arithmetic."""
    assert process.plan(PROBES).strategy == "probes"
    model = fault_named(*fault) if fault else None
    done = run_exported(suspect, process, question, PROBES, fault=model)
    told = done.certification
    assert (told.ended, told.terms) == ("certified", Terms(kind="C1", delta="1e-9", certifies="decisions"))
    assert holds(told, exact)
    assert decisions(question, told) == truth
    assert told.rows_checked == sum(int(record["rows"]) for record in told.records) > 1000
    assert done.scores.shape == exact.lower.shape
    if fault is None:
        assert told.done.sum() <= 2


@pytest.mark.parametrize("size", [0.01, 4.0, float("nan")])
def test_rows_changed_on_their_way_are_evaluated_and_change_no_decision(
    process, suspect, question, exact, truth, size, monkeypatch
):
    """Pairs that cancel in every row sum, and NaN, written into the shared memory after the run."""
    from veristate.devices import certified

    real = certified.run_exporting

    def spoiling(*given, **more):
        scores = real(*given, **more)
        for rows in given[3].rows.values():
            rows[5:40, 17] += np.float32(size)
            rows[5:40, 201] -= np.float32(size)
        return scores

    monkeypatch.setattr(certified, "run_exporting", spoiling)
    process.plan(PROBES)
    told = run_exported(suspect, process, question, PROBES).certification
    assert told.ended == "certified"
    assert told.evaluated >= 2 * 2 * 35 * 300
    assert holds(told, exact)
    assert decisions(question, told) == truth


def test_a_budget_is_kept_and_leaves_the_decision_open(process, suspect, question):
    """Two probes bound nothing, and a round that would pass it is not begun; what needs every unit is not chosen."""
    wanted = Wanted(budget=1, draws=2)
    assert process.plan(wanted).strategy == "probes"
    told = run_exported(suspect, process, question, wanted, fault=fault_named("case2", 3)).certification
    assert told.ended == "budget"
    assert told.done.sum() <= 1
    with pytest.raises(RefusedError, match="budget is 1"):
        process.plan(Wanted(budget=1, values=True))


def test_what_is_not_the_device_s_to_say_is_refused(process, suspect, question, monkeypatch):
    """Scores of other candidates, stale weights, rows of another shape; the process answers the next request."""

    def answer(scores, weights):
        process.plan(PROBES)
        process.certify(question, PROBES, lambda asked, rooms: (scores, weights))

    with pytest.raises(EnvironmentUnusableError, match="gave 3 scores"):
        answer(np.zeros(3, np.float32), "")
    with pytest.raises(InputError, match="stale"):
        answer(np.zeros(COUNT, np.float32), "f" * 64)
    process.plan(PROBES)
    with pytest.raises(EnvironmentUnusableError, match="not planned"):
        process.certify(question, PROBES, no_export)


def test_without_a_plan_nothing_is_certified():
    """And models of a factory are recomputed in full, with the reason, where Chemprop may be missing."""
    rules = (Rule(kind="top_k", count=1),)
    with TrustedExecutor(tiny_spec(), tiny_candidates(4)) as executor:
        planned = executor.plan(PROBES)
        assert (planned.strategy, planned.followed, planned.predicted) == ("full", False, None)
        assert "factory" in planned.reason
        assert "rdkit" not in Path(f"/proc/{executor.pid}/maps").read_text()
        with pytest.raises(InputError, match="planned before"):
            executor.certify(Question(rules=rules, ids=tiny_candidates(4).ids), PROBES, no_export)


def test_memoised_values_are_the_bits_of_a_recomputation_in_full(process, question, exact):
    """Under C2 float by float; under C1 every value is enclosed in FP64."""
    wanted = Wanted(kind="C2", strategy="memo")
    assert process.plan(wanted).strategy == "memo"
    told = process.certify(question, wanted, no_export)
    groups = [(member, batch) for member in range(2) for batch in range(2)]
    done = process.recompute(groups)
    full = np.stack([np.concatenate([done[m, b] for b in range(2)]) for m in range(2)])
    assert told.strategy == "memo"
    assert told.values.tobytes() == full.tobytes()
    wanted = Wanted(strategy="memo")
    process.plan(wanted)
    told = process.certify(question, wanted, no_export)
    assert told.terms == Terms(kind="C1", delta="0", certifies="values")
    assert holds(told, exact)
    assert (told.box.upper - told.box.lower).max() < 1e-6


def test_messages_come_back_as_they_were():
    """Of both directions, arrays bit by bit."""
    rng = np.random.default_rng(3)
    places = {"a2": np.array([0, 4, 9]), "o": np.array([], dtype=np.intp)}
    asked = RowsAsked(member=1, batches=range(2, 5), depth=3, places=places, widths={"a2": 7, "o": 5})
    again = RowsAsked.from_message(*asked.to_message())
    assert (again.member, again.batches, again.depth, again.shapes) == (1, range(2, 5), 3, {"a2": (3, 7), "o": (0, 5)})
    assert again.size == 84
    assert all(np.array_equal(again.places[name], places[name]) for name in places)
    lower = rng.random((2, 3))
    told = Certification(
        strategy="probes",
        reason="cheap",
        terms=Terms(kind="C1", delta="1e-9", certifies="decisions"),
        predicted=0.5,
        spent=0.25,
        rows_checked=7,
        records=({"seed": "ab"},),
        ended="certified",
        rounds=(((1, 2), 3),),
        box=Box(lower=lower, upper=lower + 0.1),
        done=lower > 0.5,
        values=None,
        evaluated=11,
    )
    back = Certification.from_message(*told.to_message())
    assert (back.terms, back.rounds, back.records, back.values) == (told.terms, told.rounds, told.records, None)
    assert np.array_equal(back.box.lower, lower)
    assert np.array_equal(back.done, told.done)
    assert back.evaluated == 11
