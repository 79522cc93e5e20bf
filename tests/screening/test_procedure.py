"""The whole procedure on a small real ensemble: hold, verify, recompute, restore, commit."""

import csv
import shutil

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


def kinds(home):
    """The kinds of the journal's entries, in order."""
    with Ledger.open(home / "ledger.sqlite") as ledger:
        ledger.require()
        return [entry.kind for entry in ledger.entries()]


@pytest.mark.parametrize("recovery", ["hold", "restore"])
def test_what_can_not_be_kept_refuses_the_release_by_name(screen, tmp_path, recovery):
    """An agent with an open file among its variables is shown nothing: it could not be taken back."""
    with pytest.raises(RefusedError, match="handle"):
        screen(agent="tiny:hoarder", recovery=recovery, **FAULT)
    found = kinds(tmp_path / "home")
    assert "release.refused" in found
    assert "view.released" not in found
    assert "action.committed" not in found


@pytest.mark.parametrize(
    ("agent", "reason"), [("tiny:talkative", "decision deviates"), ("tiny:silent", "decision deviates")]
)
def test_a_proposal_that_says_more_or_less_than_asked_is_refused_whole(screen, tmp_path, agent, reason):
    """Nothing of the proposal is dropped or filled in: what the journal holds is what the agent said."""
    result = screen(agent=agent)
    assert result.story.refused == (reason,)
    with Ledger.open(tmp_path / "home" / "ledger.sqlite") as ledger:
        refused = [e.content["action"] for e in ledger.entries() if e.kind == "action.refused"]
    said = {decision["rule"]["kind"] for decision in refused[0]["decisions"]}
    assert said == ({"top_k", "threshold", "also"} if agent == "tiny:talkative" else {"top_k"})


def test_an_action_under_another_requests_name_is_refused(screen):
    """The gateway judges the request the agent named."""
    assert screen(agent="tiny:Stranger").story.refused == ("request unknown",)


@pytest.mark.parametrize("recovery", ["hold", "restore"])
def test_an_agent_that_fails_is_named(screen, tmp_path, recovery):
    """What it failed on unverified scores is only noted; on certified ones it ends the run with nothing committed."""
    with pytest.raises(InputError, match=r"broken.*nothing works"):
        screen(agent="tiny:broken", recovery=recovery, **FAULT)
    assert not committed_entries(tmp_path / "home")


def test_an_agent_object_that_read_discarded_values_is_not_used_again(screen, ran):
    """State restoration makes the agent anew: what it kept outside the session is gone too."""
    healthy, _ = ran()
    result = screen(agent="tiny:Memoriser", recovery="restore", inject="case2", seed=0)
    assert result.changes
    assert result.committed
    assert [d.chosen for d in result.decisions] == [d.chosen for d in healthy.decisions]


@pytest.fixture
def healthy_home(ran, tmp_path):
    """A healthy run, and the home in which it was made, as a copy that the next run works in."""
    result, home = ran()
    return result, shutil.copytree(home, tmp_path / "home")


@pytest.mark.parametrize("part", ["table", "decisions"])
def test_a_certificate_that_contradicts_an_earlier_one_is_a_proven_fault(screen, healthy_home, part):
    """One contract has one table: if two are certified for a request, nothing is committed and nothing is hidden."""
    import dataclasses

    from veristate.core import Decision, FaultProvenError

    first, home = healthy_home
    with Ledger.open(home / "ledger.sqlite") as ledger:
        request = ledger.gateway.request(first.request_id)
        ledger.gateway.open_request(dataclasses.replace(request, request_id="r2"))
        wrong = tuple(Decision(rule=rule, chosen=("c000",)) for rule in request.rules)
        change = {"table": {"table": "f" * 64}, "decisions": {"decisions": wrong}}[part]
        ledger.gateway.certify(dataclasses.replace(first.certificate, request_id="r2", **change))
    with pytest.raises(FaultProvenError, match="r2"):
        screen(request_id="r2")
    assert kinds(home)[-1] == "certificate.contradicted"
    assert len(committed_entries(home)) == 1


def test_a_hooked_layer_is_not_judged_by_its_changed_output(screen):
    """A hook of the user's that scales a layer's output is part of the model: not watched, and no fault."""
    result = screen(predictor=("tiny:hooked",))
    assert result.committed
    assert result.checks["flagged"] == 0
    assert result.coverage < 1


def test_the_certified_scores_are_those_of_a_hand_written_forward(ran, table):
    """Each candidate's mean is torch's own for that row, whatever its batch: no score is misplaced."""
    import numpy as np
    import tiny
    import torch

    result, _ = ran(**FAULT)
    with table.open(newline="") as file:
        inputs = [row["smiles"] for row in csv.DictReader(file)]
    made = tiny.make(inputs)
    with torch.inference_mode():
        members = np.stack([torch.sigmoid(model(made.features))[:, 0].numpy() for model in made.models])
    assert np.abs(members.astype(np.float64).mean(0) - np.array(result.scores.certified)).max() < 1e-6


def test_the_nearest_rule_and_bf16_go_the_whole_way(screen):
    """Three rules at once in bfloat16: the third chooses the scores nearest to the threshold."""
    result = screen(dtype="bf16", nearest=7, threshold=0.4)
    scores = dict(zip(result.scores.ids, result.scores.certified, strict=True))
    nearest = sorted(scores, key=lambda name: (abs(scores[name] - 0.4), name))[:7]
    assert result.committed
    assert result.to_json()["nearest"] == sorted(nearest)
    assert result.checks["flagged"] == 0


def test_a_request_id_stands_for_one_content(screen, healthy_home):
    """The same id with other rules is refused, not answered with the old result."""
    first, _ = healthy_home
    assert first.committed
    with pytest.raises(RefusedError, match=first.request_id):
        screen(request_id=first.request_id, top=5)


def test_a_healthy_run_commits_what_sorting_gives(ran, table):
    """The committed decisions are those of a plain sort over the certified scores; no value was wrong."""
    result, _ = ran()
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
def test_a_faulty_pass_ends_in_the_healthy_decision(ran, recovery, agent):
    """Before the read and after state restoration, both controllers commit what a healthy run commits."""
    healthy, _ = ran()
    result, _ = ran(recovery=recovery, agent=agent, **FAULT)
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


def test_a_healthy_run_needs_no_restoration(ran):
    """Values that were shown at once and certified as they were are not replaced, whatever the condition."""
    for recovery in ("replace", "restore"):
        result, _ = ran(recovery=recovery)
        assert result.committed
        assert not result.story.restored


def test_the_same_request_is_committed_once(screen, healthy_home):
    """Asking again certifies again and commits nothing new; a fault on the way changes nothing."""
    first, home = healthy_home
    second = screen(recovery="restore", **FAULT)
    assert first.committed
    assert not second.committed
    assert second.committed_earlier
    assert second.story.refused == ("already committed",)
    assert [d.chosen for d in second.decisions] == [d.chosen for d in first.decisions]
    assert len(committed_entries(home)) == 1


@pytest.mark.parametrize(("policy", "stages"), [("full", ["all"]), ("r1", ["flagged"]), ("r1m", ["flagged", "margin"])])
def test_every_policy_ends_in_full_recomputation(ran, policy, stages):
    """R1 and R1+M only say what comes first; the commit rests on everything being recomputed."""
    result, _ = ran(policy=policy, epsilon=0.05 if policy == "r1m" else None, **FAULT)
    assert [round_.reason for round_ in result.recomputations][: len(stages)] == stages
    assert result.recomputed_units == 390
    assert result.committed
    assert result.certificate.certifies == "values"


def test_r1m_without_an_epsilon_names_the_command_that_sets_it(screen):
    """Before anything is computed."""
    with pytest.raises(InputError, match="veristate calibrate"):
        screen(policy="r1m")


def test_the_view_holds_certified_columns_and_names_what_it_dropped(ran):
    """The agent's table has no name and no SMILES: nothing certifies them."""
    from veristate.screening.running.home import open_home

    result, folder = ran()
    with open_home(folder, lambda: "now") as home:
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
