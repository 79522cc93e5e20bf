"""The independent reading of a log: it shares nothing with the code that writes, and misses no changed byte."""

import ast
import random
import shutil
from pathlib import Path

import pytest
from attest_cases import NOW, ORIGIN, fixed_key, note_key
from cryptography.exceptions import InvalidSignature

from veristate.attest import NoteKind, Quorum, TileLog, Witness, check_log, witness_head
from veristate.attest.log import LogFindingKind, fsck
from veristate.attest.log.fsck.head import Signer, read_head
from veristate.attest.signing import cosign_note

KEY = str(note_key(ORIGIN, 1))


@pytest.fixture
def whole(log, tmp_path):
    """A log of 600 entries in three batches."""
    for start in (0, 200, 400):
        log.append([b"entry %d" % n for n in range(start, start + 200)])
    return tmp_path / "log"


def public_files(folder):
    """The files a stranger sees."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and ".state" not in path.parts)


def kinds(folder):
    """The kinds of what is found."""
    return {finding.kind for finding in check_log(folder, KEY).findings}


def test_it_imports_nothing_of_ours():
    """Standard library and cryptography alone; its own modules aside."""
    for module in Path(fsck.__file__).parent.glob("*.py"):
        tree = ast.parse(module.read_text())
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        strange = [name for name in names if name and not name.startswith(fsck.__name__ + ".")]
        assert not [name for name in strange if name.startswith("veristate")], module.name


def test_a_whole_log_is_whole_and_every_entry_is_handed_over(whole):
    """In order, with its index."""
    seen = []
    report = check_log(whole, KEY, each=lambda index, entry: seen.append((index, entry)))
    assert (report.origin, report.size, report.findings, report.whole) == (ORIGIN, 600, (), True)
    assert seen == [(n, b"entry %d" % n) for n in range(600)]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 512, 513])
def test_any_size_is_whole(log, tmp_path, size):
    """Where tiles are partial, full, and absent."""
    if size:
        log.append([b"entry %d" % n for n in range(size)])
    report = check_log(tmp_path / "log", KEY)
    assert (report.size, report.findings) == (size, ())


def test_three_levels_are_whole(log, tmp_path):
    """More than 65,536 entries."""
    log.append([b"%d" % n for n in range(65_800)])
    assert check_log(tmp_path / "log", KEY).findings == ()


def test_any_changed_byte_in_any_file_is_found(whole):
    """Tiles, older partial tiles, bundles, checkpoint: a bit flipped, the last byte gone, one added."""
    random.seed(3)
    for path in public_files(whole):
        data = path.read_bytes()
        places = random.sample(range(len(data)), min(12, len(data)))
        for changed in [
            *(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in places),
            data[:-1],
            data + b"\0",
        ]:
            path.write_bytes(changed)
            report = check_log(whole, KEY)
            assert not report.whole, (path, changed[:40])
        path.write_bytes(data)
    assert check_log(whole, KEY).whole


def test_every_changed_bit_of_an_entrys_length_is_found(whole):
    """Also the last entry's, which then claims more bytes than the bundle has."""
    path = whole / "tile/entries/002.p/88"
    data, at = path.read_bytes(), 0
    while at < len(data):
        for bit in range(16):
            changed = bytearray(data)
            changed[at + bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            found = {finding.path for finding in check_log(whole, KEY).findings}
            assert "tile/entries/002.p/88" in found, (at, bit)
        at += 2 + int.from_bytes(data[at : at + 2], "big")


def test_an_older_partial_bundle_that_was_cut_or_lengthened_is_found(log, tmp_path):
    """At every byte of its last entry, and by the beginning of the next."""
    log.append([b"entry 1", b"entry 2"])
    log.append([b"entry 3"])
    folder = tmp_path / "log"
    path, later = folder / "tile/entries/000.p/2", folder / "tile/entries/000.p/3"
    data = path.read_bytes()
    assert later.read_bytes().startswith(data)
    for length in {*range(1, later.stat().st_size + 1)} - {len(data)}:
        path.write_bytes(later.read_bytes()[:length])
        assert not check_log(folder, KEY).whole, length - len(data)
    path.write_bytes(data)
    assert check_log(folder, KEY).whole


def test_a_full_tile_may_stand_for_the_beginning_that_is_published(tmp_path):
    """Where a quorum keeps the published head behind, files hold more entries than it claims, and none is wrong."""
    witness = note_key("w.example", 2, NoteKind.WITNESS)
    quorum = Quorum(members=(witness,), threshold=1)
    log = TileLog.open(tmp_path / "log", origin=ORIGIN, key=fixed_key(1), quorum=quorum)
    log.append([b"entry %d" % n for n in range(250)])
    keeper = Witness(tmp_path / "w", name="w.example", key=fixed_key(2), logs=[note_key(ORIGIN, 1)])
    witness_head(log, [(witness, keeper.add_checkpoint)]).require()
    log.append([b"entry %d" % n for n in range(250, 260)])
    report = check_log(tmp_path / "log", KEY, witnesses=[str(witness)])
    assert (report.size, report.whole, report.cosigned) == (250, True, ("w.example",))
    assert {finding.kind for finding in report.findings} <= {LogFindingKind.UNCLAIMED}


@pytest.mark.parametrize("path", ["tile/00/000", "tile/0/x000/000", "tile/entries/x000/000", "tile/0/1"])
def test_a_place_spelt_otherwise_is_a_stray(whole, path):
    """It would be compared with nothing else."""
    (whole / path).parent.mkdir(parents=True, exist_ok=True)
    (whole / path).write_bytes(b"junk")
    assert [(f.kind, f.path) for f in check_log(whole, KEY).findings] == [(LogFindingKind.STRAY, path)]


def test_the_log_s_own_key_is_the_log_s_whatever_else_it_is_called(whole):
    """Among witnesses it changes nothing; a key of a witness's kind is no log's."""
    assert check_log(whole, KEY, witnesses=[KEY]).whole
    other = check_log(whole, str(note_key(ORIGIN, 9, NoteKind.WITNESS)))
    assert [f.kind for f in other.findings] == [LogFindingKind.SIGNATURE]


def test_a_missing_file_is_named(whole):
    """Each in turn; a partial file is missed only by its own head."""
    for path in public_files(whole):
        data = path.read_bytes()
        path.unlink()
        report = check_log(whole, KEY)
        name = path.relative_to(whole).as_posix()
        claimed = ".p/" not in name or name.endswith((".p/88", "1/000.p/2"))
        assert report.whole != claimed, name
        if claimed and name != "checkpoint":
            assert name in {finding.path for finding in report.findings}
        path.write_bytes(data)


def test_entries_that_were_exchanged_are_found(whole):
    """All lengths and bytes are there, in another order."""
    path = whole / "tile/entries/000"
    data = path.read_bytes()
    path.write_bytes(
        data.replace(b"entry 11", b"entry XX", 1)
        .replace(b"entry 12", b"entry 11", 1)
        .replace(b"entry XX", b"entry 12", 1)
    )
    assert kinds(whole) == {LogFindingKind.ENTRY, LogFindingKind.TILE, LogFindingKind.ROOT}


def test_a_log_rewritten_with_its_tiles_has_another_root(whole, open_log, tmp_path):
    """Whoever rewrites everything but can't sign is found by the root."""
    from veristate.attest import UNWITNESSED, TileLog

    other = tmp_path / "other"
    forged = TileLog.open(other, origin=ORIGIN, key=fixed_key(9), quorum=UNWITNESSED)
    for start in (0, 200, 400):
        forged.append([b"entry %d" % (n if n != 77 else 0xBAD) for n in range(start, start + 200)])
    shutil.copy(whole / "checkpoint", other / "checkpoint")
    assert kinds(other) == {LogFindingKind.ROOT}


def test_a_checkpoint_of_another_key_or_origin_is_not_read_further(whole):
    """Nothing is said of a log whose head nobody known signed."""
    assert kinds(whole) == set()
    report = check_log(whole, str(note_key(ORIGIN, 9)))
    assert [(f.kind, f.path) for f in report.findings] == [(LogFindingKind.SIGNATURE, "checkpoint")]
    assert not check_log(whole, str(note_key("other.example", 1))).whole


def test_every_changed_bit_of_the_head_is_found_witness_lines_too(whole):
    """Where the witness's key is given: its line is broken, or is somebody else's, which is told as not judged."""
    key = note_key("w.example", 2, NoteKind.WITNESS)
    path = whole / "checkpoint"
    text = path.read_bytes().decode()
    signed = text.rpartition("\n\n")[0] + "\n"
    bare = check_log(whole, KEY, witnesses=[str(key)])
    assert (bare.whole, bare.cosigned, bare.unjudged) == (True, (), ())
    data = (text + str(cosign_note(signed, key, fixed_key(2), NOW))).encode()
    path.write_bytes(data)
    unasked = check_log(whole, KEY)
    assert (unasked.whole, unasked.cosigned, unasked.unjudged) == (True, (), ("w.example",))
    right = check_log(whole, KEY, witnesses=[str(key)])
    assert (right.whole, right.cosigned, right.unjudged) == (True, ("w.example",), ())
    log, mine = Signer.parse(KEY), [Signer.parse(str(key))]
    broken = 0
    for at in range(8 * len(data)):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        try:
            head = read_head(bytes(changed), log, mine)
        except (ValueError, InvalidSignature):
            continue
        assert head.cosigned == ()
        assert head.broken or head.unjudged, at
        if head.broken and not broken:
            path.write_bytes(changed)
            report = check_log(whole, KEY, witnesses=[str(key)])
            assert [(f.kind, f.path) for f in report.findings] == [(LogFindingKind.SIGNATURE, "checkpoint")]
            assert "w.example" in report.findings[0].detail
        broken += bool(head.broken)
    assert broken > 8 * 60


def test_files_beyond_the_head_are_harmless_and_strangers_are_not(whole):
    """An append that was cut leaves tiles that no head claims."""
    (whole / "tile/0/002.p/200").write_bytes(bytes(32 * 200))
    report = check_log(whole, KEY)
    assert [f.kind for f in report.findings] == [LogFindingKind.UNCLAIMED]
    assert report.whole
    (whole / "tile/0/readme").write_text("hello")
    assert not check_log(whole, KEY).whole
