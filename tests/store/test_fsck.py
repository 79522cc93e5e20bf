"""fsck: it finds what is wrong, names it, and finds nothing in a store that is whole."""

import random

import pytest

from veristate.store import FindingKind


def kinds(found):
    """The kinds among the findings."""
    return {finding.kind for finding in found}


def blob(store, name):
    """The file of a blob, made writable."""
    path = store.root / "blobs" / name[:2] / name
    path.chmod(0o644)
    return path


def test_a_flipped_bit_is_found_in_any_blob(store):
    """Whichever file is changed, exactly that one is reported."""
    names = [store.put(content) for content in (b"a", b"b" * 10_000, random.Random(1).randbytes(500))]
    for name in names:
        path = blob(store, name)
        stored = path.read_bytes()
        path.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
        (finding,) = store.fsck()
        assert (finding.kind, finding.subject, finding.path) == (FindingKind.DAMAGED, name, path)
        assert not finding.harmless
        path.write_bytes(stored)
    assert store.fsck() == ()


def test_a_missing_chunk_is_found(store):
    """A chunk that a large blob names and that is gone is reported by its digest, with the blob that needs it."""
    name = store.put(random.Random(2).randbytes(5 * 2**20))
    chunk = next(path for path in (store.root / "blobs").rglob("*") if path.is_file() and path.name != name)
    chunk.unlink()
    (finding,) = store.fsck()
    assert (finding.kind, finding.subject) == (FindingKind.CHUNK_MISSING, chunk.name)
    assert name in finding.detail


@pytest.mark.parametrize("place", ["x", "ab/" + "0" * 64, "00/short", "link"])
def test_strays_are_found(store, place):
    """Files that are no blobs, misplaced ones and links are reported, not followed."""
    path = store.root / "blobs" / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("/etc/hostname") if place == "link" else path.write_text("stray")
    assert kinds(store.fsck()) == {FindingKind.STRAY}


def test_a_draft_is_harmless(store):
    """What a killed writer left is reported as harmless and is gone after an exclusive block."""
    (store.root / "drafts" / "1-dead").write_bytes(b"half")
    (finding,) = store.fsck()
    assert finding.kind is FindingKind.DRAFT
    assert finding.harmless
    with store.exclusive():
        assert store.fsck() == ()


def test_a_dangling_tree_is_found_wherever_it_breaks(store, tmp_path):
    """A tree is reported when it, a folder in it or a file in it is missing, or when it is no tree."""
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "file").write_text("content")
    tree = store.snapshot(tmp_path / "work")
    assert store.fsck([tree]) == ()
    for path in [path for path in (store.root / "blobs").rglob("*") if path.is_file()]:
        stored = path.read_bytes()
        path.unlink()
        (finding,) = store.fsck([tree])
        assert (finding.kind, finding.subject) == (FindingKind.TREE_BROKEN, tree)
        path.write_bytes(stored)
    other = store.put(b"no tree")
    assert kinds(store.fsck([other, "nonsense"])) == {FindingKind.TREE_BROKEN}
