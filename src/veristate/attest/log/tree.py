"""The Merkle tree of RFC 6962: hashes, proofs from a source of nodes, and their verification. Pure.

`Node` gives the root of the complete subtree of 2^level leaves that begins at leaf index * 2^level.
"""

import hashlib
from collections.abc import Callable, Sequence

Node = Callable[[int, int], bytes]
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def complete_root(hashes: Sequence[bytes]) -> bytes:
    """The root over `hashes`, whose number is a power of two."""
    level = list(hashes)
    while len(level) > 1:
        level = [node_hash(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]


def range_root(node: Node, start: int, end: int) -> bytes:
    """The root over the leaves from `start` to before `end`; `start` is where a subtree of such a tree begins."""
    width = end - start
    if width & (width - 1) == 0:
        level = width.bit_length() - 1
        return node(level, start >> level)
    split = start + _split(width)
    return node_hash(range_root(node, start, split), range_root(node, split, end))


def inclusion_proof(node: Node, index: int, size: int) -> list[bytes]:
    """The hashes that lead from leaf `index` to the root of the tree of `size` leaves. Source: RFC 9162, 2.1.3.1."""
    start, end, path = 0, size, []
    while end - start > 1:
        split = start + _split(end - start)
        if index < split:
            path.append(range_root(node, split, end))
            end = split
        else:
            path.append(range_root(node, start, split))
            start = split
    return path[::-1]


def consistency_proof(node: Node, old: int, size: int) -> list[bytes]:
    """The hashes that show the tree of `old` leaves to be the beginning of that of `size`; 0 < old <= size.

    Source: RFC 9162, 2.1.4.1.
    """
    start, end, path = 0, size, []
    while old < end:
        split = start + _split(end - start)
        if old <= split:
            path.append(range_root(node, split, end))
            end = split
        else:
            path.append(range_root(node, start, split))
            start = split
    if start > 0:
        path.append(range_root(node, start, end))
    elif old < size and old & (old - 1):
        path.append(range_root(node, 0, old))
    return path[::-1]


def includes(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows that `leaf` stands at `index` in the tree of `size` leaves with that root.

    Source: RFC 9162, 2.1.3.2.
    """
    if not 0 <= index < size:
        return False
    fn, sn, found = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            found = node_hash(sibling, found)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = node_hash(found, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and found == root


def extends(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the tree of `size` leaves continues the one of `old` leaves.

    The empty tree shows nothing: `old` of 0 is never evidence, with any proof. Source: RFC 9162, 2.1.4.2.
    """
    roots = roots_of(old, size, proof, old_root)
    return roots == (old_root, root)


def roots_of(old: int, size: int, proof: Sequence[bytes], old_root: bytes) -> tuple[bytes, bytes] | None:
    """The roots at `old` and at `size` that a consistency proof leads to; None when it has the wrong shape.

    Where `old` is a power of two the proof leaves its root out, so `old_root` is what it begins with.
    """
    if not 0 < old <= size:
        return None
    if old == size:
        return (old_root, old_root) if not proof else None
    if not proof:
        return None
    hashes = list(proof) if old & (old - 1) else [old_root, *proof]
    fn, sn = old - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = hashes[0]
    for sibling in hashes[1:]:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = node_hash(second, sibling)
        fn, sn = fn >> 1, sn >> 1
    return (first, second) if sn == 0 else None


def _split(width: int) -> int:
    """The largest power of two below `width`."""
    return 1 << (width - 1).bit_length() - 1
