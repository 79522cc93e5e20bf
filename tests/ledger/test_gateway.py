"""The gateway: it commits what is certified and agrees, once, and gives every reason when it does not."""

import dataclasses
import itertools
import os
import random
import sqlite3
import threading

import pytest

from veristate.core import Decision, InputError, RefusedError, Rule, TamperError
from veristate.ledger import FindingKind, Ledger, Reason


def kinds(ledger):
    """The kinds of all entries, in order."""
    return [entry.kind for entry in ledger.entries()]


def test_an_unknown_request_is_refused(ledger, case):
    """An action for a request that was never opened is refused for that reason, and journaled."""
    outcome = ledger.gateway.commit(case.action)
    assert (outcome.committed, outcome.reasons, outcome.earlier) == (False, (Reason.REQUEST_UNKNOWN,), None)
    assert kinds(ledger) == ["action.refused"]
    assert ledger.gateway.committed("r1") is None


@pytest.mark.parametrize("step", ["release_view", "certify"])
def test_views_and_certificates_need_an_open_request(ledger, case, step):
    """A view or certificate for a request that was never opened is RefusedError, and not journaled."""
    with pytest.raises(RefusedError, match="no request 'r1' is open"):
        getattr(ledger.gateway, step)(case.view if step == "release_view" else case.certificate)
    assert kinds(ledger) == []


def test_a_request_id_stands_for_one_request(ledger, case):
    """The same request again changes nothing; the same id with other content is refused, never answered."""
    assert ledger.gateway.open_request(case.request).kind == "request.opened"
    assert ledger.gateway.open_request(case.request) is None
    case.propose(ledger)
    other = dataclasses.replace(case.request, contract="d" * 64)
    with pytest.raises(RefusedError, match="'r1' stands for another request"):
        ledger.gateway.open_request(other)
    assert kinds(ledger).count("request.opened") == 1
    assert ledger.gateway.request("r1") == case.request


@pytest.mark.parametrize("rules", [(), (Rule(kind="top_k", count=1), Rule(kind="top_k", count=1))])
def test_a_request_without_rules_or_with_one_twice_is_refused(ledger, case, rules):
    """Where nothing is asked, nothing can be committed."""
    with pytest.raises(InputError, match="at least one rule"):
        ledger.gateway.open_request(dataclasses.replace(case.request, rules=rules))


DEFECTS = {
    Reason.CONTRACT_DIFFERS: {"action": {"contract": "d" * 64}},
    Reason.VIEW_CONTRACT_DIFFERS: {"view": {"contract": "d" * 64}},
    Reason.VIEW_NOT_CERTIFIED: {"view": {"table": "f" * 64}},
    Reason.CERTIFICATE_CONTRACT_DIFFERS: {"certificate": {"contract": "d" * 64}},
}


def test_every_reason_is_given_whatever_the_others(ledger, another_case):
    """For every combination of defects, made independently of one another, exactly their reasons are given."""
    number = itertools.count()
    coin = random.Random(3)
    switches = itertools.product([False, True], repeat=len(DEFECTS))
    for chosen, view, decision in itertools.product(switches, ["current", "superseded", "unknown"], [False, True]):
        before = coin.random() < 0.5
        good = case = another_case(f"r{next(number)}")
        expected = {reason for reason, on in zip(DEFECTS, chosen, strict=True) if on}
        if before:
            assert good.propose(ledger).committed
            expected.add(Reason.ALREADY_COMMITTED)
        for reason in expected & set(DEFECTS):
            case = case.change(**{k: v for k, v in DEFECTS[reason].items() if k != "action"})
        action = dataclasses.replace(case.action, view=case.view.digest)
        if Reason.CONTRACT_DIFFERS in expected:
            action = dataclasses.replace(action, contract="d" * 64)
        if decision:
            action = dataclasses.replace(action, decisions=action.decisions[:1])
            expected.add(Reason.DECISION_DEVIATES)
        ledger.gateway.open_request(case.request)
        if view == "superseded":
            stale = dataclasses.replace(case.view, fields=("stale",))
            ledger.gateway.release_view(stale)
            action = dataclasses.replace(action, view=stale.digest)
            expected.add(Reason.VIEW_SUPERSEDED)
        if view == "unknown":
            action = dataclasses.replace(action, view="9" * 64)
            expected.add(Reason.VIEW_UNKNOWN)
        ledger.gateway.release_view(case.view)
        ledger.gateway.certify(case.certificate)
        outcome = ledger.gateway.commit(action)
        assert set(outcome.reasons) == expected
        assert outcome.committed == (not expected)
    assert ledger.verify() == ()


def test_without_a_certificate_nothing_is_committed(ledger, case):
    """A view that calls itself certified is not, while there is no certificate."""
    ledger.gateway.open_request(case.request)
    assert ledger.gateway.commit(case.action).reasons == (Reason.VIEW_UNKNOWN, Reason.CERTIFICATE_MISSING)
    ledger.gateway.release_view(case.view)
    assert ledger.gateway.commit(case.action).reasons == (Reason.VIEW_NOT_CERTIFIED, Reason.CERTIFICATE_MISSING)


def test_a_view_of_another_table_is_not_certified(ledger, case):
    """The certificate speaks of one table; a view of another one is not what it certifies."""
    changed = case.change(view={"table": "8" * 64})
    assert changed.propose(ledger).reasons == (Reason.VIEW_NOT_CERTIFIED,)


def test_a_certificate_of_decisions_certifies_the_view_of_its_table(ledger, case):
    """Where decisions alone are certified the table is one of intervals: a view of it carries the action, of another
    one it does not.
    """
    decisions = case.change(certificate={"certifies": "decisions", "delta": "1e-9"})
    other = decisions.change(view={"table": "8" * 64})
    assert other.propose(ledger).reasons == (Reason.VIEW_NOT_CERTIFIED,)
    assert decisions.propose(ledger).committed


def test_a_view_of_another_request_is_unknown(ledger, case, another_case):
    """A view released for one request can't carry an action of another."""
    other = another_case("r2")
    assert other.propose(ledger).committed
    case.prepare(ledger)
    action = dataclasses.replace(case.action, view=other.view.digest)
    assert ledger.gateway.commit(action).reasons == (Reason.VIEW_UNKNOWN,)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:1],
        lambda d: (),
        lambda d: (d[0], d[0]),
        lambda d: (*d, d[0]),
        lambda d: (dataclasses.replace(d[0], chosen=("a",)), d[1]),
        lambda d: (dataclasses.replace(d[0], chosen=("b", "a")), d[1]),
        lambda d: (dataclasses.replace(d[0], chosen=("a", "b", "b")), d[1]),
        lambda d: (Decision(rule=Rule(kind="top_k", count=3), chosen=("a", "b")), d[1]),
        lambda d: (Decision(rule=d[1].rule, chosen=d[0].chosen), Decision(rule=d[0].rule, chosen=d[1].chosen)),
    ],
)
def test_a_decision_that_deviates_is_refused_as_it_is(ledger, case, change):
    """Missing, doubled, reordered, changed or exchanged choices deviate; the proposal is journaled unedited."""
    changed = case.change(action={"decisions": change(case.action.decisions)})
    outcome = changed.propose(ledger)
    assert outcome.reasons == (Reason.DECISION_DEVIATES,)
    assert outcome.entry.content["digest"] == changed.action.digest
    assert outcome.entry.content["action"]["decisions"] == [
        {"rule": {"kind": d.rule.kind, "count": d.rule.count, "threshold": d.rule.threshold}, "chosen": list(d.chosen)}
        for d in changed.action.decisions
    ]


@pytest.mark.parametrize("change", [lambda d: (), lambda d: d[:1], lambda d: (d[0], d[0])])
def test_a_certificate_that_leaves_a_rule_out_certifies_nothing(ledger, case, change):
    """An action that agrees with an incomplete certificate is refused too."""
    decisions = change(case.certificate.decisions)
    changed = case.change(certificate={"decisions": decisions}, action={"decisions": decisions})
    assert changed.propose(ledger).reasons == (Reason.CERTIFICATE_INCOMPLETE,)


def test_a_damaged_record_stops_the_gateway(ledger, case, raw):
    """When the certificate's bytes were changed, nothing is committed and nothing is journaled."""
    case.prepare(ledger)
    before = kinds(ledger)
    raw("update records set data = cast(replace(cast(data as text), 'C1', 'C2') as blob)")
    with pytest.raises(TamperError, match=case.certificate.digest):
        ledger.gateway.commit(case.action)
    assert kinds(ledger) == before


def test_the_order_of_decisions_is_that_of_the_rules(ledger, case):
    """Decisions given in another order than the rules are the same decisions."""
    changed = case.change(action={"decisions": case.action.decisions[::-1]})
    assert changed.propose(ledger).committed


def test_an_action_is_committed_once(ledger, case):
    """The first agreeing action is committed; the same again, and any other, is refused with the earlier entry."""
    first = case.propose(ledger)
    assert (first.committed, first.reasons, first.earlier) == (True, (), None)
    assert first.entry.kind == "action.committed"
    assert first.entry.content["certificate"] == case.certificate.digest
    again = ledger.gateway.commit(case.action)
    assert (again.committed, again.reasons, again.earlier) == (False, (Reason.ALREADY_COMMITTED,), first.entry)
    assert again.entry.content["reasons"] == ["already committed"]
    assert again.entry.content["earlier"] == first.entry.digest
    assert ledger.gateway.committed("r1") == (first.entry, case.action)
    assert kinds(ledger).count("action.committed") == 1


def test_a_released_view_supersedes_and_may_come_back(ledger, case):
    """The last released view is the current one, the entry names the one before; releasing it again changes nothing."""
    other = dataclasses.replace(case.view, fields=("id",))
    ledger.gateway.open_request(case.request)
    first = ledger.gateway.release_view(case.view)
    assert ledger.gateway.release_view(case.view) == first
    second = ledger.gateway.release_view(other)
    assert (first.content["superseded"], second.content["superseded"]) == (None, case.view.digest)
    assert ledger.gateway.current_view("r1") == other
    third = ledger.gateway.release_view(case.view)
    assert third.content["superseded"] == other.digest
    assert ledger.gateway.current_view("r1") == case.view
    assert len(kinds(ledger)) == 4


def test_an_issued_certificate_supersedes(ledger, case):
    """The last issued certificate decides, also against what an earlier one certified."""
    case.prepare(ledger)
    other = dataclasses.replace(case.certificate, table="8" * 64)
    entry = ledger.gateway.certify(other)
    assert entry.content["superseded"] == case.certificate.digest
    assert ledger.gateway.current_certificate("r1") == other
    assert ledger.gateway.commit(case.action).reasons == (Reason.VIEW_NOT_CERTIFIED,)
    assert ledger.gateway.certify(case.certificate).content["superseded"] == other.digest
    assert ledger.gateway.commit(case.action).committed


def test_of_an_unknown_request_nothing_is_current(ledger):
    """Questions about a request that was never opened are answered with None."""
    gateway = ledger.gateway
    ask = (gateway.request, gateway.current_view, gateway.current_certificate, gateway.committed)
    assert [question("r1") for question in ask] == [None] * 4


@pytest.mark.parametrize("table", ["requests", "views", "certificates", "commitments"])
@pytest.mark.parametrize("harm", ["delete from {}", "update {} set request_id = 'r2'", "update {} set digest = ?"])
def test_the_gateways_tables_are_derived_again(ledger, case, raw, table, harm):
    """A row removed or changed in any table of the gateway, to commit twice for instance, is reported."""
    case.propose(ledger)
    raw(harm.format(table), *([Rule(kind="top_k").digest] if "?" in harm else []))
    found = ledger.verify()
    assert FindingKind.GATEWAY in {finding.kind for finding in found}
    assert all(table in finding.detail for finding in found)


@pytest.mark.parametrize("table", ["requests", "views", "certificates", "commitments"])
def test_a_row_that_no_entry_speaks_of_is_reported(ledger, case, raw, table):
    """A row put into a table of the gateway past our code, where the journal says nothing, is reported."""
    case.prepare(ledger)
    note = ledger.append("note.made", {})
    raw(f"insert into {table} values (?, 'r9', ?)", note.seq, case.view.digest)
    assert [(f.kind, f.seq, f.detail.split()[0]) for f in ledger.verify()] == [(FindingKind.GATEWAY, note.seq, table)]


def test_a_forged_second_commitment_is_reported(ledger, case, raw):
    """When the commitment's row was removed and another action committed, verify names the second one."""
    case.propose(ledger)
    raw("delete from commitments")
    assert ledger.gateway.commit(case.action).committed
    details = [finding.detail for finding in ledger.verify()]
    assert any("a second action.committed for request 'r1'" in detail for detail in details)


def test_the_database_itself_refuses_a_second_commitment(ledger, case, raw):
    """Past all our code, a second row for a request is refused by a UNIQUE constraint."""
    case.propose(ledger)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw("insert into commitments select 1, request_id, digest from commitments")


def test_processes_committing_at_once_commit_once(path, another_case, child):
    """Two processes that propose for the same request at the same moment: exactly one of them commits, every time."""
    rounds = 25
    pipes = [os.pipe() for _ in range(2)]
    start, go = os.pipe()

    def race(ready):
        # Nobody else keeps these ends open, so that whoever waits for a dead process is told.
        for end in {go, *(end for pipe in pipes for end in pipe)} - {ready}:
            os.close(end)
        with Ledger.open(path) as mine:
            for number in range(rounds):
                os.write(ready, b".")
                os.read(start, 1)
                outcome = mine.gateway.commit(another_case(f"r{number}").action)
                os.write(ready, b"1" if outcome.committed else b"0")

    with Ledger.open(path) as ledger:
        for number in range(rounds):
            another_case(f"r{number}").prepare(ledger)
    racers = [child(lambda ready=ready: race(ready)) for _, ready in pipes]
    for end in (start, *(ready for _, ready in pipes)):
        os.close(end)
    winners = []
    for _ in range(rounds):
        assert [os.read(done, 1) for done, _ in pipes] == [b".", b"."]
        os.write(go, b"!!")
        winners.append(sorted(os.read(done, 1) for done, _ in pipes))
    for end in (go, *(done for done, _ in pipes)):
        os.close(end)
    assert [os.waitstatus_to_exitcode(os.waitpid(racer, 0)[1]) for racer in racers] == [0, 0]
    assert winners == [[b"0", b"1"]] * rounds
    with Ledger.open(path) as ledger:
        assert ledger.verify() == ()
        assert kinds(ledger).count("action.committed") == kinds(ledger).count("action.refused") == rounds


def test_threads_committing_at_once_commit_once(ledger, case):
    """Eight threads on one ledger: one commits, seven are told of it."""
    case.prepare(ledger)
    together = threading.Barrier(8)
    outcomes = []

    def propose():
        together.wait()
        outcomes.append(ledger.gateway.commit(case.action))

    threads = [threading.Thread(target=propose) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.committed for outcome in outcomes) == [False] * 7 + [True]
    winner = next(outcome.entry for outcome in outcomes if outcome.committed)
    assert all(outcome.earlier == winner for outcome in outcomes if not outcome.committed)
    assert ledger.verify() == ()
