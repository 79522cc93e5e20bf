"""Signed notes, checkpoints and verifier keys, against the Go implementation's published vectors."""

import base64

import pytest
from attest_cases import ORIGIN, fixed_key, note_key
from hypothesis import given
from hypothesis import strategies as st

from veristate.attest.signing import (
    UNWITNESSED,
    Checkpoint,
    Head,
    Note,
    NoteKey,
    NoteKind,
    PublicKey,
    Quorum,
    Signature,
    SigningKey,
    Trust,
    cosign_note,
    decode64,
    sign_note,
)
from veristate.core import EnvironmentUnusableError, InputError, RefusedError, TamperError

# golang.org/x/mod/sumdb/note, its tests.
VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
LINE = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
# C2SP tlog-cosignature, its example.
EXAMPLE = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 "
    "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)
HEAD = Head(origin=ORIGIN, size=7, root=b"r" * 32)
LOG = note_key(ORIGIN, 1)
WITNESSES = [note_key(f"w{n}.example.org", n, NoteKind.WITNESS) for n in (2, 3, 4)]


def signed(*more):
    """A checkpoint's note, signed by the log and by the witnesses of these numbers (2, 3, 4)."""
    text = str(HEAD)
    lines = [cosign_note(text, WITNESSES[n - 2], fixed_key(n), 100 + n) for n in more]
    return Note(text=text, signatures=(sign_note(text, LOG, fixed_key(1)), *lines))


def test_the_signature_of_the_go_note_is_made_byte_for_byte():
    """Ed25519 is deterministic: the same key and text give the published line."""
    assert str(sign_note(TEXT, NoteKey.parse(VERIFIER), SigningKey.new(lambda count: SEED))) == LINE


def test_the_go_note_verifies_and_an_altered_one_does_not():
    """Their key, their note."""
    key = NoteKey.parse(VERIFIER)
    assert str(key) == VERIFIER
    assert Note.parse((TEXT + "\n" + LINE).encode()).signed_by([key]) == {key: None}
    altered = Note.parse((TEXT.replace("cryptography", "cryptographY") + "\n" + LINE).encode())
    with pytest.raises(TamperError, match="PeterNeumann"):
        altered.signed_by([key])


def test_no_part_of_a_verifier_key_is_one():
    """Every substring, and every single changed byte, is refused."""
    for start in range(len(VERIFIER)):
        for end in range(start + 1, len(VERIFIER) + 1):
            if (start, end) != (0, len(VERIFIER)):
                with pytest.raises(InputError):
                    NoteKey.parse(VERIFIER[start:end])
    for at in range(len(VERIFIER)):
        with pytest.raises(InputError):
            NoteKey.parse(VERIFIER[:at] + chr(ord(VERIFIER[at]) + 1) + VERIFIER[at + 1 :])


def test_the_example_of_the_cosignature_standard_is_read():
    """Size, both lines, and the witness's time."""
    checkpoint = Checkpoint.parse(EXAMPLE.encode())
    assert checkpoint.head.size == 20852163
    assert [line.name for line in checkpoint.note.signatures] == [
        "example.com/behind-the-sofa",
        "witness.example.com/w1",
    ]
    assert int.from_bytes(checkpoint.note.signatures[1].data[:8], "big") == 1679315147
    assert str(checkpoint) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n",
        "a\n\n",
        "a\n\n— x\n",
        "a\n\n— x AAAA\n",
        "a\n\n- x x08go/ZJkuBS9U==\n",
        LINE,
        TEXT + LINE,
        TEXT + "\n" + LINE[:-1],
        "tab\there\n\n" + LINE,
        TEXT + "\n" + LINE.replace("nAM=", "nAN="),  # the same bytes, spelled otherwise
        TEXT + "\n" + LINE + "\n",
    ],
)
def test_what_is_no_signed_note_is_refused(text):
    """Control characters, missing newlines, foreign spellings of base 64."""
    with pytest.raises(InputError):
        Note.parse(text.encode())


def test_bytes_that_are_no_utf8_are_no_note():
    """Half a character."""
    with pytest.raises(InputError, match="UTF-8"):
        Note.parse(b"\xe2\x80\n\n" + LINE.encode())


@pytest.mark.parametrize(
    "text",
    [
        "o\n1\n",
        "o\n01\nAAAA\n",
        "o\n-1\nAAAA\n",
        "o\n1\nAAAA\n",
        "\n1\n" + "A" * 43 + "=\n",
        "o\n1\n" + "A" * 43 + "=\n\nx\n",
        "o\n1_0\n" + "A" * 43 + "=\n",
        "o\n٣\n" + "A" * 43 + "=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text):
    """Sizes that are no plain decimals, short roots, empty lines."""
    with pytest.raises(InputError, match="not a checkpoint"):
        Head.parse(text)


def test_lines_of_unknown_keys_are_ignored_wherever_the_own_one_stands():
    """A checkpoint with further signatures is as good as without (a public bug rejected it)."""
    unknown = Signature(name="somebody.else", hash=b"abcd", data=b"x" * 64)
    same_name = Signature(name=ORIGIN, hash=b"abcd", data=b"x" * 64)
    same_hash = Signature(name="somebody.else", hash=LOG.hash, data=b"x" * 64)
    own = signed().signatures[0]
    for lines in ([own, unknown], [unknown, same_name, own], [same_hash, own, unknown]):
        checkpoint = Checkpoint.parse(str(Note(text=str(HEAD), signatures=tuple(lines))).encode())
        assert checkpoint.trusted(ORIGIN, [LOG]) == HEAD


def test_a_failing_line_of_a_known_key_rejects_the_note():
    """Also beside a good one."""
    own = signed().signatures[0]
    bad = Signature(name=own.name, hash=own.hash, data=bytes(64))
    with pytest.raises(TamperError, match="not its signature"):
        Note(text=str(HEAD), signatures=(own, bad)).signed_by([LOG])


def test_keys_are_looked_up_by_name_and_hash_together():
    """Two logs with one key, and one log with two keys (a public bug looked up by the log's id alone)."""
    other_name, other_key = note_key("other.example/log", 1), note_key(ORIGIN, 9)
    assert LOG.hash != other_name.hash
    note = signed()
    assert note.signed_by([other_name, other_key]) == {}
    assert note.signed_by([other_name, other_key, LOG]) == {LOG: None}
    rotated = note.with_signatures([sign_note(note.text, other_key, fixed_key(9))])
    assert set(rotated.signed_by([other_key, LOG])) == {LOG, other_key}


def test_a_checkpoint_is_believed_only_from_the_log_and_for_its_origin():
    """An unsigned root is no root."""
    with pytest.raises(TamperError, match="no key of"):
        Checkpoint(head=HEAD, note=Note(text=str(HEAD), signatures=())).trusted(ORIGIN, [LOG])
    with pytest.raises(TamperError, match="not of 'other"):
        Checkpoint(head=HEAD, note=signed()).trusted("other.example/log", [LOG])
    only_witness = Note(text=str(HEAD), signatures=signed(2).signatures[1:])
    with pytest.raises(TamperError, match="no key of"):
        Checkpoint(head=HEAD, note=only_witness).trusted(ORIGIN, [LOG, *WITNESSES])


def test_a_quorum_fails_closed():
    """One witness of two is not enough, and neither is one that counts twice or signed as a log."""
    quorum = Quorum(members=tuple(WITNESSES), threshold=2)
    with pytest.raises(RefusedError, match="0 of 3"):
        quorum.require(signed(), now=1000)
    with pytest.raises(RefusedError, match=r"1 of 3.*w3\.example\.org, w4\.example\.org"):
        quorum.require(signed(2, 2), now=1000)
    assert quorum.require(signed(2, 4), now=1000) == {"w2.example.org": 102, "w4.example.org": 104}


def test_a_cosignature_from_the_future_does_not_count():
    """There is no silent grace: one second early is early."""
    quorum = Quorum(members=tuple(WITNESSES), threshold=1)
    with pytest.raises(RefusedError, match="dated ahead"):
        quorum.require(signed(3), now=102)
    assert quorum.require(signed(3), now=103) == {"w3.example.org": 103}


def test_a_changed_time_breaks_a_cosignature():
    """The time is inside what is signed."""
    line = signed(3).signatures[1]
    later = Signature(name=line.name, hash=line.hash, data=(104).to_bytes(8, "big") + line.data[8:])
    with pytest.raises(TamperError):
        Note(text=str(HEAD), signatures=(later,)).signed_by(WITNESSES)


@pytest.mark.parametrize("threshold", [-1, 0, 4])
def test_an_impossible_quorum_is_refused(threshold):
    """None of three, or four of three."""
    with pytest.raises(InputError):
        Quorum(members=tuple(WITNESSES), threshold=threshold)


def test_a_quorum_names_witnesses_and_each_once():
    """A log's key, and one key under two names."""
    with pytest.raises(InputError, match="no witness"):
        Quorum(members=(LOG,), threshold=1)
    with pytest.raises(InputError, match="twice"):
        Quorum(members=(WITNESSES[0], note_key("alias.example", 2, NoteKind.WITNESS)), threshold=1)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2003b", "a\nb"])
def test_a_key_name_without_meaning_in_a_note_is_refused(name):
    """Spaces of any kind and plus."""
    with pytest.raises(InputError, match="name"):
        NoteKey(name=name, kind=NoteKind.LOG, public=fixed_key(1).public)


@given(st.binary(max_size=60))
def test_base64_has_one_spelling(data):
    """What decodes is what would be encoded."""
    text = base64.b64encode(data).decode()
    assert decode64(text) == data
    for other in (text + "\n", text + "=", text.rstrip("=") + "====", " " + text):
        with pytest.raises(ValueError, match="base 64"):
            decode64(other)


def test_a_private_key_is_for_its_owner_alone(tmp_path):
    """Made once, read again, refused when others may read it or it is something else."""
    path = tmp_path / "keys" / "log.pem"
    key = SigningKey.open(path)
    assert SigningKey.open(path).public == key.public
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(EnvironmentUnusableError, match="chmod 600"):
        SigningKey.open(path)
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(EnvironmentUnusableError, match="no private key"):
        SigningKey.open(path)
    with pytest.raises(InputError, match="32 bytes"):
        PublicKey(b"short")


V = [str(key) for key in WITNESSES]


def test_a_policy_file_with_groups_of_groups():
    """C2SP tlog-policy, the shape of its example: two of three, and any of the other."""
    text = f"""
# two organisations
log {LOG} https://example.org/
\twitness A {V[0]} https://a.example.org/w
witness B {V[1]}
witness C {V[2]}
group AB 2 A B
group Cs any C
group both all AB Cs
quorum both
"""
    trust = Trust.parse(text)
    assert (trust.logs, trust.addresses) == ((LOG,), {WITNESSES[0]: "https://a.example.org/w"})
    assert set(trust.quorum.require(signed(2, 3, 4), now=1000)) == {key.name for key in WITNESSES}
    for some in ((2, 3), (2, 4), (3, 4), (4,), ()):
        with pytest.raises(RefusedError, match="no quorum"):
            trust.quorum.require(signed(*some), now=1000)


def test_a_policy_of_one_witness_and_of_none():
    """`quorum none` is the only way to ask for no witness."""
    assert Trust.parse(f"witness A {V[0]}\nquorum A\n").quorum.require(signed(2), now=1000)
    assert Trust.parse("quorum none").quorum == UNWITNESSED
    assert Trust.parse(f"log {LOG}\nquorum none").quorum.require(signed(), now=0) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "without a quorum"),
        (f"log {LOG}", "without a quorum"),
        ("quorum none\nquorum none", "second quorum"),
        ("quorum A", "nothing above"),
        (f"quorum A\nwitness A {V[0]}", "nothing above"),
        (f"witness A {LOG}\nquorum A", "type 4"),
        (f"log {V[0]}\nquorum none", "type 1"),
        (f"log {LOG}\nlog {LOG}\nquorum none", "stands once"),
        (f"witness A {V[0]}\nwitness B {V[0]}\nquorum A", "stands once"),
        (f"witness A {V[0]}\nwitness A {V[1]}\nquorum A", "taken"),
        (f"witness none {V[0]}\nquorum none", "taken"),
        (f"witness A {V[0]}\ngroup G 2 A\nquorum G", "can't be"),
        (f"witness A {V[0]}\ngroup G 0 A\nquorum G", "can't be"),
        (f"witness A {V[0]}\ngroup G most A\nquorum G", "all, any"),
        (f"witness A {V[0]}\ngroup G any A\ngroup H any A\nquorum G", "in a group already"),
        (f"witness A {V[0]}\ngroup G all\nquorum A", "words after it"),
        ("trust everybody\nquorum none", "it is log"),
        ("log x\nquorum none", "verifier key"),
    ],
)
def test_a_policy_that_says_something_else_is_refused_with_its_line(text, why):
    """Fail closed: what isn't understood is not skipped."""
    with pytest.raises(InputError, match=why):
        Trust.parse(text)
