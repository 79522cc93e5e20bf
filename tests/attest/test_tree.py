"""The Merkle tree, against pymerkle and against the definition written out."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree

from veristate.attest.log.tree import (
    EMPTY_ROOT,
    consistency_proof,
    extends,
    includes,
    inclusion_proof,
    leaf_hash,
    range_root,
    roots_of,
)

SIZES = [*range(1, 34), 63, 64, 65, 100, 255, 256, 257, 300]


def entries(size):
    """Entries that tell their place."""
    return [b"entry %d" % n for n in range(size)]


def definition(data):
    """MTH of RFC 6962, 2.1, as it stands there."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\0" + data[0]).digest()
    split = 1
    while split * 2 < len(data):
        split *= 2
    return hashlib.sha256(b"\1" + definition(data[:split]) + definition(data[split:])).digest()


def nodes(data):
    """The nodes of complete subtrees, by definition."""
    return lambda level, index: definition(data[index << level : (index + 1) << level])


def other(data):
    """A tree by pymerkle of the same entries."""
    tree = InmemoryTree(algorithm="sha256")
    for entry in data:
        tree.append_entry(entry)
    return tree


@pytest.mark.parametrize("size", SIZES)
def test_roots_are_those_of_the_definition_and_of_pymerkle(size):
    """At every size, odd ones too."""
    data = entries(size)
    root = range_root(nodes(data), 0, size)
    assert root == definition(data) == other(data).get_root()


def test_the_empty_tree_has_the_root_of_nothing():
    """SHA-256 of no bytes, which no leaf and no node has."""
    assert EMPTY_ROOT == definition([]) == hashlib.sha256(b"").digest()


@pytest.mark.parametrize("size", SIZES)
def test_inclusion_proofs_are_pymerkles_and_verify(size):
    """Every index; the same proof leads to no other index and from no other leaf."""
    data = entries(size)
    root, tree = definition(data), other(data)
    for index in range(size):
        proof = inclusion_proof(nodes(data), index, size)
        theirs = tree.prove_inclusion(index + 1).path
        assert [leaf_hash(data[index]), *proof] == theirs or proof == theirs
        assert includes(leaf_hash(data[index]), index, size, proof, root)
        assert not includes(leaf_hash(b"other"), index, size, proof, root)
        assert not includes(leaf_hash(data[index]), index + 1, size, proof, root)


@pytest.mark.parametrize("size", SIZES)
def test_consistency_proofs_verify_from_every_size(size):
    """And from no other root, to no other root."""
    data = entries(size)
    root = definition(data)
    for old in range(1, size + 1):
        old_root = definition(data[:old])
        proof = consistency_proof(nodes(data), old, size)
        assert extends(old, old_root, size, root, proof)
        assert roots_of(old, size, proof, old_root) == (old_root, root)
        assert not extends(old, b"x" * 32, size, root, proof)
        assert not extends(old, old_root, size, b"x" * 32, proof)


def test_the_roots_a_consistency_proof_leads_to_are_pymerkles():
    """Its states at 5 and 9."""
    tree, data = other(entries(9)), entries(9)
    proof = consistency_proof(nodes(data), 5, 9)
    assert roots_of(5, 9, proof, b"") == (tree.get_root(5), tree.get_root(9))


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000])
def test_the_empty_tree_is_no_evidence(size):
    """From size 0 no proof shows anything, the empty one least (a public bug let it verify to any root)."""
    for proof in ([], [b"x" * 32]):
        assert not extends(0, EMPTY_ROOT, size, b"y" * 32, proof)
        assert not extends(0, EMPTY_ROOT, size, EMPTY_ROOT, proof)


def test_an_empty_proof_proves_nothing_but_a_tree_of_one():
    """Neither inclusion nor consistency (two public bugs accepted it)."""
    data = entries(8)
    root = definition(data)
    for index in range(8):
        assert not includes(leaf_hash(data[index]), index, 8, [], root)
        assert not includes(root, index, 8, [], root)
    assert not extends(4, definition(data[:4]), 8, root, [])
    assert not extends(4, root, 8, root, [])
    assert includes(leaf_hash(b"one"), 0, 1, [], leaf_hash(b"one"))


def test_equal_sizes_need_equal_roots_and_no_proof():
    """A proof where there is nothing to prove is refused."""
    assert extends(5, b"r" * 32, 5, b"r" * 32, [])
    assert not extends(5, b"r" * 32, 5, b"s" * 32, [])
    assert not extends(5, b"r" * 32, 5, b"r" * 32, [b"r" * 32])


def test_sizes_that_go_back_are_refused():
    """A smaller tree continues no larger one, and no index is outside its tree."""
    assert not extends(6, b"r" * 32, 5, b"r" * 32, [])
    assert not includes(b"l" * 32, 5, 5, [], b"l" * 32)
    assert not includes(b"l" * 32, -1, 5, [], b"l" * 32)


def test_a_repeated_last_leaf_gives_another_root():
    """CVE-2012-2459: trees that double the last node give one root to two lists."""
    for size in range(1, 40):
        data = entries(size)
        assert definition(data) != definition([*data, data[-1]])
        assert range_root(nodes(data), 0, size) != range_root(nodes([*data, data[-1]]), 0, size + 1)


def test_a_node_can_not_pass_for_a_leaf():
    """Leaves and nodes are hashed apart."""
    data = entries(2)
    joined = leaf_hash(data[0]) + leaf_hash(data[1])
    assert leaf_hash(joined) != definition(data)


@given(st.integers(2, 200), st.data())
def test_no_changed_proof_verifies(size, data):
    """A hash changed, left out, doubled or added."""
    leaves = entries(size)
    root = definition(leaves)
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size - 1))
    for proof, verify in (
        (
            inclusion_proof(nodes(leaves), index, size),
            lambda p: includes(leaf_hash(leaves[index]), index, size, p, root),
        ),
        (consistency_proof(nodes(leaves), old, size), lambda p: extends(old, definition(leaves[:old]), size, root, p)),
    ):
        assert verify(proof)
        at = data.draw(st.integers(0, len(proof) - 1))
        flipped = bytes([proof[at][0] ^ 1]) + proof[at][1:]
        for wrong in (
            [*proof[:at], flipped, *proof[at + 1 :]],
            [*proof[:at], *proof[at + 1 :]],
            [*proof[: at + 1], *proof[at:]],
            [*proof, b"x" * 32],
        ):
            assert not verify(wrong)
