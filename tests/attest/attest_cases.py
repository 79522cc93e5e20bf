"""What the tests of commitments share by import: fixed keys and clocks, small steps."""

import itertools

from veristate.attest import NoteKey, NoteKind, SigningKey

ORIGIN = "example.org/log"
NOW = 1_700_000_000


def fixed_key(number):
    """A key whose bytes are known."""
    return SigningKey.new(lambda count: bytes([number]) * count)


def note_key(name, number, kind=NoteKind.LOG):
    """That key's verifier key."""
    return NoteKey(name=name, kind=kind, public=fixed_key(number).public)


def ticking():
    """A clock that counts seconds from a fixed day."""
    seconds = itertools.count()
    return lambda: f"2026-01-01T00:00:{next(seconds) % 60:02d}.000000Z"


def commit(recorder, number, **more):
    """A commitment to a small step."""
    parts = {"inputs": {"question": b"q%d" % number}, "outputs": {"answer": b"a%d" % number}, "context": {}}
    return recorder.commit_to("answer", **(parts | more))
