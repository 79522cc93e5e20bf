"""Timestamps by an authority of the tests."""

import hashlib
import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from timestamp_authority import MESSAGE, SIGNED, TestAuthority, certificate, nonce_in

from veristate.attest.timestamps import Authority, fetch_timestamp, judge_timestamp, request_for
from veristate.core import EnvironmentUnusableError, InputError, TamperError

pytest.importorskip("rfc3161_client", reason="rfc3161-client is not installed: pip install 'veristate[timestamps]'")

LATER = datetime(2026, 6, 1, tzinfo=UTC)


def judge(tsa, reply, message=MESSAGE, *, now=LATER, nonce=None):
    """The verdict under the authority's own root."""
    return judge_timestamp(reply, message, tsa.authority, now=now, nonce=nonce)


def test_a_right_token_gives_its_time(tsa):
    """A token over the message under a trusted root gives the time that the authority signed, in UTC."""
    verdict = judge(tsa, tsa.reply())
    assert (verdict.valid, verdict.time, verdict.reason) == (True, SIGNED, "")
    assert verdict.require() == SIGNED
    assert verdict.time.utcoffset() == timedelta(0)


def test_another_message_is_not_covered(tsa):
    """A token says nothing about any other message, and requiring it raises."""
    verdict = judge(tsa, tsa.reply(), MESSAGE + b"\n")
    assert not verdict.valid
    with pytest.raises(TamperError, match="not a valid timestamp"):
        verdict.require()


def test_a_stranger_under_another_root_is_not_trusted(tsa, tmp_path):
    """An authority that nobody trusts can sign anything: its token is not valid, whatever certificates it brings."""
    assert not judge(tsa, TestAuthority(tmp_path).reply()).valid


def test_a_certificate_for_something_else_signs_no_time(tmp_path):
    """A certificate under the right root that is not for timestamps gives none."""
    server = TestAuthority(tmp_path, purpose=ExtendedKeyUsageOID.SERVER_AUTH)
    assert not judge(server, server.reply()).valid


def test_a_refusal_is_no_timestamp(tsa):
    """A reply whose status is not "granted" is not valid, even with a token in it."""
    for status in (1, 2, 3, 4, 5):
        assert not judge(tsa, tsa.reply(status=status)).valid


# Public bugs


@pytest.mark.parametrize("ahead", [timedelta(seconds=1), timedelta(seconds=59), timedelta(days=1)])
def test_a_time_that_has_not_come_yet_is_refused_without_grace(tsa, ahead):
    """One second in the future is in the future (sigstore-rust#164)."""
    reply = tsa.reply()
    assert "not come yet" in judge(tsa, reply, now=SIGNED - ahead).reason
    assert judge(tsa, reply, now=SIGNED).valid


def test_the_recorders_own_clock_is_not_asked(tsa):
    """A message that claims to be of a later time than the token's is still covered: its clock decides nothing
    (notation-go#513).
    """
    claims = b'{"time": "2026-03-01T12:00:05Z"}'
    assert judge(tsa, tsa.reply(claims), claims).time == SIGNED


def test_a_time_without_a_zone_is_not_guessed(tsa):
    """`now` without a time zone is the caller's error; in other zones it is the same moment (sigstore-python#700)."""
    reply = tsa.reply()
    with pytest.raises(InputError, match="time zone"):
        judge(tsa, reply, now=datetime(2026, 6, 1))
    nepal = timezone(timedelta(hours=5, minutes=45))
    assert judge(tsa, reply, now=SIGNED.astimezone(nepal)).valid
    assert not judge(tsa, reply, now=(SIGNED - timedelta(seconds=1)).astimezone(nepal)).valid


def test_the_machines_zone_changes_nothing(tsa, tmp_path):
    """A process in Kathmandu's time gives the same time of the same token (sigstore-python#700)."""
    (tmp_path / "reply").write_bytes(tsa.reply())
    (tmp_path / "root").write_bytes(tsa.pem)
    code = (
        "import sys, pathlib, datetime as d; from veristate.attest.timestamps import *; p = pathlib.Path(sys.argv[1])\n"
        f"a = Authority.from_pem((p / 'root').read_bytes()); now = d.datetime(2026, 3, 1, 12, tzinfo=d.UTC)\n"
        f"print(judge_timestamp((p / 'reply').read_bytes(), {MESSAGE!r}, a, now=now).time.isoformat())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    env = os.environ | {"TZ": "Asia/Kathmandu"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == SIGNED.isoformat()


@pytest.mark.parametrize("time", [datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)])
def test_a_certificate_that_was_not_valid_then_is_refused(tsa, time):
    """A token of a time before or after its certificate's is not valid: the certificate is not its own clock
    (sigstore-go#276).
    """
    assert not judge(tsa, tsa.reply(time=time)).valid


def test_a_certificate_that_expired_since_is_right(tsa):
    """Years after the certificate expired, a token of its time is still valid (timestamp-authority#1384)."""
    assert judge(tsa, tsa.reply(), now=datetime(2099, 1, 1, tzinfo=UTC)).valid


def test_a_fresh_reply_must_repeat_the_nonce(tsa):
    """A reply without the request's nonce, or with another one, is an old one (timestamp-authority#1405)."""
    assert judge(tsa, tsa.reply(nonce=2**63 + 5), nonce=2**63 + 5).valid
    for wrong in (tsa.reply(), tsa.reply(nonce=4)):
        verdict = judge(tsa, wrong, nonce=2**63 + 5)
        assert "another reply" in verdict.reason
        assert not verdict.valid


# Bytes that are anything


def test_changed_and_cut_replies_are_verdicts(tsa):
    """A reply with any bit changed, cut anywhere, or of random bytes gives a verdict, and no other time than before."""
    reply, pick = tsa.reply(nonce=9), random.Random(3)
    for _ in range(400):
        at = pick.randrange(len(reply))
        changed = reply[:at] + bytes([reply[at] ^ 1 << pick.randrange(8)]) + reply[at + 1 :]
        assert judge(tsa, changed, nonce=9).time in (None, SIGNED)
    for cut in [*range(0, len(reply), 29), len(reply) - 1]:
        assert not judge(tsa, reply[:cut]).valid
    for size in range(60):
        assert not judge(tsa, pick.randbytes(size)).valid


def test_an_authority_without_roots_or_with_other_bytes_is_refused():
    """Trusting nobody, or what is no certificate, is the caller's error."""
    with pytest.raises(InputError, match="root"):
        Authority(roots=())
    with pytest.raises(InputError, match="not certificates"):
        Authority.from_pem(b"hello")


# Asking


def test_an_authority_is_asked_for_the_digest_alone(tsa, served):
    """The request holds the digest, not the message; the reply is valid when it repeats the nonce."""
    served.answer = lambda query: tsa.reply(nonce=nonce_in(query))
    url = f"http://127.0.0.1:{served.server_port}"
    reply, verdict = fetch_timestamp(url, MESSAGE, tsa.authority)
    assert verdict.time == SIGNED
    assert judge(tsa, reply).valid
    [(kind, query)] = served.queries
    assert kind == "application/timestamp-query"
    assert hashlib.sha256(MESSAGE).digest() in query
    assert MESSAGE not in query


def test_an_old_reply_shown_again_is_refused(tsa, served):
    """An authority, or who stands before it, that answers every request with one old token is found out."""
    served.answer = lambda query: tsa.reply(nonce=1)
    _, verdict = fetch_timestamp(f"http://127.0.0.1:{served.server_port}", MESSAGE, tsa.authority)
    assert not verdict.valid


def test_no_answer_and_no_address_are_told():
    """Who can't be reached raises, and what is no address is the caller's error."""
    key = ec.generate_private_key(ec.SECP256R1())
    trusted = Authority(roots=(certificate("r", key, "r", key, until=LATER, ca=True),))
    with pytest.raises(EnvironmentUnusableError, match="gave no answer"):
        fetch_timestamp("http://127.0.0.1:9/", MESSAGE, trusted, timeout_s=2)
    with pytest.raises(InputError, match="no http"):
        fetch_timestamp("file:///etc/hosts", MESSAGE, trusted)
    with pytest.raises(InputError, match="empty"):
        request_for(b"")
