"""What a log's entries say together: a recorder's forks, gaps and repeated executions are found by whoever reads."""

from dataclasses import replace

import pytest
from attest_cases import ORIGIN, commit, fixed_key

from veristate.attest import Commitment, Envelope, KeyEvent, LogAudit, SigningKey


@pytest.fixture
def chain(recorder):
    """A recorder's key, and its envelopes: an introduction, three steps, a rotation, a step."""
    key = SigningKey.load(recorder._key_path(recorder.history().current(recorder.id)))
    for n in range(3):
        commit(recorder, n, execution=f"e{n}")
    recorder.rotate()
    commit(recorder, 3, execution="e3")
    return key, [item.envelope for item, _ in recorder.outbox.items()]


def kinds(entries):
    """What is found, with its place."""
    audit = LogAudit(ORIGIN)
    return [(f.kind.name, f.place) for place, entry in enumerate(entries) for f in audit.read(place, entry)]


def signed(key, entry, **changes):
    """The same commitment with changes, signed by that key."""
    return replace(Commitment.from_envelope(Envelope.from_bytes(entry)), **changes).sealed(key).to_bytes()


def test_an_honest_chain_has_nothing_wrong(chain):
    """Two recorders too, interleaved."""
    assert kinds(chain[1]) == []


def test_a_fork_of_a_recorder_is_found(chain):
    """Two commitments with one number."""
    key, entries = chain
    branch = signed(key, entries[2], execution="other")
    assert ("FORKED", 3) in kinds([*entries[:3], branch])


def test_an_execution_that_is_committed_to_twice_is_found(chain):
    """Also under another number."""
    key, entries = chain
    payload = Envelope.from_bytes(entries[3]).payload_digest
    again = signed(key, entries[3], sequence=4, predecessor=payload, execution="e1")
    assert kinds([*entries[:4], again]) == [("EXECUTION", 4)]


def test_a_missing_predecessor_is_found(chain):
    """Left out, and in another order."""
    _, entries = chain
    assert kinds([*entries[:2], *entries[3:]]) == [("GAP", 2)]
    assert {kind for kind, _ in kinds([entries[0], entries[2], entries[1], *entries[3:]])} == {"GAP"}


def test_what_the_recorder_did_not_sign_does_not_accuse_it(chain):
    """A stranger's commitment in its name is a bad signature, and the chain goes on as if it were not there."""
    _, entries = chain
    framed = signed(fixed_key(9), entries[2], execution="framed")
    assert kinds([*entries[:3], framed, *entries[3:]]) == [("SIGNATURE", 3)]
    late = [*entries, entries[2]]
    assert ("SIGNATURE", 6) in kinds(late)
    event = KeyEvent(
        origin=ORIGIN,
        recorder=Commitment.from_envelope(Envelope.from_bytes(entries[1])).recorder,
        sequence=1,
        predecessor=Envelope.from_bytes(entries[0]).payload_digest,
        action="rotated",
        key=fixed_key(9).public.raw.hex(),
        time="2026-01-01T00:00:00.000000Z",
    )
    assert kinds([entries[0], event.sealed(fixed_key(9)).to_bytes(), *entries[1:]]) == [("SIGNATURE", 1)]


def test_entries_of_another_log_or_of_anything_are_told(chain):
    """Replayed from another log, or no commitment at all."""
    key, entries = chain
    elsewhere = signed(key, entries[1], origin="other.example/log")
    assert kinds([entries[0], elsewhere, b"hello", *entries[1:]]) == [("ORIGIN", 1), ("FOREIGN", 2)]
