"""Tree manifests: one per tree, and none that leads out of a workspace."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import TamperError
from veristate.store import FileEntry, FolderEntry, LinkEntry, Tree

BLOB = "ab" * 32
FILE = {"name": "a", "kind": "file", "mode": "0644", "size": 1, "blob": BLOB}


def manifest(*entries, **changed):
    """A manifest by another writer, with some fields changed."""
    return rfc8785.dumps({"format": "veristate.tree/1", "mode": "0755", "entries": list(entries)} | changed)


@pytest.mark.parametrize("name", ["..", ".", "", "/etc/passwd", "a/b", "../a", "a\0b"])
@pytest.mark.parametrize("rest", [{"kind": "folder", "tree": BLOB}, {"kind": "link", "target": "x"}, FILE])
def test_a_name_that_leads_elsewhere_is_refused(store, tmp_path, name, rest):
    """A manifest with such a name is TamperError, and restoring it makes nothing."""
    tree = store.put(manifest(rest | {"name": name}))
    with pytest.raises(TamperError, match=f"tree {tree} can't be restored: the name"):
        store.restore(tree, tmp_path / "work")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b"not json",
        b"[" * 5000,
        json.dumps({"format": "veristate.tree/1", "mode": "0755", "entries": []}).encode(),
        manifest(format="veristate.tree/2"),
        manifest(mode="755"),
        manifest(mode="0999"),
        manifest(mode=493),
        manifest(more=1),
        manifest(entries={}),
        manifest(FILE, FILE),
        manifest(FILE | {"name": "b"}, FILE),
        manifest(FILE | {"kind": "fifo"}),
        manifest(FILE | {"kind": []}),
        manifest(FILE | {"size": -1}),
        manifest(FILE | {"size": True}),
        manifest(FILE | {"blob": "../../x"}),
        manifest(FILE | {"mode": "10644"}),
        manifest(FILE | {"extra": "x"}),
        manifest({"name_hex": "61", "kind": "link", "target": "x"}),
        manifest({"name": "a", "kind": "link", "target_hex": "78"}),
        manifest({"name": "a", "kind": "link", "target": ""}),
        manifest({"name": 5, "kind": "link", "target": "x"}),
        manifest({"name": "a", "kind": "folder", "tree": None}),
        manifest("a"),
    ],
)
def test_a_manifest_that_no_snapshot_writes_is_refused(data):
    """What is malformed, unknown, twice, unsorted or written another way is TamperError and nothing else."""
    with pytest.raises(TamperError, match="can't be restored"):
        Tree.from_bytes(data, "x")


names = st.binary(min_size=1, max_size=12).filter(lambda n: n not in (b".", b"..") and not set(n) & set(b"/\0"))
modes = st.integers(0, 0o7777)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
entries = st.one_of(
    st.builds(FileEntry, name=names, mode=modes, size=st.integers(0, 2**50), blob=digests),
    st.builds(LinkEntry, name=names, target=st.binary(min_size=1).filter(lambda t: b"\0" not in t)),
    st.builds(FolderEntry, name=names, tree=digests),
)
trees = st.builds(
    lambda mode, found: Tree(mode=mode, entries=tuple(sorted(found, key=lambda e: e.name))),
    modes,
    st.lists(entries, max_size=6, unique_by=lambda entry: entry.name),
)


@given(tree=trees)
def test_reading_undoes_writing(tree):
    """Any tree, whatever bytes its names are, comes back from its manifest, which is plain RFC 8785 JSON."""
    data = tree.to_bytes()
    assert Tree.from_bytes(data, "x") == tree
    assert rfc8785.dumps(json.loads(data)) == data


@given(one=trees, other=trees)
def test_two_trees_have_two_manifests(one, other):
    """Manifests are equal exactly when the trees are."""
    assert (one.to_bytes() == other.to_bytes()) == (one == other)
