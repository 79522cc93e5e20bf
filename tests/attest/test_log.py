"""The log on the disk: its layout, what an append promises, and proofs."""

import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from attest_cases import NOW, ORIGIN, fixed_key, note_key
from pymerkle import InmemoryTree

from veristate.attest import Checkpoint, Head, LogProof, NoteKind, Quorum, TileLog
from veristate.attest.log.layout import bundle_path, pack, tile_path, unpack, width_at
from veristate.attest.log.tree import extends, leaf_hash
from veristate.attest.signing import Note, cosign_note, sign_note
from veristate.core import InputError, RefusedError, TamperError

KEY = note_key(ORIGIN, 1)
WITNESS = note_key("w.example.org", 2, NoteKind.WITNESS)
QUORUM = Quorum(members=(WITNESS,), threshold=1)


def entries(start, end):
    """Entries that tell their place."""
    return [b"entry %d" % n for n in range(start, end)]


def cosigned(checkpoint):
    """The checkpoint's note with the witness's line."""
    text = checkpoint.note.text
    return checkpoint.note.with_signatures([cosign_note(text, WITNESS, fixed_key(2), NOW)])


def test_paths_are_those_of_the_standards_examples():
    """C2SP tlog-tiles: index 1234067, and the tiles of a tree of 70,000."""
    assert tile_path(3, 1234067) == "tile/3/x001/x234/067"
    assert bundle_path(0, 12) == "tile/entries/000.p/12"
    assert tile_path(0, 1000, 255) == "tile/0/x001/000.p/255"
    assert [width_at(0, n, 70_000) for n in (0, 272, 273, 274)] == [256, 256, 112, 0]
    assert [width_at(1, n, 70_000) for n in (0, 1, 2)] == [256, 17, 0]
    assert [width_at(2, n, 70_000) for n in (0, 1)] == [1, 0]
    assert [width_at(level, 0, 256) for level in (0, 1, 2)] == [256, 1, 0]


@pytest.mark.parametrize("bundle", [b"\0", b"\0\2a", b"\0\1ab"])
def test_a_bundle_that_ends_within_an_entry_is_refused(bundle):
    """Lengths are two bytes each."""
    with pytest.raises(ValueError, match="within an entry"):
        unpack(bundle)


def test_bundles_hold_entries_of_any_length():
    """Up to 65,535 bytes."""
    data = [b"", b"a", b"x" * 65_535]
    assert unpack(pack(data)) == data


@pytest.mark.parametrize("sizes", [[1], [255], [256], [257], [1, 1, 1], [200, 200, 200], [512, 1], [1000, 300]])
def test_any_batches_give_the_tree_that_pymerkle_gives(log, tmp_path, sizes):
    """Root, every tile at level 0, and every entry."""
    total, tree = 0, InmemoryTree(algorithm="sha256")
    for size in sizes:
        assert log.append(entries(total, total + size)) == list(range(total, total + size))
        total += size
    for entry in entries(0, total):
        tree.append_entry(entry)
    checkpoint = log.published()
    assert (checkpoint.head.size, checkpoint.head.root) == (total, tree.get_root())
    assert list(log.reader(checkpoint).entries()) == entries(0, total)
    stored = b"".join(
        (tmp_path / "log" / tile_path(0, n, width_at(0, n, total))).read_bytes() for n in range(-(-total // 256))
    )
    assert stored == b"".join(leaf_hash(entry) for entry in entries(0, total))


def test_a_level_two_tile(log, tmp_path):
    """65,536 entries and some: three levels of tiles, and proofs across them."""
    log.append(entries(0, 65_700))
    assert (tmp_path / "log" / "tile/1/000").stat().st_size == 8192
    assert (tmp_path / "log" / "tile/2/000.p/1").stat().st_size == 32
    assert (tmp_path / "log" / "tile/entries/256.p/164").is_file()
    head = log.published().head
    for index in (0, 65_535, 65_536, 65_699):
        log.prove(index).trusted(b"entry %d" % index, origin=ORIGIN, keys=[KEY])
    reader = log.reader(log.published())
    for old in (1, 256, 300, 65_536, 65_600):
        assert extends(old, reader.root(old), head.size, head.root, reader.consistency(old))


def test_an_entry_that_is_there_keeps_its_place(log, open_log):
    """A retried append changes nothing, within a batch, across batches and after opening again."""
    assert log.append([b"a", b"b", b"a"]) == [0, 1, 0]
    before = log.published()
    assert log.append([b"b", b"a"]) == [1, 0]
    assert log.published() == before
    again = open_log()
    assert again.append([b"c", b"b"]) == [2, 1]
    assert again.find(b"c") == 2
    assert again.find(b"d") is None


def test_the_table_of_places_is_made_again_when_it_is_lost_or_damaged(log, open_log, tmp_path):
    """It is never believed beyond the head."""
    log.append(entries(0, 300))
    table = tmp_path / "log" / ".state" / "index.sqlite"
    table.write_bytes(b"not a database" * 300)
    assert open_log().append([b"entry 7"]) == [7]
    shutil.rmtree(tmp_path / "log" / ".state" / "index.sqlite", ignore_errors=True)
    table.unlink()
    assert open_log().append([b"entry 299", b"new"]) == [299, 300]


def test_two_processes_append_to_one_log(log, tmp_path):
    """Every entry once, every process's in its order."""
    workers = [multiprocessing.get_context("fork").Process(target=_append, args=(tmp_path, n)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    found = list(log.reader(log.published()).entries())
    assert len(found) == len(set(found)) == 24
    for n in range(2):
        mine = [entry for entry in found if entry.startswith(b"%d:" % n)]
        assert mine == [b"%d:%d" % (n, k) for k in range(12)]


def _append(tmp_path, n):
    from veristate.attest import UNWITNESSED

    log = TileLog.open(tmp_path / "log", origin=ORIGIN, key=fixed_key(1), quorum=UNWITNESSED)
    for k in range(12):
        log.append([b"%d:%d" % (n, k)])


@pytest.mark.parametrize("entry", [b"", b"x" * 65_536])
def test_an_entry_that_can_not_be_held_is_refused_with_its_batch(log, entry):
    """Empty, or larger than two bytes can say."""
    with pytest.raises(InputError, match="log digests"):
        log.append([b"good", entry])
    assert log.published().head.size == 0


def test_another_key_or_origin_can_not_open_the_log(log, open_log):
    """Its head is not theirs."""
    log.append([b"a"])
    with pytest.raises(TamperError, match="no key of"):
        open_log(key=fixed_key(9))
    with pytest.raises(TamperError, match="not of"):
        open_log(origin="other.example/log")


def test_a_head_that_names_what_is_not_on_the_disk_is_refused(log, open_log, tmp_path):
    """A missing tile, a changed hash, a changed entry, a state that is gone."""
    log.append(entries(0, 20))
    folder = tmp_path / "log"
    for path in ("tile/0/000.p/20", "tile/entries/000.p/20"):
        kept = (folder / path).read_bytes()
        (folder / path).write_bytes(kept[:-1] + b"\xff")
        with pytest.raises(TamperError, match="fsck"):
            open_log()
        (folder / path).unlink()
        with pytest.raises(TamperError, match="missing"):
            open_log()
        (folder / path).write_bytes(kept)
    open_log()
    (folder / ".state" / "integrated").unlink()
    with pytest.raises(TamperError, match="integrated"):
        open_log()


def test_proofs_are_made_at_the_size_of_the_published_head(open_log):
    """A proof from the current tree beside an older head reads invalid (a public bug): here both are the head's."""
    log = open_log(quorum=QUORUM)
    log.append(entries(0, 10))
    log.publish(cosigned(log.integrated()))
    log.append(entries(10, 30))
    proof = log.prove(3)
    assert proof.checkpoint.head.size == 10
    proof.trusted(b"entry 3", origin=ORIGIN, keys=[KEY])
    with pytest.raises(InputError, match="10 entries"):
        log.prove(10)
    log.publish(cosigned(log.integrated()))
    log.prove(10).trusted(b"entry 10", origin=ORIGIN, keys=[KEY])


def test_an_old_head_is_still_readable_after_its_partial_tiles_became_full(log):
    """Partial files may go once the full one is there."""
    log.append(entries(0, 100))
    old = log.published()
    log.append(entries(100, 600))
    reader = log.reader(old)
    assert list(reader.entries()) == entries(0, 100)
    assert reader.root() == old.head.root
    assert LogProof(index=7, hashes=reader.inclusion(7), checkpoint=old).trusted(b"entry 7", origin=ORIGIN, keys=[KEY])


def test_without_a_quorum_nothing_is_published(open_log, tmp_path):
    """Fail closed: the integrated head stands, the published one stays what it was, and both can be seen."""
    log = open_log(quorum=QUORUM)
    log.append(entries(0, 5))
    assert not (tmp_path / "log" / "checkpoint").exists()
    with pytest.raises(InputError, match="not cosigned"):
        log.published()
    with pytest.raises(RefusedError, match="0 of 1"):
        log.publish(log.integrated().note)
    log.publish(cosigned(log.integrated()))
    log.append(entries(5, 9))
    with pytest.raises(RefusedError):
        log.publish(log.integrated().note)
    assert (log.published().head.size, log.integrated().head.size) == (5, 9)


def test_a_log_whose_quorum_was_set_later_does_not_show_its_unwitnessed_head(log, open_log):
    """Asking for witnesses makes the old head unpublished."""
    log.append(entries(0, 5))
    with pytest.raises(RefusedError, match="0 of 1"):
        open_log(quorum=QUORUM).published()


def test_only_a_head_of_this_log_is_published(open_log):
    """Signed by its key, with its root; and never an older one over a newer."""
    log = open_log(quorum=QUORUM)
    log.append(entries(0, 5))
    first = cosigned(log.integrated())
    forged = Head(origin=ORIGIN, size=5, root=b"x" * 32)
    note = Note(text=str(forged), signatures=(sign_note(str(forged), KEY, fixed_key(1)),))
    with pytest.raises(TamperError, match="another root"):
        log.publish(cosigned(Checkpoint(head=forged, note=note)))
    log.append(entries(5, 9))
    log.publish(cosigned(log.integrated()))
    log.publish(first)
    assert log.published().head.size == 9


def test_a_proof_file_reads_back_and_verifies(log):
    """C2SP tlog-proof, with and without extra data, which nothing authenticates."""
    log.append(entries(0, 300))
    for extra in (None, b"", b"\x00more"):
        proof = replace(log.prove(123), extra=extra)
        again = LogProof.parse(str(proof).encode())
        assert again == proof
        assert again.trusted(b"entry 123", origin=ORIGIN, keys=[KEY]).size == 300
    lines = str(log.prove(123)).split("\n")
    assert lines[:2] == ["c2sp.org/tlog-proof@v1", "index 123"]
    assert lines[lines.index("") + 1] == ORIGIN


def test_a_proof_of_another_entry_does_not_verify(log):
    """The proof names no artifact by itself: it is compared with the very bytes (a public bug was not)."""
    log.append(entries(0, 300))
    proof = log.prove(123)
    with pytest.raises(TamperError, match="does not lead"):
        proof.trusted(b"entry 124", origin=ORIGIN, keys=[KEY])
    with pytest.raises(TamperError, match="does not lead"):
        replace(proof, index=124).trusted(b"entry 123", origin=ORIGIN, keys=[KEY])


def test_a_root_that_nobody_signed_is_no_root(log):
    """A proof that leads to a root in an unsigned, or foreign, checkpoint is refused (a public bug took it)."""
    log.append(entries(0, 3))
    proof = log.prove(1)
    root = hashlib.sha256(b"\0mine").digest()
    head = Head(origin=ORIGIN, size=1, root=root)
    for note in (
        Note(text=str(head), signatures=()),
        Note(text=str(head), signatures=proof.checkpoint.note.signatures),
        Note(text=str(head), signatures=(sign_note(str(head), note_key(ORIGIN, 9), fixed_key(9)),)),
    ):
        forged = LogProof(index=0, hashes=(), checkpoint=Checkpoint(head=head, note=note))
        with pytest.raises(TamperError):
            forged.trusted(b"mine", origin=ORIGIN, keys=[KEY])


def test_every_changed_byte_of_a_proof_is_seen_but_in_what_nothing_covers(log):
    """Lines of unknown keys are free, and so is `extra`; everything else is the proof."""
    log.append(entries(0, 20))
    data = str(log.prove(7)).encode()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((InputError, TamperError)):
            LogProof.parse(changed).trusted(b"entry 7", origin=ORIGIN, keys=[KEY])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"c2sp.org/tlog-proof@v1\n",
        b"c2sp.org/tlog-proof@v2\nindex 0\n\nx",
        b"c2sp.org/tlog-proof@v1\nindex 01\n\nx",
        b"c2sp.org/tlog-proof@v1\nindex -1\n\nx",
        b"c2sp.org/tlog-proof@v1\nextra !\nindex 0\n\nx",
        b"c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\nx",
    ],
)
def test_what_is_no_proof_file_is_refused(data):
    """Another version, another spelling, short hashes."""
    with pytest.raises(InputError, match=r"tlog-proof|signed note"):
        LogProof.parse(data)


def test_a_damaged_tile_gives_no_proof(log, tmp_path):
    """A proof that would not verify is not handed out."""
    log.append(entries(0, 300))
    path = tmp_path / "log" / "tile" / "0" / "000"
    data = path.read_bytes()
    path.write_bytes(data[:3200] + bytes(32) + data[3232:])
    reader = log.reader(log.published())
    with pytest.raises(TamperError, match="root"):
        reader.inclusion(7)
    with pytest.raises(TamperError):
        reader.consistency(100)
    with pytest.raises(TamperError, match="fsck"):
        list(reader.entries())


def test_times_do_not_depend_on_where_the_machine_is(tmp_path):
    """In Kathmandu a fresh cosignature is not early and a clock gives UTC (a public bug read naive times as local)."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from attest_cases import fixed_key, note_key
from veristate.attest import Head, NoteKind, Quorum
from veristate.attest.signing import Note, cosign_note, unix_seconds
from veristate.core import utc_now
import datetime
w = note_key("w", 2, NoteKind.WITNESS)
text = str(Head(origin="o", size=1, root=b"r" * 32))
note = Note(text=text, signatures=(cosign_note(text, w, fixed_key(2), unix_seconds()),))
Quorum(members=(w,), threshold=1).require(note, unix_seconds())
told = datetime.datetime.fromisoformat(utc_now())
assert abs(told.timestamp() - unix_seconds()) < 5, told
"""
    here = str(Path(__file__).parent)
    env = os.environ | {"TZ": "Asia/Kathmandu"}
    done = subprocess.run([sys.executable, "-c", code, here], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
