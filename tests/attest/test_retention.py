"""Fetching artifacts: re-hashed, and unavailable is never inconsistent."""

from dataclasses import replace

import pytest
from attest_cases import NOW, commit, fixed_key

from veristate.attest import Availability, Envelope, fetch_artifact, read_evidence
from veristate.attest.commitments import EXACT, Manifest, read_record
from veristate.attest.retention import EVIDENCE_TYPE
from veristate.core import EnvironmentUnusableError, TamperError

POLICY = replace(EXACT, retention_s=100)


@pytest.fixture
def asked(recorder):
    """Asks for the one artifact of a step's output, at some time, from somebody who answers so."""
    made = commit(recorder, 1, policy=POLICY)
    (artifact,) = read_record(Manifest, recorder.store.get(made.commitment.outputs)).artifacts.values()

    def ask(answer, at=NOW):
        return fetch_artifact(
            artifact,
            answer,
            commitment=made.commitment,
            payload=made.envelope.payload_digest,
            policy=POLICY,
            kept_since=NOW,
            key=fixed_key(7),
            nonce="n1",
            clock=lambda: at,
        )

    ask.store = recorder.store
    ask.artifact = artifact
    return ask


def raising(error):
    """Somebody who never answers."""

    def answer(name):
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda name: None, "nothing"),
        (lambda name: b"something else", "other bytes"),
        (lambda name: b"", "other bytes"),
        (raising(TimeoutError("30 s")), "no answer"),
        (raising(ConnectionResetError()), "no answer"),
        (raising(EnvironmentUnusableError("disk")), "no answer"),
    ],
)
def test_whatever_does_not_come_is_unavailable(asked, answer, said):
    """A timeout names nobody a cheater (a public bug did), and wrong bytes are not the artifact."""
    for at, expected in ((NOW, "WITHIN"), (NOW + 100, "WITHIN"), (NOW + 101, "AFTER")):
        fetched = asked(answer, at)
        assert (fetched.availability.name, fetched.data) == (expected, None)
        evidence = read_evidence(fetched.evidence, fixed_key(7).public)
        assert (evidence.answer, evidence.asked, evidence.kept_until) == (said, at, NOW + 100)
        assert "inconsistent" not in fetched.availability


def test_what_comes_is_rehashed_and_found_at_any_time(asked):
    """Also after the interval."""
    for at in (NOW, NOW + 10_000):
        fetched = asked(asked.store.get, at)
        assert (fetched.availability, fetched.data) == (Availability.FOUND, b"a1")


def test_a_store_that_lacks_it_gives_no_answer(asked):
    """Its error is somebody's trouble, not the recorder's guilt."""
    assert asked(lambda name: asked.store.get("0" * 64)).availability is Availability.WITHIN


def test_evidence_is_its_signers_and_nobody_elses(asked):
    """Another key, another type, another asker inside, a changed byte."""
    envelope = asked(lambda name: None).evidence
    with pytest.raises(TamperError):
        read_evidence(envelope, fixed_key(8).public)
    evidence = read_evidence(envelope, fixed_key(7).public)
    framed = Envelope.seal(EVIDENCE_TYPE, evidence.to_bytes(), [fixed_key(8)])
    with pytest.raises(TamperError, match="another asker"):
        read_evidence(framed, fixed_key(8).public)
    changed = replace(evidence, asked=NOW + 1)
    with pytest.raises(TamperError):
        read_evidence(replace(envelope, payload=changed.to_bytes()), fixed_key(7).public)
    with pytest.raises(TamperError):
        read_evidence(Envelope.seal("text/plain", evidence.to_bytes(), [fixed_key(7)]), fixed_key(7).public)
