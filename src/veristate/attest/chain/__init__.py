"""Anchoring on an EVM chain: contracts of ours, and a client that knows submitted, mined, safe and final apart.

Needs the `chain` extra and the JSON-RPC address of a node. A head is anchored when its state is FINAL, not before.
"""

from veristate.attest.chain.anchorer import Anchorer, Prove, deploy, deployed_at
from veristate.attest.chain.contracts import Contract, ContractName, contract
from veristate.attest.chain.evm import Account, Fees
from veristate.attest.chain.fees import GWEI, FeePolicy
from veristate.attest.chain.rows import Call
from veristate.attest.chain.rpc import HttpNode, NodeRefusedError, Rpc
from veristate.attest.chain.states import Block, Move, Standing, State
from veristate.attest.chain.transactions import Transactions

__all__ = [
    "GWEI",
    "Account",
    "Anchorer",
    "Block",
    "Call",
    "Contract",
    "ContractName",
    "FeePolicy",
    "Fees",
    "HttpNode",
    "Move",
    "NodeRefusedError",
    "Prove",
    "Rpc",
    "Standing",
    "State",
    "Transactions",
    "contract",
    "deploy",
    "deployed_at",
]
