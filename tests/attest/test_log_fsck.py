"""The independent reading of a log: it shares nothing with the code that writes, and misses no changed byte."""

import ast
import random
import shutil
from pathlib import Path

import pytest
from attest_cases import ORIGIN, fixed_key, note_key

from veristate.attest import check_log
from veristate.attest.log import LogFindingKind, fsck

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
    """Standard library and cryptography alone."""
    tree = ast.parse(Path(fsck.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [name for name in names if name and name.startswith("veristate")]


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


def test_files_beyond_the_head_are_harmless_and_strangers_are_not(whole):
    """An append that was cut leaves tiles that no head claims."""
    (whole / "tile/0/002.p/200").write_bytes(bytes(32 * 200))
    report = check_log(whole, KEY)
    assert [f.kind for f in report.findings] == [LogFindingKind.UNCLAIMED]
    assert report.whole
    (whole / "tile/0/readme").write_text("hello")
    assert not check_log(whole, KEY).whole
