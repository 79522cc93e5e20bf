"""DSSE envelopes and in-toto statements, against two other implementations and the RFC 8785 vectors."""

import dataclasses
import json

import pytest
from attest_cases import ORIGIN, fixed_key
from hypothesis import given
from hypothesis import strategies as st
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.signer import CryptoSigner

from veristate.attest import Commitment, Manifest, Policy
from veristate.attest.commitments import EXACT, STATEMENT_TYPE, read_record
from veristate.attest.signing import Envelope, pre_authentication
from veristate.core import InputError, TamperError, canonical_bytes

COMMITMENT = Commitment(
    origin=ORIGIN,
    recorder="a" * 64,
    key="b" * 64,
    sequence=3,
    predecessor="c" * 64,
    execution="e1",
    stage="answer",
    inputs="1" * 64,
    outputs="2" * 64,
    context="3" * 64,
    policy="4" * 64,
    time="2026-01-01T00:00:00.000000Z",
)


def test_what_is_signed_is_the_standards_example():
    """DSSE protocol, its pre-authentication example."""
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.binary(max_size=80))
def test_another_implementation_accepts_our_signature(kind, payload):
    """The library securesystemslib verifies what we sign, over the same bytes."""
    key = fixed_key(5)
    ours = Envelope.seal(kind, payload, [key])
    other = OtherEnvelope.from_dict(json.loads(ours.to_bytes()))
    assert other.pae() == pre_authentication(kind, payload)
    signer = CryptoSigner(key._private)
    public = signer.public_key
    other.signatures = {public.keyid: dataclasses_signature(other, public.keyid)}
    assert other.verify([public], 1)


def dataclasses_signature(envelope, keyid):
    """The envelope's only signature under the key id that the other library gives the key."""
    (signature,) = envelope.signatures.values()
    return type(signature)(keyid, signature.signature)


def test_we_accept_the_signature_of_another_implementation():
    """And what it signs, we verify."""
    key = fixed_key(5)
    other = OtherEnvelope(b"payload", "text/plain", {})
    data = bytes.fromhex(other.sign(CryptoSigner(key._private)).signature)
    assert key.public.verifies(data, pre_authentication("text/plain", b"payload"))


def test_a_statement_is_one_for_in_toto():
    """in-toto's own reader takes it: type, subject by SHA-256, predicate type and predicate."""
    content = json.loads(COMMITMENT.statement())
    statement = Statement.copy_from_pb(_protobuf(content))
    statement.validate()
    assert statement.pb.subject[0].digest["sha256"] == COMMITMENT.outputs
    assert statement.pb.predicate_type == "urn:veristate:step:1"
    assert statement.pb.predicate["execution"] == "e1"


def _protobuf(content):
    from google.protobuf.json_format import ParseDict
    from in_toto_attestation.v1.statement_pb2 import Statement as Message

    return ParseDict(content, Message())


def test_an_envelope_reads_back():
    """Bytes, envelope, bytes; and the commitment in it."""
    envelope = COMMITMENT.sealed(fixed_key(1))
    again = Envelope.from_bytes(envelope.to_bytes())
    assert again == envelope
    assert Commitment.from_envelope(again) == COMMITMENT
    assert again.signed_by(fixed_key(1).public)
    assert not again.signed_by(fixed_key(2).public)


def test_every_changed_byte_of_an_envelope_is_seen():
    """It is no envelope, or the key did not sign it, or no longer said to have."""
    data = COMMITMENT.sealed(fixed_key(1)).to_bytes()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            envelope = Envelope.from_bytes(changed)
        except TamperError:
            continue
        assert not envelope.signed_by(fixed_key(1).public), at


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"payload":"","payloadType":"t","signatures":[],"x":1}',
        b'{"payload":"","payloadType":"t", "signatures":[]}',
        b'{"payload":"","payload":"","payloadType":"t","signatures":[]}',
        b'{"payload":"AA","payloadType":"t","signatures":[]}',
        b'{"payload":1,"payloadType":"t","signatures":[]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_canonical_envelope_is_refused(data):
    """Other spellings, further fields, names that stand twice."""
    with pytest.raises(TamperError, match="envelope"):
        Envelope.from_bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["predicate"].update(extra=1),
        lambda c: c["predicate"].update(sequence="3"),
        lambda c: c["predicate"].update(sequence=-1),
        lambda c: c["predicate"].update(sequence=True),
        lambda c: c["predicate"].update(inputs="1" * 63),
        lambda c: c["predicate"].update(inputs="A" * 64),
        lambda c: c["predicate"].update(inputs="1" * 64 + "\n"),
        lambda c: c["predicate"].update(format="veristate.commitment/2"),
        lambda c: c["predicate"].pop("recorder"),
        lambda c: c["predicate"].pop("origin"),
        lambda c: c["subject"][0]["digest"].update(sha256="9" * 64),
        lambda c: c["subject"].append({"name": "more", "digest": {"sha256": "9" * 64}}),
        lambda c: c.update(predicateType="urn:veristate:step:2"),
        lambda c: c.update(_type="https://in-toto.io/Statement/v0.1"),
    ],
)
def test_a_statement_that_says_anything_else_is_refused(change):
    """Types, digests, versions, and a subject that is not the committed output."""
    content = json.loads(COMMITMENT.statement())
    change(content)
    envelope = Envelope.seal(STATEMENT_TYPE, canonical_bytes(content), [fixed_key(1)])
    with pytest.raises(TamperError):
        Commitment.from_envelope(envelope)


def test_an_envelope_of_another_type_is_no_commitment():
    """The type is signed too."""
    envelope = Envelope.seal("text/plain", COMMITMENT.statement(), [fixed_key(1)])
    with pytest.raises(TamperError, match="text/plain"):
        Commitment.from_envelope(envelope)
    relabelled = dataclasses.replace(envelope, payload_type=STATEMENT_TYPE)
    assert not relabelled.signed_by(fixed_key(1).public)


def test_keys_sort_as_utf_16_and_not_as_code_points():
    """RFC 8785, 3.2.3: U+1F600 (a surrogate pair) stands before U+E000."""
    assert canonical_bytes({"\ue000": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ue000":1}'.encode()


def test_the_sorting_vector_of_rfc_8785():
    """Section 3.2.3, its example."""
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    text = canonical_bytes(dict.fromkeys(names, 0)).decode()
    assert list(json.loads(text)) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("text", ["\ud800", "\udc00\ud800", "x\udfffy"])
def test_half_or_reversed_surrogates_have_no_bytes(text):
    """Other canonicalisers write U+FFFD or a question mark, and two documents have one digest."""
    with pytest.raises(InputError):
        Manifest(artifacts={text: "1" * 64}).to_bytes()
    escaped = (
        '{"artifacts":{"' + text.encode("unicode_escape").decode() + '":"' + "1" * 64 + '"},"format":"x"}'
    ).encode()
    with pytest.raises(TamperError):
        read_record(Manifest, escaped)


@pytest.mark.parametrize("number", ["1e-7", "0.00001", "1e-5", "1e21", "-0.0", "1.0"])
def test_numbers_in_a_policy_are_text(number):
    """1e-5 and 0.00001 are spelled alike by no two languages; as text they are what was written, as floats refused."""
    policy = dataclasses.replace(EXACT, metric_parameters={"tolerance": number})
    assert f'"tolerance":"{number}"'.encode() in policy.to_bytes()
    assert read_record(Policy, policy.to_bytes()) == policy
    with pytest.raises(InputError, match="float"):
        dataclasses.replace(EXACT, metric_parameters={"tolerance": float(number)}).to_bytes()
    raw = policy.to_bytes().replace(f'"{number}"'.encode(), number.encode())
    with pytest.raises(TamperError):
        read_record(Policy, raw)


def test_texts_that_only_look_alike_are_different():
    """NFC and NFD stay apart: nothing normalises what is signed."""
    composed, decomposed = Manifest(artifacts={"\u00e9": "1" * 64}), Manifest(artifacts={"e\u0301": "1" * 64})
    assert composed.digest != decomposed.digest


def test_there_is_one_canonicaliser():
    """No other module of the package calls rfc8785, and attest spells JSON out nowhere itself."""
    from pathlib import Path

    import veristate

    sources = [path for path in Path(veristate.__file__).parent.rglob("*.py") if "rfc8785" in path.read_text()]
    assert [path.name for path in sources] == ["canonical.py"]
    attest = Path(veristate.__file__).parent / "attest"
    parts = [attest / name for name in ("signing", "log", "witness", "commitments", "delivery")]
    assert [path for part in parts for path in part.rglob("*.py") if "json.dumps" in path.read_text()] == []
