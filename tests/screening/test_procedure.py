"""The whole procedure on a small real ensemble: hold, verify, recompute, restore, commit."""

import csv

import pytest

from veristate.core import InputError, RefusedError
from veristate.ledger import Ledger

FAULT = {"inject": "case2", "seed": 3}


def brute_force(result, table):
    """The decisions by sorting the certified scores in Python, not with the project's rules."""
    scores = dict(zip(result.scores.ids, result.scores.certified, strict=True))
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    return sorted(ranked[: len(scores) // 5]), sorted(name for name in scores if scores[name] >= 0.5)


def committed_entries(home):
    """The journal's entries of committed actions."""
    with Ledger.open(home / "ledger.sqlite") as ledger:
        ledger.require()
        return [entry for entry in ledger.entries() if entry.kind == "action.committed"]


def test_a_budget_below_the_work_commits_nothing_and_says_why(screen, tmp_path):
    """Checks that passed bound no score: without recomputation there is no certificate."""
    result = screen(budget=10, **FAULT)
    assert not result.committed
    assert result.certificate is None
    assert result.decisions is None
    assert "budget of 10" in result.story.steps[-1]
    assert not committed_entries(tmp_path / "home")


def test_scores_that_are_no_probabilities_are_an_input_error(screen, tmp_path):
    """A predictor that leaves [0, 1] is refused by name of the candidates, and nothing is committed."""
    with pytest.raises(InputError, match=r"not (a )?probabilit|\[0, 1\]"):
        screen(predictor=("tiny:not_probabilities",))
    assert not committed_entries(tmp_path / "home")


def test_an_agent_that_deviates_is_refused(screen, tmp_path):
    """The gateway compares with the certified decision and never edits the proposal."""
    result = screen(agent="tiny:greedy")
    assert not result.committed
    assert result.story.refused == ("decision deviates",)
    assert not committed_entries(tmp_path / "home")


def test_a_request_id_stands_for_one_content(screen):
    """The same id with other rules is refused, not answered with the old result."""
    assert screen(request_id="lab-1").committed
    with pytest.raises(RefusedError, match="lab-1"):
        screen(request_id="lab-1", top=5)


def test_a_healthy_run_commits_what_sorting_gives(screen, table):
    """The committed decisions are those of a plain sort over the certified scores; no value was wrong."""
    result = screen(compare=True)
    selected, tested = brute_force(result, table)
    content = result.to_json()
    assert content["committed"]
    assert content["selected"] == selected
    assert content["tested"] == tested
    assert content["wrong_values"] == content["flags"] == 0
    assert content["reference_match"] is True
    assert content["changed"] == []
    assert content["recomputed_units"] == 390
    wanted = "candidates members dtype device injected coverage flags flagged_units recomputed_units selected tested "
    assert set((wanted + "certificate committed journal_head seconds").split()) <= set(content)


@pytest.mark.parametrize("recovery", ["hold", "restore"])
@pytest.mark.parametrize("agent", ["keeps", "rereads"])
def test_a_faulty_pass_ends_in_the_healthy_decision(screen, recovery, agent):
    """Before the read and after state restoration, both controllers commit what a healthy run commits."""
    healthy = screen(request_id="healthy")
    result = screen(recovery=recovery, agent=agent, compare=True, request_id="faulty", **FAULT)
    assert result.checks["flagged"] > 0
    assert result.wrong_values > 0
    assert result.committed
    assert [d.chosen for d in result.decisions] == [d.chosen for d in healthy.decisions]
    assert result.story.restored == (recovery == "restore")
    assert result.story.read_unverified == (recovery == "restore")


@pytest.mark.parametrize(("agent", "committed"), [("keeps", False), ("rereads", True)])
def test_file_replacement_helps_only_who_reads_again(screen, agent, committed):
    """An action prepared on the superseded view is refused, also where it happens to match."""
    result = screen(recovery="replace", agent=agent, **FAULT)
    assert result.committed is committed
    assert ("view superseded" in result.story.refused) is not committed
    assert not result.story.restored


def test_a_healthy_run_needs_no_restoration(screen):
    """Values that were shown at once and certified as they were are not replaced, whatever the condition."""
    for recovery in ("replace", "restore"):
        result = screen(recovery=recovery, request_id=recovery)
        assert result.committed
        assert not result.story.restored


def test_the_same_request_is_committed_once(screen, tmp_path):
    """Asking again certifies again and commits nothing new; a fault on the way changes nothing."""
    first, second = screen(), screen(recovery="restore", **FAULT)
    assert first.committed
    assert not second.committed
    assert second.committed_earlier
    assert second.story.refused == ("already committed",)
    assert [d.chosen for d in second.decisions] == [d.chosen for d in first.decisions]
    assert len(committed_entries(tmp_path / "home")) == 1


@pytest.mark.parametrize(("policy", "stages"), [("full", ["all"]), ("r1", ["flagged"]), ("r1m", ["flagged", "margin"])])
def test_every_policy_ends_in_full_recomputation(screen, policy, stages):
    """R1 and R1+M only say what comes first; the commit rests on everything being recomputed."""
    result = screen(policy=policy, epsilon=0.05 if policy == "r1m" else None, **FAULT)
    assert [round_.reason for round_ in result.recomputations][: len(stages)] == stages
    assert result.recomputed_units == 390
    assert result.committed
    assert result.certificate.certifies == "values"


def test_r1m_without_an_epsilon_names_the_command_that_sets_it(screen):
    """Before anything is computed."""
    with pytest.raises(InputError, match="veristate calibrate"):
        screen(policy="r1m")


def test_the_view_holds_certified_columns_and_names_what_it_dropped(screen, tmp_path):
    """The agent's table has no name and no SMILES: nothing certifies them."""
    from veristate.screening.running.home import open_home

    result = screen()
    with open_home(tmp_path / "home", lambda: "now") as home:
        view = home.ledger.gateway.current_view(result.request_id)
        lines = home.store.get(view.table).decode().splitlines()
    assert view.dropped == ("name", "smiles")
    assert next(csv.reader(lines[:1])) == ["id", "score", "member_0", "member_1", "member_2"]
    assert [float(row[1]) for row in csv.reader(lines[1:])] == list(result.scores.certified)


def test_a_fault_that_gives_nan_is_found_and_repaired(screen, monkeypatch):
    """A suspect device that returns NaN is flagged, its table is shown to nobody, the decision is the healthy one."""
    import numpy as np

    from veristate.devices.faults.model import Patch

    class Nan:
        def patch(self, site, Y, rng):
            return Patch(rows=np.array([0]), columns=np.array([0]), values=np.array([[np.nan]], dtype=np.float32))

    import veristate.screening.procedure as procedure
    from veristate.devices import FaultModel

    monkeypatch.setattr(procedure, "fault_named", lambda name, seed: FaultModel(name=name, fault=Nan(), seed=seed))
    result = screen(inject="nan", recovery="restore")
    assert result.checks["flagged"] > 0
    assert not result.story.read_unverified
    assert result.decisions_before is None
    assert result.committed
