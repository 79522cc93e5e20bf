"""The outbox: made offline, delivered in order, once, and never shown as further than it is."""

import itertools
import random
import shutil
from collections import Counter

import pytest
from attest_cases import ORIGIN, commit, fixed_key

from veristate.attest import Envelope, State
from veristate.core import EnvironmentUnusableError, RefusedError
from veristate.ledger import Ledger


class StrangeError(Exception):
    """Neither the network's nor ours."""


def states(recorder):
    """How far each of its envelopes is."""
    return [state for _, state in recorder.outbox.items()]


def down(entries):
    """A log behind a partition."""
    raise ConnectionRefusedError("the log can't be reached")


def payloads(log):
    """What the log holds, in its order."""
    return [Envelope.from_bytes(entry).payload_digest for entry in log.reader(log.published()).entries()]


def test_what_is_made_offline_is_pending_and_stays_in_order(recorder, log):
    """Nothing is lost while the log is away, and all goes in order when it is back."""
    made = [commit(recorder, n).envelope.payload_digest for n in range(20)]
    result = recorder.outbox.flush(down)
    assert result.logged == 0
    assert "can't be reached" in result.unreachable[recorder.id]
    assert set(states(recorder)) == {State.PENDING}
    assert recorder.outbox.flush(log.append).logged == 21
    assert payloads(log)[1:] == made
    assert set(states(recorder)) == {State.LOGGED}


def test_pending_is_never_shown_as_more(recorder, log):
    """Logged is not witnessed, witnessed is not anchored, and what comes later is pending again."""
    commit(recorder, 1)
    recorder.outbox.anchored(100, {"chain": "test"})
    recorder.outbox.witnessed(100, "note", {"w": 1})
    assert set(states(recorder)) == {State.PENDING}
    recorder.outbox.flush(log.append)
    commit(recorder, 2)
    assert states(recorder) == [State.ANCHORED, State.ANCHORED, State.PENDING]


def test_states_follow_the_heads(recorder, log, open_recorder):
    """By size, across a reorganisation, and for a process that only reads the journal."""
    for n in range(5):
        commit(recorder, n)
    recorder.outbox.flush(log.append)
    recorder.outbox.witnessed(4, "note", {})
    recorder.outbox.anchored(2, {})
    assert states(recorder) == [State.ANCHORED] * 2 + [State.WITNESSED] * 2 + [State.LOGGED] * 2
    recorder.outbox.unanchored(1, "the block is gone")
    expected = [State.ANCHORED] + [State.WITNESSED] * 3 + [State.LOGGED] * 2
    assert states(recorder) == states(open_recorder()) == expected


def test_a_retry_doubles_nothing(recorder, log):
    """The log took the batch and the answer was lost."""
    commit(recorder, 1)

    def lost(entries):
        log.append(entries)
        raise TimeoutError("no answer")

    assert recorder.outbox.flush(lost).logged == 0
    assert set(states(recorder)) == {State.PENDING}
    assert recorder.outbox.flush(log.append).logged == 2
    assert recorder.outbox.flush(log.append).logged == 0
    assert log.published().head.size == 2


def test_a_recorder_that_stalls_does_not_hold_back_another(open_recorder, log, tmp_path):
    """Two recorders in one journal: one of them can't be delivered."""
    from veristate.attest import Outbox

    one, other = open_recorder("one"), open_recorder("other")
    with Ledger.open(tmp_path / "both.sqlite") as ledger:
        both = Outbox(ledger)
        for number in range(3):
            for recorder in (one, other):
                made = commit(recorder, number)
                both.add(made.envelope, recorder=recorder.id, sequence=number, more={})

        def picky(entries):
            if any(f'"{one.id}"'.encode() in Envelope.from_bytes(entry).payload for entry in entries):
                raise EnvironmentUnusableError("not now")
            return log.append(entries)

        result = both.flush(picky)
        assert (result.logged, list(result.unreachable)) == (3, [one.id])
        assert both.flush(log.append).logged == 3
        assert [item.sequence for item, _ in both.items() if item.recorder == one.id] == [0, 1, 2]


def test_an_entry_that_the_log_refuses_stays_alone(recorder, log):
    """The ones after it go, in order; it is named, and goes when the log takes it."""
    made = [commit(recorder, n) for n in range(5)]
    bad = made[2].envelope

    def picky(entries):
        if bad.to_bytes() in entries:
            raise RefusedError("this one not")
        return log.append(entries)

    result = recorder.outbox.flush(picky)
    assert (result.logged, dict(result.refused)) == (5, {bad.payload_digest: "this one not"})
    assert states(recorder).count(State.PENDING) == 1
    others = [m.envelope.payload_digest for m in made if m.envelope != bad]
    assert payloads(log)[1:] == others
    assert recorder.outbox.flush(log.append).logged == 1
    assert sorted(payloads(log)[1:]) == sorted(m.envelope.payload_digest for m in made)


def test_an_error_that_is_not_the_networks_is_not_hidden(recorder):
    """A bug in the sender shows."""

    def broken(entries):
        raise StrangeError

    with pytest.raises(StrangeError):
        recorder.outbox.flush(broken)


def test_random_partitions_lose_and_double_nothing(recorder, log):
    """Deliveries that fail before, after, or not at all, between commitments."""
    chance = random.Random(4)

    def unreliable(entries):
        luck = chance.random()
        if luck < 0.4:
            raise ConnectionResetError("before")
        places = log.append(entries)
        if luck < 0.6:
            raise TimeoutError("after")
        return places

    made = []
    for n in range(40):
        made.append(commit(recorder, n).envelope.payload_digest)
        if chance.random() < 0.3:
            recorder.outbox.flush(unreliable)
    while recorder.outbox.pending():
        recorder.outbox.flush(unreliable)
    assert payloads(log)[1:] == made
    assert max(Counter(payloads(log)).values()) == 1


def test_a_kill_at_every_step_of_a_delivery(tmp_path, killed_at, open_recorder, unsynced):
    """Between the log and the journal too: afterwards each commitment is in the log once, in order, and known to be."""
    from veristate.attest import UNWITNESSED, TileLog

    def opened(folder):
        return TileLog.open(tmp_path / folder, origin=ORIGIN, key=fixed_key(1), quorum=UNWITNESSED)

    with open_recorder("base") as recorder:
        made = [commit(recorder, n).envelope.payload_digest for n in range(2)]
    for step in itertools.count(1):
        shutil.copytree(tmp_path / "base", tmp_path / f"run{step}")

        def run(step=step):
            with open_recorder(f"run{step}") as recorder:
                recorder.outbox.flush(opened(f"log{step}").append)

        killed = killed_at(step, run)
        log = opened(f"log{step}")
        with open_recorder(f"run{step}") as recorder:
            for item, state in recorder.outbox.items():
                assert state is State.PENDING or log.find(item.envelope) == item.place
            recorder.outbox.flush(log.append)
            assert set(states(recorder)) == {State.LOGGED}
        assert payloads(log)[1:] == made
        if not killed:
            break
    assert step > 20
