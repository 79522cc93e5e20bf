"""Exporting a run: one file with which a stranger verifies, offline, what was committed to."""

import os
from collections.abc import Iterator, Set
from pathlib import Path

from veristate.attest.commitments import Commitment, Manifest, read_record
from veristate.attest.delivery import Item
from veristate.attest.export.archive import write_archive
from veristate.attest.export.crate import (
    CONTENTS,
    METADATA,
    SUGGESTED,
    Contents,
    blob_path,
    describe,
    entry_paths,
    stamp_path,
)
from veristate.attest.home import Home
from veristate.attest.log import LogProof
from veristate.attest.signing import Checkpoint, Envelope
from veristate.core import InputError, TamperError
from veristate.store import Store, disk


def export_run(home: Home, target: Path, *, redact: Set[str] = frozenset()) -> Contents:
    """What was exported to the file `target`, which must not exist: every entry under the published head, with its
    proof, and what it names, but for the artifacts of which `redact` has the name or the digest.

    Raises: InputError when nothing is published yet or the file exists; TamperError when the store is damaged.
    """
    checkpoint = home.log.published()
    head = checkpoint.head
    items = [item for item, _ in home.recorder.outbox.items()]
    shown = [item for item in items if item.place is not None and item.place < head.size]
    if not shown:
        raise InputError("nothing of this run is under a published head; run `veristate log deliver` first")
    blobs, left_out, date = _named(home.recorder.store, shown, redact)
    contents = Contents(
        origin=home.recorder.origin,
        recorder=home.recorder.id,
        redacted=tuple(sorted(left_out)),
        pending=len(items) - len(shown),
    )
    files = list(_files(home, checkpoint, contents, shown, blobs))
    sizes = [(path, len(data)) for path, data in files]
    members = [(METADATA, describe(contents, sizes, date)), *files]
    with disk(target):
        if target.exists():
            raise InputError(f"{target} exists; choose another name")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with draft.open("xb") as stream:
                write_archive(stream, members)
                stream.flush()
                os.fsync(stream.fileno())
            draft.rename(target)
        finally:
            draft.unlink(missing_ok=True)
    return contents


def _files(
    home: Home, checkpoint: Checkpoint, contents: Contents, items: list[Item], blobs: Set[str]
) -> Iterator[tuple[str, bytes]]:
    """Every file but the description, in the order of the archive. All proofs lead to one head, whatever is published
    meanwhile, and the timestamp is that head's.
    """
    head, reader = checkpoint.head, home.log.reader(checkpoint)
    yield CONTENTS, contents.to_bytes()
    yield SUGGESTED, _suggested(home)
    if stamp := home.recorder.outbox.stamps().get(str(head)):
        yield stamp_path(head.size), home.recorder.store.get(stamp.reply)
    for item in sorted(items, key=lambda item: item.place or 0):
        place = item.place or 0
        entry, proof = entry_paths(place)
        yield entry, item.envelope
        yield proof, str(LogProof(index=place, hashes=reader.inclusion(place), checkpoint=checkpoint)).encode()
    for name in sorted(blobs):
        yield blob_path(name), home.recorder.store.get(name)


def _named(store: Store, items: list[Item], redact: Set[str]) -> tuple[set[str], set[str], str]:
    """The blobs that the commitments name, those that are left out, and the last commitment's time."""
    kept: set[str] = set()
    left_out: set[str] = set()
    date = ""
    for item in items:
        try:
            said = Commitment.from_envelope(Envelope.from_bytes(item.envelope))
        except TamperError:
            continue  # a key event
        date = said.time
        kept.add(said.policy)
        for manifest in (said.inputs, said.outputs, said.context):
            kept.add(manifest)
            for name, blob in read_record(Manifest, store.get(manifest)).artifacts.items():
                (left_out if {name, blob} & redact else kept).add(blob)
    # One artifact may stand under two names: what is to be left out under one is left out.
    return kept - left_out, left_out, date or "1970-01-01T00:00:00Z"


def _suggested(home: Home) -> bytes:
    lines = [f"log {home.log.key}"]
    policy = home.recorder.folder / "log.policy"
    if policy.exists():
        lines += [line for line in policy.read_text().split("\n") if line.split()[:1] != ["log"]]
    else:
        lines.append("quorum none")
    return ("\n".join(lines).rstrip("\n") + "\n").encode()
