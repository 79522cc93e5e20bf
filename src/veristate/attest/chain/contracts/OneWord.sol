// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.35;

/// Single commitments by compare-and-swap on one word per recorder: 48 bits of sequence number, then the first 208 bits
/// of the last commitment. Stored: sequence and predecessor. Derived: the execution id, a hash of chain, contract,
/// recorder and sequence number, which is used once because its number is.
contract OneWord {
    mapping(address recorder => uint256) public word;

    /// `word` is the new one: its number and the commitment's first 26 bytes. The whole commitment is in the call.
    event Anchored(address indexed recorder, uint256 word);

    error WrongWord(uint256 word);
    error NoCommitment();

    function anchor(uint256 expected, bytes32 commitment) external {
        uint256 last = word[msg.sender];
        if (expected != last) revert WrongWord(last);
        if (commitment >> 48 == 0) revert NoCommitment();
        // Checked addition: the number after 2^48 - 1 is an error, not 0.
        uint256 next = ((last & ~uint256(type(uint208).max)) + (1 << 208)) | (uint256(commitment) >> 48);
        word[msg.sender] = next;
        emit Anchored(msg.sender, next);
    }

    /// The id of the recorder's execution with this number.
    function executionId(address recorder, uint48 number) external view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), recorder, number));
    }
}
