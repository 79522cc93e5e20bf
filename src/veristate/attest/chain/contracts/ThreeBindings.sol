// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.35;

/// Single commitments with three bindings, each kept in storage and each refused by an error of its own:
/// the sequence number is one more than the last, the execution id was not used before, the predecessor is the head.
/// The recorder is the sender: nobody can use up somebody else's ids or numbers.
contract ThreeBindings {
    mapping(address recorder => uint64) public sequence;
    mapping(address recorder => bytes32) public head;
    /// The sequence number under which an execution id was used; 0 when it was not.
    mapping(address recorder => mapping(bytes32 executionId => uint64)) public sequenceOf;

    event Anchored(
        address indexed recorder, uint64 indexed sequence, bytes32 indexed executionId, bytes32 predecessor, bytes32 commitment
    );

    error WrongSequence(uint64 expected);
    error ExecutionUsed(uint64 sequence);
    error WrongPredecessor(bytes32 head);
    error NoCommitment();

    function anchor(uint64 number, bytes32 executionId, bytes32 predecessor, bytes32 commitment) external {
        if (commitment == 0) revert NoCommitment();
        uint64 expected = sequence[msg.sender] + 1;
        if (number != expected) revert WrongSequence(expected);
        uint64 used = sequenceOf[msg.sender][executionId];
        if (used != 0) revert ExecutionUsed(used);
        bytes32 last = head[msg.sender];
        if (predecessor != last) revert WrongPredecessor(last);
        sequence[msg.sender] = number;
        sequenceOf[msg.sender][executionId] = number;
        head[msg.sender] = commitment;
        emit Anchored(msg.sender, number, executionId, predecessor, commitment);
    }
}
