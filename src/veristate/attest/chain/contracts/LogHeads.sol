// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.35;

/// The newest head of each account's log. A later head is taken only with an RFC 9162 consistency proof from the head
/// that stands: the contract is a witness that can't be talked into a second history.
contract LogHeads {
    struct Head {
        bytes32 root;
        uint64 size;
    }

    mapping(address log => Head) public heads;

    /// The first head: nothing is proven of it.
    event Opened(address indexed log, uint64 size, bytes32 root);
    /// A head proven to hold everything that the one before it held, in the same order.
    event Extended(address indexed log, uint64 size, bytes32 root);

    error AlreadyOpened(uint64 size);
    error NotOpened();
    error EmptyHead();
    error WrongSize(uint64 size);
    error NotLonger();
    error NotConsistent();

    /// Takes the log's first head. A proof from size 0 would be empty and prove nothing, so `extend` takes none.
    function open(uint64 size, bytes32 root) external {
        Head storage head = heads[msg.sender];
        if (head.size != 0) revert AlreadyOpened(head.size);
        if (size == 0) revert EmptyHead();
        head.size = size;
        head.root = root;
        emit Opened(msg.sender, size, root);
    }

    /// Takes a later head of `size` leaves, proven from the one that stands, of `oldSize` leaves.
    function extend(uint64 oldSize, uint64 size, bytes32 root, bytes32[] calldata proof) external {
        Head storage head = heads[msg.sender];
        uint64 stands = head.size;
        if (stands == 0) revert NotOpened();
        if (oldSize != stands) revert WrongSize(stands);
        if (size <= oldSize) revert NotLonger();
        if (!_consistent(oldSize, size, head.root, root, proof)) revert NotConsistent();
        head.size = size;
        head.root = root;
        emit Extended(msg.sender, size, root);
    }

    /// Whether the proof leads to both roots: RFC 9162, section 2.1.4.2, for 0 < oldSize < size.
    function _consistent(uint256 oldSize, uint256 size, bytes32 oldRoot, bytes32 newRoot, bytes32[] calldata proof)
        private
        view
        returns (bool right)
    {
        assembly ("memory-safe") {
            // 65 bytes that are hashed: 0x01, left, right. Nothing was allocated, so they stand where memory is free.
            let node := mload(0x40)
            mstore8(node, 1)
            let left := add(node, 1)
            let at := proof.offset
            let first := sub(oldSize, 1)
            let second := sub(size, 1)
            // The old tree's last whole subtree: where the old tree is nothing else, its root is not in the proof.
            for {} and(first, 1) {} {
                first := shr(1, first)
                second := shr(1, second)
            }
            let oldHash := oldRoot
            if first {
                oldHash := calldataload(at)
                at := add(at, 32)
            }
            let newHash := oldHash
            right := 1
            // Below the node where the ways to the two last leaves part: a sibling on the left belongs to both trees,
            // one on the right to the new tree alone. How many are read depends on the sizes; the end is looked at last.
            for {} xor(first, second) {} {
                switch and(first, 1)
                case 0 {
                    mstore(left, newHash)
                    mstore(add(left, 32), calldataload(at))
                    right := and(right, staticcall(gas(), 2, node, 65, 0, 32))
                    newHash := mload(0)
                }
                default {
                    mstore(left, calldataload(at))
                    mstore(add(left, 32), newHash)
                    right := and(right, staticcall(gas(), 2, node, 65, 0, 32))
                    switch eq(oldHash, newHash)
                    case 0 {
                        newHash := mload(0)
                        mstore(add(left, 32), oldHash)
                        right := and(right, staticcall(gas(), 2, node, 65, 0, 32))
                        oldHash := mload(0)
                    }
                    default {
                        oldHash := mload(0)
                        newHash := oldHash
                    }
                }
                at := add(at, 32)
                first := shr(1, first)
                second := shr(1, second)
            }
            // Above it both ways are one, and only its turns to the right have a sibling, on the left.
            for {} first { first := shr(1, first) } {
                if and(first, 1) {
                    mstore(left, calldataload(at))
                    at := add(at, 32)
                    mstore(add(left, 32), newHash)
                    right := and(right, staticcall(gas(), 2, node, 65, 0, 32))
                    newHash := mload(0)
                    mstore(add(left, 32), oldHash)
                    right := and(right, staticcall(gas(), 2, node, 65, 0, 32))
                    oldHash := mload(0)
                }
            }
            // Too few siblings, or too many, end elsewhere.
            right := and(right, eq(at, add(proof.offset, shl(5, proof.length))))
            right := and(right, and(eq(oldHash, oldRoot), eq(newHash, newRoot)))
        }
    }
}
