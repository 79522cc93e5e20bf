"""Re-anchoring: the policy's rules one by one, and a model that may say anything."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import EnvironmentUnusableError
from veristate.research import Objective
from veristate.research.deciding import Evidence, PeerEvidence, decide, model_decides, peer_text
from veristate.research.deciding.evidence import PEER_EVIDENCE_UPPER, Stretch

from .campaigning import card

UP = Objective(metric="m", direction="maximise")


def stretch(
    number,
    before,
    after,
    *,
    restart="w0/S00",
    stages=2,
    counting=2,
    direction="extend",
    own=(None, None),
    reason="text-only answer",
):
    """A finished segment. `own` are the first and the best of its metrics."""
    return Stretch(
        number=number,
        restart=restart,
        direction=direction,
        stages=stages,
        counting=counting,
        best_before=before,
        best_after=after,
        reason=reason,
        first=own[0],
        best=own[1],
    )


def evidence(cards, stretches, *, peers=(), remaining=800, live=None):
    """Evidence of worker w0."""
    return Evidence(
        worker="w0",
        objective=UP,
        live=live or (cards[-1].place if cards else "w0/S00"),
        cards=tuple(cards),
        stretches=tuple(stretches),
        peers=tuple(peers),
        remaining=remaining,
    )


def peer(best, note="orders the route by inclination"):
    """A peer with that best metric."""
    return PeerEvidence(worker="w1", stages=5, best=best, note=note, direction="extend", focus="route order")


GAINED = [stretch(1, None, "5")]
PLATEAU = [stretch(1, None, "5"), stretch(2, "5", "5", restart="w0/S01"), stretch(3, "5", "5", restart="w0/S01")]


def test_nothing_counts_yet():
    """The last rejection is the focus; after two segments the initial state is tried again."""
    cards = [card(1, reason="3 overlaps 4")]
    first = decide(evidence(cards, [stretch(1, None, None, counting=0)]))
    assert (first.restart, first.direction, first.focus) == ("live", "extend", "3 overlaps 4")
    second = decide(evidence(cards, [stretch(1, None, None, counting=0), stretch(2, None, None, counting=0)]))
    assert (second.restart, second.direction) == ("w0/S00", "redirect")


def test_a_gain_goes_on_from_where_it_is():
    """Live when the live state is the best; the best state itself when what came after it was worse."""
    assert decide(evidence([card(1, "5")], GAINED)).restart == "live"
    after = decide(evidence([card(1, "5"), card(2, "3")], GAINED))
    assert (after.restart, after.direction) == ("w0/S01", "extend")


def test_results_that_do_not_count_lead_back():
    """Three refusals in a segment: back to the last state that stood, and the reason is told."""
    cards = [card(1, "5"), *[card(i, reason="NaN", segment=2) for i in (2, 3, 4)]]
    said = decide(evidence(cards, [*GAINED, stretch(2, "5", "5", stages=3, counting=0)]))
    assert (said.restart, said.direction, said.focus) == ("w0/S01", "extend", "NaN")


def test_little_budget_opens_no_branch():
    """Below the reserve the best state is refined, plateau or not."""
    said = decide(evidence([card(1, "5")], PLATEAU, remaining=100))
    assert (said.restart, said.direction) == ("live", "extend")


def test_a_plateau_behind_a_peer_turns_to_its_focus():
    """A peer that is ahead redirects, by its own note; one that is behind does not."""
    led = decide(evidence([card(1, "5")], PLATEAU, peers=[peer("7")]))
    assert led.direction == "redirect"
    assert "inclination" in led.focus
    assert "w1" not in decide(evidence([card(1, "5")], PLATEAU, peers=[peer("4")])).focus


def turn(number, first=None, best=None, direction="redirect"):
    """A segment without gain after a redirection."""
    return stretch(number, "9", "9", direction=direction, own=(first, best))


def test_a_plateau_goes_further_and_further_back():
    """From the best, then 1, 3 and 7 records before it, then the initial state, then the best again."""
    cards = [card(i, str(i)) for i in range(1, 10)] + [card(10, "4"), card(11, reason="no")]
    flat = [stretch(1, None, "9"), stretch(2, "9", "9"), stretch(3, "9", "9")]
    gone = []
    for _ in range(7):
        said = decide(evidence(cards, [*flat, *(turn(4 + i) for i in range(len(gone)))]))
        gone.append(said.restart)
        assert said.direction == "redirect"
    assert gone == ["w0/S09", "w0/S08", "w0/S06", "w0/S02", "w0/S00", "w0/S09", "w0/S08"]


def test_a_branch_that_climbs_is_gone_on_with():
    """Worse than the best and better than it was: live, extend; when it stops climbing, the next redirection."""
    cards, flat = [card(1, "9"), card(2, "3")], [stretch(1, None, "9"), stretch(2, "9", "9"), stretch(3, "9", "9")]
    for branch, climbs in (
        ([turn(4, "2", "3")], True),
        ([turn(4, "3", "3")], False),
        ([turn(4)], False),
        ([turn(4, "2", "3"), turn(5, "3", "4", "extend")], True),
        ([turn(4, "2", "3"), turn(5, "1", "3", "extend")], False),
        ([turn(4, "2", "8"), turn(5, "1", "7")], True),
    ):
        said = decide(evidence(cards, [*flat, *branch]))
        assert (said.restart, said.direction) == (("live", "extend") if climbs else (said.restart, "redirect")), branch


def test_one_segment_without_gain_is_no_plateau():
    """Patience: extend."""
    assert decide(evidence([card(1, "5")], PLATEAU[:2])).direction == "extend"


def test_a_worker_that_still_searches_is_not_disturbed():
    """Cut by its limit, it goes on from where it is for six segments without gain; then it is redirected there, and six
    segments later from an archived state. One that ended by itself is redirected at once.
    """
    cards = [card(1, "9"), card(2, "3")]
    for reason in ("stages: 6", "segment: 600 s"):
        flat, said = [stretch(1, None, "9")], []
        for number in range(2, 15):
            direction = said[-1][1] if said else "extend"
            flat.append(stretch(number, "9", "9", reason=reason, direction=direction))
            decided = decide(evidence(cards, flat))
            said.append((decided.restart, decided.direction))
        quiet = [("live", "extend")] * 5
        assert said == [*quiet, ("live", "redirect"), *quiet, ("w0/S00", "redirect"), ("live", "extend")]
    ended = [*flat[:5], stretch(6, "9", "9")]
    assert decide(evidence(cards, ended)).direction == "redirect"


@pytest.mark.parametrize("reason", ["stages: 6", "segment: 60 s", "the context limit", "the engine was killed"])
def test_a_cut_segment_without_a_result_is_no_failure(reason):
    """A result may take more than one segment: live work is kept, also while nothing counts yet."""
    idle = [stretch(i, "5", "5", stages=0, counting=0, reason=reason) for i in (2, 3)]
    first = [stretch(i, None, None, stages=0, counting=0, reason=reason) for i in (1, 2, 3)]
    cards = [card(1, "5"), card(2, "3")]
    for found in (evidence(cards, [*GAINED, *idle[:1]]), evidence(cards, [*GAINED, *idle]), evidence([], first)):
        said = decide(found)
        assert (said.restart, said.direction) == ("live", "extend")


def test_results_that_are_all_refused_are_no_search():
    """However the segment ended: back to what stood, then another direction."""
    cards = [card(1, "5"), *[card(i, reason="NaN", segment=2) for i in (2, 3, 4)]]
    refused = [stretch(i, "5", "5", stages=3, counting=0, reason="stages: 3") for i in (2, 3)]
    said = [decide(evidence(cards, [*GAINED, *refused[:upto]])) for upto in (1, 2)]
    assert (said[0].direction, said[0].focus) == ("extend", "NaN")
    assert said[1].direction == "redirect"


def test_a_worker_that_is_stuck_is_redirected():
    """Without any result: back to the best once, then another direction."""
    cards = [card(1, "5")]
    idle = [stretch(2, "5", "5", stages=0, counting=0), stretch(3, "5", "5", stages=0, counting=0)]
    assert decide(evidence(cards, [*GAINED, idle[0]])).direction == "extend"
    assert decide(evidence(cards, [*GAINED, *idle])).direction == "redirect"


def test_a_plateau_is_counted_from_the_last_gain():
    """What a restored workspace does not know: segments without gain, and how many were redirected."""
    flat = [*GAINED, turn(2, direction="extend"), turn(3), turn(4)]
    flat = [stretch(i, "5", "5", direction=each.direction) if i > 1 else each for i, each in enumerate(flat, start=1)]
    found = evidence([card(1, "5")], flat)
    assert ([each.number for each in found.plateau], found.turns) == ([2, 3, 4], 2)
    assert evidence([], []).plateau == ()


def test_a_flagged_metric_is_no_restart_state():
    """The best number is flagged: the next one is gone back to."""
    cards = [card(1, "5"), card(2, "9", arithmetic="FLAG"), card(3, "4")]
    assert decide(evidence(cards, GAINED)).restart == "w0/S01"


@given(
    st.lists(st.none() | st.integers(0, 9), max_size=12),
    st.lists(st.booleans(), min_size=1, max_size=9),
    st.integers(0, 1000),
)
def test_every_decision_can_be_carried_out(metrics, gains, remaining):
    """Whatever the evidence, the restart state counts, is live or the initial one; and it is repeatable."""
    cards = [card(i, None if m is None else str(m)) for i, m in enumerate(metrics, 1)]
    best = UP.best([c.metric for c in cards if c.metric is not None])
    stretches = [stretch(i, None if g else best, best) for i, g in enumerate(gains, 1)]
    given = evidence(cards, stretches, remaining=remaining)
    said = decide(given)
    assert said.restart in {"live", "w0/S00", *(c.place for c in cards if c.counts)}
    assert said == decide(given)


ANSWER = {
    "restart": "w0/S01",
    "direction": "redirect",
    "bottleneck": "route order",
    "evidence": ["S02 refused"],
    "rationale": "timing is exhausted",
    "focus": "order by inclination",
    "imports": [],
}


def test_a_models_decision_is_taken_as_it_is():
    """One answer in the fixed form."""
    said = model_decides(evidence([card(1, "5"), card(2, "6")], GAINED), lambda *_: json.dumps(ANSWER), "")
    assert (said.restart, said.decider, said.focus) == ("w0/S01", "model", "order by inclination")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I would go on.",
        '{"restart": "live"} extra data',
        "[1, 2]",
        json.dumps(ANSWER | {"restart": "w1/S01"}),
        json.dumps(ANSWER | {"restart": "w0/S09"}),
        json.dumps(ANSWER | {"restart": "w0/S02"}),
        json.dumps(ANSWER | {"direction": "sideways"}),
        "[" * 100_000,
    ],
)
def test_a_model_that_fails_is_replaced_by_the_policy(answer):
    """No JSON, a peer's state, one that is not there or does not count: the policy decides, and it is said."""
    given = evidence([card(1, "5"), card(2, reason="overlap")], GAINED)
    said = model_decides(given, lambda *_: answer, "")
    assert said.decider == "policy-after-model"
    assert said.failure
    assert (said.restart, said.direction) == (decide(given).restart, decide(given).direction)


def test_a_model_that_does_not_answer_is_replaced_too():
    """Silence is a failure like any other."""

    def silent(*_):
        raise EnvironmentUnusableError("no reply in 3 attempts")

    assert "no reply" in model_decides(evidence([card(1, "5")], GAINED), silent, "").failure


@given(st.lists(st.tuples(st.text(max_size=3000), st.text(max_size=3000)), max_size=9))
def test_peer_evidence_is_short(texts):
    """At most 1,400 characters, whatever peers wrote and however many they are."""
    peers = [
        PeerEvidence(worker=f"w{i}", stages=3, best="1", note=note, direction="extend", focus=focus)
        for i, (note, focus) in enumerate(texts)
    ]
    assert len(peer_text(peers)) <= PEER_EVIDENCE_UPPER
